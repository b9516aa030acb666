package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

// extend moves the end of a lease that its holder renewed with the leader.
func (x *entry) extend(c *command.Extend) Result {
	j, ok := x.job(c.NS, c.ID)
	until := min(c.Until, x.leaseLimit(&j))
	if !ok || !j.State.Leased() || j.Epoch != c.Epoch || until <= j.Due {
		return Result{Refusal: WrongState, State: j.State}
	}
	x.txn.Delete(x.m.space.Due(j.due(j.Due, keys.DueLease)))
	j.Due = until
	x.addDue(j.due(until, keys.DueLease), nil)
	x.put(&j)
	return Result{State: j.State}
}

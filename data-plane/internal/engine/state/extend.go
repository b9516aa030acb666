package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

// extend moves the end of a lease that its holder renewed with the leader.
func (x *entry) extend(c *command.Extend) (Result, error) {
	j, ok, err := x.job(c.NS, c.ID)
	if err != nil {
		return Result{}, err
	}
	limit, err := x.leaseLimit(&j)
	if err != nil {
		return Result{}, err
	}
	until := min(c.Until, limit)
	if !ok || !j.State.Leased() || j.Epoch != c.Epoch || until <= j.Due {
		return Result{Refusal: WrongState, State: j.State}, nil
	}
	x.txn.Delete(x.m.space.Due(j.due(j.Due, keys.DueLease)))
	j.Due = until
	x.addDue(j.due(until, keys.DueLease), nil)
	x.put(&j)
	return Result{State: j.State}, nil
}

package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

// extend moves the end of a lease that its holder renewed with the leader.
func (x *entry) extend(c *command.Extend) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil {
		return Result{}, err
	}
	limit, err := x.leaseLimit(c.NS, c.ID, &h)
	if err != nil {
		return Result{}, err
	}
	until := min(c.Until, limit)
	if !ok || !h.State.Leased() || h.Epoch != c.Epoch || until <= h.Due {
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	kind := keys.DueLease
	x.txn.Delete(x.m.space.Due(keys.Due{At: h.Due, Kind: kind, NS: c.NS, ID: c.ID}))
	h.Due = until
	x.addDue(keys.Due{At: h.Due, Kind: kind, NS: c.NS, ID: c.ID}, nil)
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}

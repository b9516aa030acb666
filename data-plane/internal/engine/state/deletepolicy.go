package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

func (x *entry) deletePolicy(c *command.DeletePolicy) Result {
	list := x.policies(c.NS)
	at := slices.IndexFunc(list, func(o records.Policy) bool { return o.ID == c.ID })
	if at < 0 {
		return Result{Refusal: NotFound}
	}
	x.m.policies[c.NS] = slices.Delete(slices.Clone(list), at, at+1)
	x.txn.Delete(x.m.space.Policy(c.NS, c.ID))
	return Result{}
}

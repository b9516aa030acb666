package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

func (x *entry) putPolicy(c *command.PutPolicy) Result {
	list := x.policies(c.NS)
	p := records.Policy{Policy: c.Policy, CreatedAt: x.now}
	list = slices.Clone(list)
	at := slices.IndexFunc(list, func(o records.Policy) bool { return o.ID == p.ID })
	switch {
	case at >= 0:
		p.CreatedAt = list[at].CreatedAt
		list[at] = p
	case len(list) >= PoliciesMax:
		return Result{Refusal: TooMany}
	default:
		list = append(list, p)
		slices.SortFunc(list, func(a, b records.Policy) int { return slices.Compare(a.ID[:], b.ID[:]) })
	}
	x.m.policies[c.NS] = list
	x.txn.Set(x.m.space.Policy(c.NS, p.ID), p.Encode())
	return Result{}
}

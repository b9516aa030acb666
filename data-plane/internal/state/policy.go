package state

import (
	"fmt"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/stateread"
)

// PoliciesMax bounds the approval policies of a namespace: each is compared with each
// new job.
const PoliciesMax = 100

// policies are the approval policies of a namespace, the oldest first; cached like
// budgets.
func (x *entry) policies(ns job.Namespace) ([]records.Policy, error) {
	if list, ok := x.m.policies[ns]; ok {
		return list, nil
	}
	list, err := stateread.ReadPolicies(x.m.store, ns)
	if err != nil {
		return nil, fmt.Errorf("policies of %s: %w", ns, err)
	}
	x.m.policies[ns] = list
	return list, nil
}

func (x *entry) putPolicy(c *command.PutPolicy) (Result, error) {
	list, err := x.policies(c.NS)
	if err != nil {
		return Result{}, err
	}
	p := records.Policy{Policy: c.Policy, CreatedAt: x.now}
	list = slices.Clone(list)
	at := slices.IndexFunc(list, func(o records.Policy) bool { return o.ID == p.ID })
	switch {
	case at >= 0:
		p.CreatedAt = list[at].CreatedAt
		list[at] = p
	case len(list) >= PoliciesMax:
		return Result{Refusal: TooMany}, nil
	default:
		list = append(list, p)
		slices.SortFunc(list, func(a, b records.Policy) int { return slices.Compare(a.ID[:], b.ID[:]) })
	}
	x.m.policies[c.NS] = list
	x.txn.Set(x.m.space.Policy(c.NS, p.ID), p.Encode())
	return Result{}, nil
}

func (x *entry) deletePolicy(c *command.DeletePolicy) (Result, error) {
	list, err := x.policies(c.NS)
	if err != nil {
		return Result{}, err
	}
	at := slices.IndexFunc(list, func(o records.Policy) bool { return o.ID == c.ID })
	if at < 0 {
		return Result{Refusal: NotFound}, nil
	}
	x.m.policies[c.NS] = slices.Delete(slices.Clone(list), at, at+1)
	x.txn.Delete(x.m.space.Policy(c.NS, c.ID))
	return Result{}, nil
}

// policyFor finds the oldest policy that a new job must be approved by; nil if none.
func (x *entry) policyFor(ns job.Namespace, queue string, tags []command.Tag) (*records.Policy, error) {
	list, err := x.policies(ns)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Enabled && list[i].Matches(queue, tags) {
			return &list[i], nil
		}
	}
	return nil, nil
}

// enterApproval holds a new job for a policy. A time it was scheduled for is given up:
// approved, it runs.
func (x *entry) enterApproval(ns job.Namespace, id job.ID, h *records.Head, p *records.Policy) error {
	why := records.Hold{
		Reason: fmt.Sprintf("approval policy %q", p.Name), At: x.now, Policy: p.ID, Approvers: p.Approvers, ApproveAtLast: p.ApproveAtLast,
	}
	if p.Expires > 0 {
		why.Until = x.after(int64(p.Expires))
	}
	h.State = job.Held
	h.Note(records.WasEnqueued, x.now)
	x.event(feed.Enqueued, ns, id, h)
	return x.hold(ns, id, h, why)
}

package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// PoliciesMax bounds the approval policies of a namespace: each is compared with each
// new job.
const PoliciesMax = 100

// policies are the approval policies of a namespace, the oldest first; cached like
// budgets.
func (x *entry) policies(ns job.Namespace) []records.Policy {
	if list, ok := x.m.policies[ns]; ok {
		return list
	}
	list := statedb.Must(stateread.ReadPolicies(x.m.store, ns))
	x.m.policies[ns] = list
	return list
}

// policyFor finds the oldest policy that a new job must be approved by; nil if none.
func (x *entry) policyFor(ns job.Namespace, queue string, tags []command.Tag) *records.Policy {
	list := x.policies(ns)
	for i := range list {
		if list[i].Enabled && list[i].Matches(queue, tags) {
			return &list[i]
		}
	}
	return nil
}

// enterApproval holds a new job for a policy. A time it was scheduled for is given up:
// approved, it runs.
func (x *entry) enterApproval(j *subject, p *records.Policy) {
	why := records.Hold{
		Cause: records.HoldCause{Rule: records.HeldByPolicy, Text: p.Name}, At: x.now, Policy: p.ID,
		Approvers: p.Approvers, ApproveAtLast: p.ApproveAtLast,
	}
	if p.Expires > 0 {
		why.Until = x.after(int64(p.Expires))
	}
	j.State = job.Held
	x.happened(feed.Enqueued, j)
	x.hold(j, why)
}

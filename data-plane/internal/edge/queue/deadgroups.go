package queue

import (
	"cmp"
	"context"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
)

// Limits of error groups.
const (
	ErrorGroupsDefault = 100
	ErrorGroupsMax     = readmodel.DeadGroupsMax
)

// ErrorGroups counts dead jobs by queue and cause, of one queue or ("") of all.
func (v *Views) ErrorGroups(ctx context.Context, c Caller, queue string, limit int) (wire.ErrorGroupList, error) {
	var bad checker
	if queue != "" {
		if msg := checkQueueName(queue); msg != "" {
			bad.failf("queue", "%s", msg)
		}
	}
	limit = cmp.Or(limit, ErrorGroupsDefault)
	bad.size(limit, ErrorGroupsMax)
	if err := cmp.Or(bad.err(), v.leads()); err != nil {
		return wire.ErrorGroupList{}, err
	}
	only, err := c.within(queue, permission.JobList, permission.PayloadRead) // A group is an error.
	if err != nil {
		return wire.ErrorGroupList{}, err
	}
	d, err := v.model.DeadGroups(ctx, c.Namespace, c.reader(false), queue, only, limit)
	if err != nil {
		return wire.ErrorGroupList{}, err
	}
	p := viewPage(&d.Page)
	return wire.ErrorGroupList{
		Groups: each(d.Groups, viewErrorGroup), TotalGroups: d.All, TotalJobs: d.Jobs, TotalExact: d.Exact(), HasMore: d.All > len(d.Groups),
		LagMS: p.LagMS, Rebuilding: p.Rebuilding, Rebuild: p.Rebuild, AsOf: p.AsOf,
	}, nil
}

func viewErrorGroup(g *readmodel.DeadGroup) wire.ErrorGroup {
	return wire.ErrorGroup{
		ID: g.Cause.String(), Queue: g.Queue, Error: g.Pattern, DeadReason: wire.DeadReason(g.Reason.String()), Count: g.Jobs,
		FirstAt: whenOrNull(g.First), LastAt: whenOrNull(g.Last), Sample: wire.ErrorSample{JobID: g.Sample.String(), Error: g.SampleError},
	}
}

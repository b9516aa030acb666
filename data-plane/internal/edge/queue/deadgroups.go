package queue

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Limits of error groups.
const (
	ErrorGroupsDefault = 100
	ErrorGroupsMax     = readmodel.DeadGroupsMax
)

// ErrorGroup is the dead jobs of one queue with the same cause.
type ErrorGroup struct {
	ID         string // For JobFilter.ErrorGroup.
	Queue      string
	Pattern    string // Of the error, "" if DeadReason tells.
	DeadReason string // Of the sample.
	Jobs       int64
	// When the first and the latest of them died; the latest is the sample.
	FirstAt, LastAt time.Time
	SampleID        job.ID
	SampleError     string
}

// ErrorGroups are the largest groups of dead jobs.
type ErrorGroups struct {
	Groups []ErrorGroup
	JobPage
	// All groups, and the dead jobs in all of them.
	All       int
	TotalJobs int64
	// Exact: the counts are current.
	Exact bool
}

// ErrorGroups counts dead jobs by queue and cause, of one queue or ("") of all.
func (v *Views) ErrorGroups(ctx context.Context, c Caller, queue string, limit int) (ErrorGroups, error) {
	var bad checker
	if queue != "" {
		if msg := checkQueueName(queue); msg != "" {
			bad.failf("queue", "%s", msg)
		}
	}
	if limit == 0 {
		limit = ErrorGroupsDefault
	}
	if limit < 1 || limit > ErrorGroupsMax {
		bad.failf("limit", "must be between 1 and %d", ErrorGroupsMax)
	}
	if len(bad) > 0 {
		return ErrorGroups{}, fault.InvalidFields(bad)
	}
	if err := v.leads(); err != nil {
		return ErrorGroups{}, err
	}
	d, err := v.model.DeadGroups(ctx, c.Namespace, queue, limit)
	if err != nil {
		return ErrorGroups{}, err
	}
	out := ErrorGroups{
		Groups: make([]ErrorGroup, len(d.Groups)), All: d.All, TotalJobs: d.Jobs, Exact: d.Exact(),
		JobPage: JobPage{AsOf: d.AsOf, Lag: d.Lag, Rebuilding: d.Rebuilding, Rebuilt: d.Rebuilt, ToRebuild: d.ToRebuild},
	}
	for i := range d.Groups {
		g := &d.Groups[i]
		out.Groups[i] = ErrorGroup{
			ID: g.Cause.String(), Queue: g.Queue, Pattern: g.Pattern, DeadReason: g.Reason.String(), Jobs: g.Jobs,
			FirstAt: when(g.First), LastAt: when(g.Last), SampleID: g.Sample, SampleError: g.SampleError,
		}
	}
	return out, nil
}

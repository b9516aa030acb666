package server

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// ungoverned is the part of the use cases about money that most tests do without.
type ungoverned struct{}

func (ungoverned) UsageSummary(_ context.Context, _ queue.Caller, in queue.UsageQuery) (queue.UsageSummary, error) {
	used := queue.Usage{InputTokens: 7, Cost: job.NanosPerDollar / 10, Count: 1}
	return queue.UsageSummary{
		Period: in.Period, From: time.Unix(0, 0).UTC(), To: time.Unix(3600, 0).UTC(), Totals: used,
		Groups: []queue.UsageGroup{{Key: in.GroupBy, Usage: used}},
	}, nil
}

func (ungoverned) Iterations(_ context.Context, _ queue.Caller, _ job.ID, _, _ int) (queue.IterationPage, error) {
	return queue.IterationPage{}, errNoJob()
}

func (ungoverned) Replay(_ context.Context, _ queue.Caller, _ job.ID, _ int, _ string) (queue.EnqueueResult, error) {
	return queue.EnqueueResult{}, errNoJob()
}

func (ungoverned) Budgets(context.Context, queue.Caller) ([]queue.Budget, error) { return nil, nil }

func (ungoverned) SetBudget(_ context.Context, _ queue.Caller, in queue.Budget) (queue.Budget, error) {
	return in, nil
}

func (ungoverned) DeleteBudget(context.Context, queue.Caller, string, string) error {
	return errNoJob()
}

func (ungoverned) Policies(context.Context, queue.Caller) ([]queue.Policy, error) { return nil, nil }

func (ungoverned) SetPolicy(_ context.Context, _ queue.Caller, in queue.Policy) (queue.Policy, error) {
	return in, nil
}

func (ungoverned) DeletePolicy(context.Context, queue.Caller, job.PolicyID) error {
	return errNoPolicy()
}

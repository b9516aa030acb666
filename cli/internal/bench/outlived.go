package bench

import (
	"context"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

const (
	// outlivedSample is how many jobs go through the server that was started again.
	outlivedSample = 10_000
	// looksMax is how many finished jobs are looked at.
	looksMax = 100
)

// outlived moves a run whose server was killed to the one that was started on the same
// data, and checks that all is there: the counts, some of the finished jobs, and, by
// fetching and acking them, some of those that waited. The ledger is the one of before the kill,
// so a job that ended before it and is handed out again is a duplicate.
func (r *run) outlived(ctx context.Context, t *Target) (*Report, error) {
	r.opts.aim(t)
	r.target, r.dialer.server, r.dialer.apiKey = t, r.opts.Server, r.opts.APIKey
	before := r.ledger.balance(r.kept())
	r.problems = nil
	if err := r.compareCounts(ctx, before); err != nil {
		r.problems = append(r.problems, err.Error())
	}
	r.lookAtFinished(ctx)
	for i := range r.problems {
		r.problems[i] = "after kill -9: " + r.problems[i]
	}
	report := newReport(r.opts, t.durability(ctx, r.opts), r.machine)
	if len(r.problems) > 0 { // A fetch would wait for jobs that are gone.
		report.Check, report.Problems = before, r.problems
		return report, nil
	}
	if err := r.workSample(ctx, report, before.Remaining); err != nil {
		return nil, err
	}
	r.verify(ctx, report)
	return report, nil
}

// workSample takes some of the jobs that wait, or of new ones where none do.
func (r *run) workSample(ctx context.Context, report *Report, waiting int) (err error) {
	sample := min(waiting, outlivedSample)
	if waiting == 0 {
		sample = outlivedSample
		if err := r.untimed(ctx, "fill", sample, r.enqueueLoop); err != nil {
			return err
		}
	}
	r.opts.Jobs, r.opts.Backlog = sample, max(0, waiting-sample)
	report.Jobs, report.Backlog = r.opts.Jobs, r.opts.Backlog
	report.Phase, err = r.timed(ctx, sample, r.workLoop)
	return err
}

func (r *run) lookAtFinished(ctx context.Context) {
	looks := looksMax
	for _, b := range r.ledger.books {
		for _, id := range b.samples[:min(looks, len(b.samples))] {
			job, err := ask[wire.Job](ctx, r.target, r.opts, "/jobs/"+id)
			if err != nil {
				r.problems = append(r.problems, fmt.Sprintf("look at %s, which was completed: %v", id, err))
				return
			}
			if job.State != wire.Completed {
				r.problems = append(r.problems, fmt.Sprintf("%s was completed and is %s", id, job.State))
			}
			looks--
		}
	}
}

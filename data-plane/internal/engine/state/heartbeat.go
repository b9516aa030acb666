package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// reportRunning counts what the worker of a running job reports, and stops the job with
// the report that makes it too dear, or dearer than a stricter budget allows. Once a
// person let it run again, it may end its attempt.
func (x *entry) reportRunning(c *command.Heartbeat, j *subject) error {
	told := j.Has(records.FlagOverBudget)
	before, err := x.overspent(j)
	if err != nil {
		return err
	}
	if err := x.report(j, c.Usage); err != nil || !j.Has(records.FlagOverBudget) {
		return err
	}
	over, err := x.overspent(j)
	if err != nil || over == nil || j.State != job.Active {
		return err
	}
	if told && before != nil && severity(before.On) >= severity(over.On) {
		return nil
	}
	return x.stopOverspent(j, over)
}

// heartbeat confirms a lease and stores the news it brings.
func (x *entry) heartbeat(c *command.Heartbeat) (Result, error) {
	j, res, err := x.leased(c.NS, c.ID, c.By)
	if err != nil || res.Refusal != Accepted {
		return res, err
	}
	if c.Progress != nil {
		x.txn.Set(x.m.space.Job(c.NS, keys.Progress, c.ID), c.Progress)
		j.Flags |= records.FlagProgress
		x.event(feed.Progress, &j)
	}
	x.storeCheckpoint(&j, c.Checkpoint)
	if c.Usage != nil {
		if err := x.reportRunning(c, &j); err != nil {
			return Result{}, err
		}
	}
	x.put(&j)
	res.State, res.Cancel, res.Over = j.State, j.State == job.Cancelling, j.StoppedByBudget()
	return res, nil
}

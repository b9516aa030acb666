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
func (x *entry) reportRunning(c *command.Heartbeat, j *subject) {
	told := j.Has(records.FlagOverBudget)
	before := x.overspent(j)
	x.report(j, c.Usage)
	if !j.Has(records.FlagOverBudget) {
		return
	}
	over := x.overspent(j)
	if over == nil || j.State != job.Active {
		return
	}
	if told && before != nil && severity(before.On) >= severity(over.On) {
		return
	}
	x.stopOverspent(j, over)
}

// heartbeat confirms a lease and stores the news it brings.
func (x *entry) heartbeat(c *command.Heartbeat) Result {
	j, res := x.leased(c.NS, c.ID, c.By)
	if res.Refusal != Accepted {
		return res
	}
	if c.Progress != nil {
		x.txn.Set(x.m.space.Job(c.NS, keys.Progress, c.ID), c.Progress)
		j.Flags |= records.FlagProgress
		x.event(feed.Progress, &j)
	}
	x.storeCheckpoint(&j, c.Checkpoint)
	if c.Usage != nil {
		x.reportRunning(c, &j)
	}
	x.put(&j)
	res.State, res.Cancel, res.Over = j.State, j.State == job.Cancelling, j.StoppedByBudget()
	return res
}

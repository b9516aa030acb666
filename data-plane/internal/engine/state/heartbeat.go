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
func (x *entry) reportRunning(c *command.Heartbeat, h *records.Head) error {
	told := h.Has(records.FlagOverBudget)
	before, err := x.overspent(c.NS, c.ID, h)
	if err != nil {
		return err
	}
	if err := x.report(c.NS, c.ID, h, c.Usage); err != nil || !h.Has(records.FlagOverBudget) {
		return err
	}
	over, err := x.overspent(c.NS, c.ID, h)
	if err != nil || over == nil || h.State != job.Active {
		return err
	}
	if told && before != nil && severity(before.On) >= severity(over.On) {
		return nil
	}
	return x.stopOverspent(c.NS, c.ID, h, over)
}

// heartbeat confirms a lease and stores the news it brings.
func (x *entry) heartbeat(c *command.Heartbeat) (Result, error) {
	h, res, err := x.leased(c.NS, c.ID, c.By)
	if err != nil || res.Refusal != Accepted {
		return res, err
	}
	if c.Progress != nil {
		x.txn.Set(x.m.space.Job(c.NS, keys.Progress, c.ID), c.Progress)
		h.Flags |= records.FlagProgress
		x.event(feed.Progress, c.NS, c.ID, &h)
	}
	x.storeCheckpoint(c.NS, c.ID, &h, c.Checkpoint)
	if c.Usage != nil {
		if err := x.reportRunning(c, &h); err != nil {
			return Result{}, err
		}
	}
	x.putHead(c.NS, c.ID, &h)
	res.State, res.Cancel, res.Over = h.State, h.State == job.Cancelling, h.StoppedByBudget()
	return res, nil
}

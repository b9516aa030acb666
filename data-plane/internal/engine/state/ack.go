package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// ack completes a job. The same token again gets the same answer.
func (x *entry) ack(c *command.Ack) (Result, error) {
	h, res, err := x.leased(c.NS, c.ID, c.By)
	if err != nil {
		return Result{}, err
	}
	if res.Refusal != Accepted {
		return x.ackedBefore(c, &h, res)
	}
	if c.Agent != command.AgentUnsaid && !h.Has(records.FlagAgent) {
		res.Refusal = NotAgent
		return res, nil
	}
	if err := x.report(c.NS, c.ID, &h, c.Usage); err != nil {
		return Result{}, err
	}
	cancelling := h.State == job.Cancelling
	if err := x.leave(c.NS, c.ID, &h); err != nil {
		return Result{}, err
	}
	x.storeCheckpoint(c.NS, c.ID, &h, c.Checkpoint)
	if h.Has(records.FlagAgent) {
		err = x.ackAgent(c, &h, cancelling)
	} else {
		err = x.complete(c, &h)
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	res.State = h.State
	return res, nil
}

func (x *entry) complete(c *command.Ack, h *records.Head) error {
	if c.Result != nil {
		x.txn.Set(x.m.space.Job(c.NS, keys.Result, c.ID), c.Result)
		h.Flags |= records.FlagResult
	}
	if err := x.end(c.NS, c.ID, h, job.Completed, ending{exit: c.Step == command.StepExit, reason: c.ExitReason}); err != nil {
		return err
	}
	h.Note(records.WasCompleted, x.now)
	x.event(feed.Completed, c.NS, c.ID, h)
	return nil
}

// ackedBefore answers a repeated ack with the same token as the first time.
func (x *entry) ackedBefore(c *command.Ack, h *records.Head, res Result) (Result, error) {
	if res.Refusal != LeaseLost {
		return res, nil
	}
	again := h.State == job.Completed && records.Holds(h, c.By)
	if !again {
		var err error
		if again, err = x.ackedIteration(c.NS, c.ID, h, c.By.Token); err != nil {
			return Result{}, err
		}
	}
	if again {
		res.Refusal = Accepted
	}
	return res, nil
}

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
	j, res, err := x.leased(c.NS, c.ID, c.By)
	if err != nil {
		return Result{}, err
	}
	if res.Refusal != Accepted {
		return x.ackedBefore(c, &j, res)
	}
	if c.Agent != command.AgentUnsaid && !j.Has(records.FlagAgent) {
		res.Refusal = NotAgent
		return res, nil
	}
	if err := x.report(&j, c.Usage); err != nil {
		return Result{}, err
	}
	cancelling := j.State == job.Cancelling
	if err := x.leave(&j); err != nil {
		return Result{}, err
	}
	x.storeCheckpoint(&j, c.Checkpoint)
	if j.Has(records.FlagAgent) {
		err = x.ackAgent(c, &j, cancelling)
	} else {
		err = x.complete(c, &j)
	}
	if err != nil {
		return Result{}, err
	}
	x.put(&j)
	res.State = j.State
	return res, nil
}

func (x *entry) complete(c *command.Ack, j *subject) error {
	if c.Result != nil {
		x.txn.Set(x.m.space.Job(c.NS, keys.Result, c.ID), c.Result)
		j.Flags |= records.FlagResult
	}
	if err := x.end(j, job.Completed, ending{exit: c.Step == command.StepExit, reason: c.ExitReason}); err != nil {
		return err
	}
	x.happened(feed.Completed, j)
	return nil
}

// ackedBefore answers a repeated ack with the same token as the first time.
func (x *entry) ackedBefore(c *command.Ack, j *subject, res Result) (Result, error) {
	if res.Refusal != LeaseLost {
		return res, nil
	}
	again := j.State == job.Completed && records.Holds(&j.Head, c.By)
	if !again {
		var err error
		if again, err = x.ackedIteration(j, c.By.Token); err != nil {
			return Result{}, err
		}
	}
	if again {
		res.Refusal = Accepted
	}
	return res, nil
}

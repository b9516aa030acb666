package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// ack completes a job. The same token again gets the same answer.
func (x *entry) ack(c *command.Ack) Result {
	j, res := x.leased(c.NS, c.ID, c.By)
	if res.Refusal != Accepted {
		return x.ackedBefore(c, &j, res)
	}
	if c.Agent != command.AgentUnsaid && !j.Has(records.FlagAgent) {
		res.Refusal = NotAgent
		return res
	}
	x.report(&j, c.Usage)
	x.meterExecution(&j)
	cancelling := j.State == job.Cancelling
	x.leave(&j)
	x.storeCheckpoint(&j, c.Checkpoint)
	if j.Has(records.FlagAgent) {
		x.ackAgent(c, &j, cancelling)
	} else {
		x.complete(c, &j)
	}
	x.put(&j)
	res.State = j.State
	return res
}

func (x *entry) complete(c *command.Ack, j *subject) {
	if c.Result != nil {
		x.txn.Set(x.m.space.Job(c.NS, keys.Result, c.ID), c.Result)
		j.Flags |= records.FlagResult
		x.meterResult(j, c.Result)
	}
	x.end(j, job.Completed, ending{exit: c.Step == command.StepExit, reason: c.ExitReason})
	x.happened(feed.Completed, j)
}

// ackedBefore answers a repeated ack with the same token as the first time.
func (x *entry) ackedBefore(c *command.Ack, j *subject, res Result) Result {
	if res.Refusal != LeaseLost {
		return res
	}
	if j.State == job.Completed && records.Holds(&j.Head, c.By) || x.ackedIteration(j, c.By.Token) {
		res.Refusal = Accepted
	}
	return res
}

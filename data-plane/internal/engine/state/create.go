package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// create makes a job, the first of its chain if it carries one.
func (x *entry) create(c *command.Enqueue) Result {
	var place chainPlace
	if c.Chain != nil && len(c.Chain.Steps) > 0 {
		place.id = c.Chain.ID
		x.beginChain(c.NS, c.ID, c.Chain)
	}
	return x.createAt(c, place)
}

// createAt makes a job at its place in a chain. Every job is made here.
func (x *entry) createAt(c *command.Enqueue, place chainPlace) Result {
	body := records.Body{
		Queue: c.Queue, Payload: c.Payload, CreatedAt: x.now, ScheduledAt: c.ScheduledAt,
		Tags: c.Tags, UniqueKey: c.UniqueKey, IdempotencyKey: c.IdempotencyKey, TraceParent: c.TraceParent,
		ExpireAt: c.ExpireAt, Agent: c.Agent, Parent: c.Parent, Batch: c.Batch, Chain: place.id, ChainStep: place.step,
		DependsOn: c.DependsOn, OnDependency: c.OnDependency,
	}
	x.txn.Set(x.m.space.Job(c.NS, keys.Body, c.ID), body.Encode())
	q := x.queue(c.NS, c.Queue)
	j := subject{ns: c.NS, id: c.ID, Head: records.Head{Queue: c.Queue, Priority: c.Priority, Retry: retryOf(c, &q.config), Gen: q.gen}}
	if c.UniqueKey != "" {
		j.Flags |= records.FlagUnique
	}
	if c.ExpireAt != 0 {
		j.ExpireAt = max(c.ExpireAt, x.now)
		x.watchExpiry(&j)
	}
	if c.Agent != nil {
		j.Flags |= records.FlagAgent
		j.Iteration = 1
	}
	unmet := x.join(c, &j, place)
	x.storeCheckpoint(&j, c.Checkpoint)
	x.meterJob(&j, c.Payload)
	x.touched(q).Enqueued++
	approval := x.policyFor(c.NS, c.Queue, c.Tags)
	switch {
	case approval != nil:
		x.enterApproval(&j, approval)
	case c.ScheduledAt > x.now:
		x.enterTimed(&j, job.Scheduled, c.ScheduledAt)
		x.happened(feed.Scheduled, &j)
	default:
		x.enterPending(&j)
		x.happened(feed.Enqueued, &j)
	}
	if unmet {
		x.endUnmet(&j, c.OnDependency)
	}
	x.put(&j)
	return Result{ID: c.ID, State: j.State, Batch: c.Batch, Chain: place.id}
}

// join ties a new job to its batch, its chain and the jobs that it waits for. It
// reports whether one of those has ended as the job does not allow.
func (x *entry) join(c *command.Enqueue, j *subject, place chainPlace) (unmet bool) {
	if !place.id.IsZero() {
		j.Flags |= records.FlagChain
	}
	if !c.Batch.IsZero() {
		j.Flags |= records.FlagBatch
		x.joinBatch(c.NS, c.Batch, c.ID)
	}
	if len(c.DependsOn) == 0 {
		return false
	}
	return x.block(c, j)
}

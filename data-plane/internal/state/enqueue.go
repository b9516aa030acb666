package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// enqueue adds a job, unless its idempotency key was used before (the first
// answer again) or its unique key is held (the holder is the answer).
func (x *entry) enqueue(c *command.Enqueue) (Result, error) {
	res, known, err := x.known(c)
	if err != nil || res.Replayed {
		return res, err
	}
	if !known {
		why, err := x.admits(c)
		if err != nil || why != Accepted {
			return Result{Refusal: why, ID: x.refusedFor}, err
		}
		if res, err = x.enqueueUnique(c); err != nil {
			return Result{}, err
		}
	}
	if c.IdempotencyKey == "" {
		return res, nil
	}
	l := records.Lock{Owner: res.ID, By: c.ID, Expires: x.after(int64(c.IdempotencyFor)), State: res.State, Duplicate: res.Duplicate}
	return res, x.takeLock(c.NS, keys.Idempotency, keys.DueIdempotency, c.Queue, c.IdempotencyKey, l)
}

// known finds the job that is there for the keys of c: no other is made.
func (x *entry) known(c *command.Enqueue) (Result, bool, error) {
	if c.IdempotencyKey != "" {
		l, held, err := x.lock(c.NS, keys.Idempotency, c.Queue, c.IdempotencyKey)
		if err != nil || held {
			res := Result{ID: l.Owner, State: l.State, Duplicate: l.Duplicate, Replayed: held}
			if held {
				err = x.groupsOf(c, &res)
			}
			return res, held, err
		}
	}
	if c.UniqueKey == "" {
		return Result{}, false, nil
	}
	l, held, err := x.lock(c.NS, keys.Unique, c.Queue, c.UniqueKey)
	if err != nil || !held {
		return Result{}, false, err
	}
	h, _, err := x.head(c.NS, l.Owner)
	return Result{ID: l.Owner, State: h.State, Duplicate: true}, true, err
}

func (x *entry) enqueueUnique(c *command.Enqueue) (Result, error) {
	if c.UniqueKey != "" {
		l := records.Lock{Owner: c.ID, By: c.ID, Expires: x.after(int64(c.UniqueFor))}
		if err := x.takeLock(c.NS, keys.Unique, keys.DueUnique, c.Queue, c.UniqueKey, l); err != nil {
			return Result{}, err
		}
	}
	return x.create(c)
}

// groupsOf completes a repeated answer with the batch and the chain that the first one
// named, as long as the job is there.
func (x *entry) groupsOf(c *command.Enqueue, res *Result) error {
	if c.Batch.IsZero() && c.Chain == nil {
		return nil
	}
	_, there, err := x.head(c.NS, res.ID)
	if err != nil || !there {
		return err
	}
	body, err := x.body(c.NS, res.ID)
	res.Batch, res.Chain = body.Batch, body.Chain
	return err
}

// create makes a job, the first of its chain if it carries one.
func (x *entry) create(c *command.Enqueue) (Result, error) {
	var place chainPlace
	if c.Chain != nil && len(c.Chain.Steps) > 0 {
		place.id = c.Chain.ID
		x.beginChain(c.NS, c.ID, c.Chain)
	}
	return x.createAt(c, place)
}

// createAt makes a job at its place in a chain. Every job is made here.
func (x *entry) createAt(c *command.Enqueue, place chainPlace) (Result, error) {
	body := records.Body{
		Queue: c.Queue, Payload: c.Payload, CreatedAt: x.now, ScheduledAt: c.ScheduledAt,
		Tags: c.Tags, UniqueKey: c.UniqueKey, IdempotencyKey: c.IdempotencyKey, TraceParent: c.TraceParent,
		ExpireAt: c.ExpireAt, Agent: c.Agent, Parent: c.Parent, Batch: c.Batch, Chain: place.id, ChainStep: place.step,
		DependsOn: c.DependsOn, OnDependency: c.OnDependency,
	}
	x.txn.Set(x.m.space.Job(c.NS, keys.Body, c.ID), body.Encode())
	q, err := x.queue(c.NS, c.Queue)
	if err != nil {
		return Result{}, err
	}
	h := records.Head{Queue: c.Queue, Priority: c.Priority, Retry: retryOf(c, &q.config), Gen: q.gen}
	if c.UniqueKey != "" {
		h.Flags |= records.FlagUnique
	}
	if c.ExpireAt != 0 {
		h.ExpireAt = max(c.ExpireAt, x.now)
		x.watchExpiry(c.NS, c.ID, &h)
	}
	if c.Agent != nil {
		h.Flags |= records.FlagAgent
		h.Iteration = 1
	}
	unmet, err := x.join(c, &h, place)
	if err != nil {
		return Result{}, err
	}
	x.storeCheckpoint(c.NS, c.ID, &h, c.Checkpoint)
	x.touched(q).Enqueued++
	approval, err := x.policyFor(c.NS, c.Queue, c.Tags)
	if err != nil {
		return Result{}, err
	}
	switch {
	case approval != nil:
		err = x.enterApproval(c.NS, c.ID, &h, approval)
	case c.ScheduledAt > x.now:
		err = x.enterTimed(c.NS, c.ID, &h, job.Scheduled, c.ScheduledAt)
		h.Note(records.WasScheduled, x.now)
		x.event(feed.Scheduled, c.NS, c.ID, &h)
	default:
		err = x.enterPending(c.NS, c.ID, &h)
		h.Note(records.WasEnqueued, x.now)
		x.event(feed.Enqueued, c.NS, c.ID, &h)
	}
	if err == nil && unmet {
		err = x.endUnmet(c.NS, c.ID, &h, c.OnDependency)
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	return Result{ID: c.ID, State: h.State, Batch: c.Batch, Chain: place.id}, nil
}

// join ties a new job to its batch, its chain and the jobs that it waits for. It
// reports whether one of those has ended as the job does not allow.
func (x *entry) join(c *command.Enqueue, h *records.Head, place chainPlace) (unmet bool, err error) {
	if !place.id.IsZero() {
		h.Flags |= records.FlagChain
	}
	if !c.Batch.IsZero() {
		h.Flags |= records.FlagBatch
		if err := x.joinBatch(c.NS, c.Batch, c.ID); err != nil {
			return false, err
		}
	}
	if len(c.DependsOn) == 0 {
		return false, nil
	}
	return x.block(c, h)
}

// after is d nanoseconds of calendar time from now, never past the end of time.
func (x *entry) after(d int64) int64 { return records.SaturatingAdd(x.now, d) }

// lock reads a lock that is still in force.
func (x *entry) lock(ns job.Namespace, family byte, queue, key string) (records.Lock, bool, error) {
	l, ok, err := x.anyLock(ns, family, queue, key)
	if err != nil || !ok {
		return records.Lock{}, false, err
	}
	if l.Expires <= x.now {
		return records.Lock{}, false, nil
	}
	standing, err := x.stands(ns, family, queue, &l)
	return l, standing, err
}

// stands reports whether a lock outlived what passed of its queue: an idempotency
// record outlives a clearing, a unique lock does if its owner does.
func (x *entry) stands(ns job.Namespace, family byte, queue string, l *records.Lock) (bool, error) {
	q, err := x.queue(ns, queue)
	if err != nil || l.Gen == q.gen || !q.generation().Keeps(l.Gen) || family == keys.Idempotency {
		return err == nil && q.generation().Keeps(l.Gen), err
	}
	_, there, err := x.head(ns, l.Owner)
	return there, err
}

// anyLock reads a lock, in force or not.
func (x *entry) anyLock(ns job.Namespace, family byte, queue, key string) (records.Lock, bool, error) {
	v, err := x.txn.Get(x.m.space.Lock(ns, family, queue, key))
	if errors.Is(err, statedb.ErrNotFound) {
		return records.Lock{}, false, nil
	}
	if err != nil {
		return records.Lock{}, false, err
	}
	l, err := records.DecodeLock(v)
	return l, err == nil, err
}

// takeLock writes a lock over whatever expired one stood there, and the due row
// that will remove it.
func (x *entry) takeLock(ns job.Namespace, family byte, kind keys.DueKind, queue, key string, l records.Lock) error {
	if err := x.dropLock(ns, family, kind, queue, key, job.ID{}); err != nil {
		return err
	}
	q, err := x.queue(ns, queue)
	if err != nil {
		return err
	}
	l.Gen = q.gen
	x.txn.Set(x.m.space.Lock(ns, family, queue, key), l.Encode())
	x.addDue(keys.Due{At: l.Expires, Kind: kind, NS: ns, ID: l.By}, records.EncodeLockName(queue, key))
	return nil
}

// dropLock removes a lock and its due row; with an owner, only if it is the
// owner's.
func (x *entry) dropLock(ns job.Namespace, family byte, kind keys.DueKind, queue, key string, owner job.ID) error {
	k := x.m.space.Lock(ns, family, queue, key)
	v, err := x.txn.Get(k)
	if errors.Is(err, statedb.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	l, err := records.DecodeLock(v)
	if err != nil {
		return fmt.Errorf("lock %q of queue %q: %w", key, queue, err)
	}
	if !owner.IsZero() && l.Owner != owner {
		return nil
	}
	x.txn.Delete(k)
	x.txn.Delete(x.m.space.Due(keys.Due{At: l.Expires, Kind: kind, NS: ns, ID: l.By}))
	return nil
}

// storeCheckpoint replaces the job's checkpoint; nil leaves it.
func (x *entry) storeCheckpoint(ns job.Namespace, id job.ID, h *records.Head, v []byte) {
	if v != nil {
		x.txn.Set(x.m.space.Job(ns, keys.Checkpoint, id), v)
		h.Flags |= records.FlagCheckpoint
	}
}

func (x *entry) body(ns job.Namespace, id job.ID) (records.Body, error) {
	v, err := x.txn.Get(x.m.space.Job(ns, keys.Body, id))
	if err != nil {
		return records.Body{}, fmt.Errorf("body of job %s: %w", id, err)
	}
	return records.DecodeBody(v)
}

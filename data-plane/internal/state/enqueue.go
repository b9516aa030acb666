package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// enqueue adds a job, unless its idempotency key was used before (the first
// answer again) or its unique key is held (the holder is the answer).
func (x *entry) enqueue(c *command.Enqueue) (Result, error) {
	if c.IdempotencyKey != "" {
		l, held, err := x.lock(c.NS, keys.Idempotency, c.Queue, c.IdempotencyKey)
		if err != nil {
			return Result{}, err
		}
		if held {
			return Result{ID: l.Owner, State: l.State, Duplicate: l.Duplicate, Replayed: true}, nil
		}
	}
	res, err := x.enqueueUnique(c)
	if err != nil || c.IdempotencyKey == "" {
		return res, err
	}
	l := lock{Owner: res.ID, By: c.ID, Expires: x.after(int64(c.IdempotencyFor)), State: res.State, Duplicate: res.Duplicate}
	return res, x.takeLock(c.NS, keys.Idempotency, keys.DueIdempotency, c.Queue, c.IdempotencyKey, l)
}

func (x *entry) enqueueUnique(c *command.Enqueue) (Result, error) {
	if c.UniqueKey != "" {
		l, held, err := x.lock(c.NS, keys.Unique, c.Queue, c.UniqueKey)
		if err != nil {
			return Result{}, err
		}
		if held {
			h, _, err := x.head(c.NS, l.Owner)
			return Result{ID: l.Owner, State: h.State, Duplicate: true}, err
		}
		l = lock{Owner: c.ID, By: c.ID, Expires: x.after(int64(c.UniqueFor))}
		if err := x.takeLock(c.NS, keys.Unique, keys.DueUnique, c.Queue, c.UniqueKey, l); err != nil {
			return Result{}, err
		}
	}
	return x.create(c)
}

func (x *entry) create(c *command.Enqueue) (Result, error) {
	body := Body{
		Queue: c.Queue, Payload: c.Payload, CreatedAt: x.now, ScheduledAt: c.ScheduledAt,
		Tags: c.Tags, UniqueKey: c.UniqueKey, IdempotencyKey: c.IdempotencyKey, TraceParent: c.TraceParent,
	}
	x.txn.Set(x.m.space.Job(c.NS, keys.Body, c.ID), body.encode())
	h := Head{Queue: c.Queue, Priority: c.Priority, Retry: c.Retry}
	if c.UniqueKey != "" {
		h.flags |= flagUnique
	}
	x.storeCheckpoint(c.NS, c.ID, &h, c.Checkpoint)
	q, err := x.queue(c.NS, c.Queue)
	if err != nil {
		return Result{}, err
	}
	x.touched(q).Enqueued++
	if c.ScheduledAt > x.now {
		err = x.enterTimed(c.NS, c.ID, &h, job.Scheduled, c.ScheduledAt)
		h.note(WasScheduled, x.now)
		x.event(feed.Scheduled, c.NS, c.ID, &h)
	} else {
		err = x.enterReady(c.NS, c.ID, &h)
		h.note(WasEnqueued, x.now)
		x.event(feed.Enqueued, c.NS, c.ID, &h)
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	return Result{ID: c.ID, State: h.State}, nil
}

// after is d nanoseconds from now, never past the end of time.
func (x *entry) after(d int64) int64 {
	const endOfTime = 1<<63 - 1
	if d > endOfTime-x.now {
		return endOfTime
	}
	return x.now + d
}

// lock reads a lock that is still in force.
func (x *entry) lock(ns job.Namespace, family byte, queue, key string) (lock, bool, error) {
	v, err := x.txn.Get(x.m.space.Lock(ns, family, queue, key))
	if errors.Is(err, statedb.ErrNotFound) {
		return lock{}, false, nil
	}
	if err != nil {
		return lock{}, false, err
	}
	l, err := decodeLock(v)
	return l, err == nil && l.Expires > x.now, err
}

// takeLock writes a lock over whatever expired one stood there, and the due row
// that will remove it.
func (x *entry) takeLock(ns job.Namespace, family byte, kind keys.DueKind, queue, key string, l lock) error {
	if err := x.dropLock(ns, family, kind, queue, key, job.ID{}); err != nil {
		return err
	}
	x.txn.Set(x.m.space.Lock(ns, family, queue, key), l.encode())
	x.addDue(keys.Due{At: l.Expires, Kind: kind, NS: ns, ID: l.By}, encodeLockName(queue, key))
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
	l, err := decodeLock(v)
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
func (x *entry) storeCheckpoint(ns job.Namespace, id job.ID, h *Head, v []byte) {
	if v != nil {
		x.txn.Set(x.m.space.Job(ns, keys.Checkpoint, id), v)
		h.flags |= flagCheckpoint
	}
}

func (x *entry) body(ns job.Namespace, id job.ID) (Body, error) {
	v, err := x.txn.Get(x.m.space.Job(ns, keys.Body, id))
	if err != nil {
		return Body{}, fmt.Errorf("body of job %s: %w", id, err)
	}
	return decodeBody(v)
}

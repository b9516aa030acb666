package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// sweep removes what the leader found of a queue that was deleted or cleared. Each item
// is checked: what is there for anybody stays.
func (x *entry) sweep(c *command.Sweep) (Result, error) {
	q, err := x.queue(c.NS, c.Queue)
	if err != nil {
		return Result{}, err
	}
	for _, id := range c.Jobs {
		if err := x.sweepJob(q, id); err != nil {
			return Result{}, err
		}
	}
	for _, key := range c.Unique {
		if err := x.sweepLock(q, keys.Unique, keys.DueUnique, key); err != nil {
			return Result{}, err
		}
	}
	for _, key := range c.Idempotency {
		if err := x.sweepLock(q, keys.Idempotency, keys.DueIdempotency, key); err != nil {
			return Result{}, err
		}
	}
	if c.Done == 0 {
		return Result{}, nil
	}
	return x.swept(q, c.Done)
}

// sweepJob removes the records of a job and its due row, and tells who keeps a copy of
// it: for everybody else it was gone with its queue, so the event is no change of a
// state. Its ready row went with the
// queue, its counters too, its locks are swept on their own.
func (x *entry) sweepJob(q *queueRecord, id job.ID) error {
	j, ok, err := x.anyJob(q.key.ns, id)
	if err != nil || !ok || j.Queue != q.key.name || q.generation().Has(j.Gen, j.State.Leased()) {
		return err
	}
	if j.Due != 0 {
		x.txn.Delete(x.m.space.Due(j.due(j.Due, dueKind(j.State))))
	}
	x.dropExpiry(&j)
	x.events = append(x.events, feed.Event{Type: feed.Deleted, NS: q.key.ns, Queue: q.key.name, ID: id, Attempt: j.Attempt})
	delete(x.m.leased, jobKey{q.key.ns, id})
	if !j.State.Terminal() {
		if err := x.deliver(&j, records.OutcomeDeleted, ending{}); err != nil {
			return err
		}
	}
	return x.removeRecords(&j)
}

func (x *entry) sweepLock(q *queueRecord, family byte, kind keys.DueKind, key string) error {
	l, ok, err := x.anyLock(q.key.ns, family, q.key.name, key)
	if err != nil || !ok {
		return err
	}
	if held, err := x.isHeld(q.key.ns, family, q.key.name, &l); err != nil || held {
		return err
	}
	return x.dropLock(q.key.ns, family, kind, q.key.name, key, job.ID{})
}

// swept ends a sweep. A queue that was not made again begins with generation 0, like
// one that never was.
func (x *entry) swept(q *queueRecord, gen uint64) (Result, error) {
	mark, ok, err := x.sweepMark(q.key.ns, q.key.name)
	if err != nil {
		return Result{}, err
	}
	if !ok || mark.Gen != gen {
		return Result{Refusal: WrongState}, nil // Done before, or deleted once more.
	}
	x.txn.Delete(x.m.space.Sweep(q.key.ns, q.key.name))
	if !q.hasConfig {
		q.gen = 0
	}
	return Result{}, nil
}

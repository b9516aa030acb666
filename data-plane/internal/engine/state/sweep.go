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
func (x *entry) sweep(c *command.Sweep) Result {
	q := x.queue(c.NS, c.Queue)
	for _, id := range c.Jobs {
		x.sweepJob(q, id)
	}
	for _, key := range c.Unique {
		x.sweepLock(q, keys.Unique, keys.DueUnique, key)
	}
	for _, key := range c.Idempotency {
		x.sweepLock(q, keys.Idempotency, keys.DueIdempotency, key)
	}
	if c.Done == 0 {
		return Result{}
	}
	return x.swept(q, c.Done)
}

// sweepJob removes the records of a job and its due row, and tells who keeps a copy of
// it: for everybody else it was gone with its queue, so the event is no change of a
// state. Its ready row went with the
// queue, its counters too, its locks are swept on their own.
func (x *entry) sweepJob(q *queueRecord, id job.ID) {
	j, ok := x.anyJob(q.key.ns, id)
	if !ok || j.Queue != q.key.name || q.generation().Has(j.Gen, j.State.Leased()) {
		return
	}
	if j.Due != 0 {
		x.txn.Delete(x.m.space.Due(j.due(j.Due, dueKind(j.State))))
	}
	x.dropExpiry(&j)
	x.events = append(x.events, feed.Event{Type: feed.Deleted, NS: q.key.ns, Queue: q.key.name, ID: id, Attempt: j.Attempt})
	delete(x.m.leased, jobKey{q.key.ns, id})
	x.meterRemoved(&j)
	if !j.State.Terminal() {
		x.deliver(&j, records.OutcomeDeleted, ending{})
	}
	x.removeRecords(&j)
}

func (x *entry) sweepLock(q *queueRecord, family byte, kind keys.DueKind, key string) {
	if l, ok := x.anyLock(q.key.ns, family, q.key.name, key); ok && !x.isHeld(q.key.ns, family, q.key.name, &l) {
		x.dropLock(q.key.ns, family, kind, q.key.name, key, job.ID{})
	}
}

// swept ends a sweep. A queue that was not made again begins with generation 0, like
// one that never was.
func (x *entry) swept(q *queueRecord, gen uint64) Result {
	mark, ok := x.sweepMark(q.key.ns, q.key.name)
	if !ok || mark.Gen != gen {
		return Result{Refusal: WrongState} // Done before, or deleted once more.
	}
	x.txn.Delete(x.m.space.Sweep(q.key.ns, q.key.name))
	if !q.hasConfig {
		q.gen = 0
	}
	return Result{}
}

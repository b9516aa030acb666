package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

func (q *queueRecord) generation() records.Generation {
	if q.hasConfig {
		return q.config.Generation()
	}
	return records.Generation{Own: q.gen}
}

// tell lets the leader's memory learn what the queue is after the entry.
func (x *entry) tell(q *queueRecord) {
	q.tell = true
	x.list(q)
}

type queueKey struct {
	ns   job.Namespace
	name string
}

type queueRecord struct {
	key        queueKey
	config     records.QueueConfig
	hasConfig  bool
	counts     records.Counts
	hasCounts  bool   // A job was in it, since it was made.
	gen        uint64 // See Head.
	dirty      bool
	dirtyConf  bool
	inDirtyLst bool
	// Of the entry being applied: the queue was refused a lease for its limits; the
	// leader's memory must look at it anew.
	refused, tell bool
}

// queue returns the record of a queue; a queue exists from its first use on.
func (x *entry) queue(ns job.Namespace, name string) *queueRecord {
	k := queueKey{ns, name}
	if q, ok := x.m.queues[k]; ok {
		return q
	}
	q := &queueRecord{key: k}
	q.counts, q.hasCounts = find(x, x.m.space.Queue(ns, keys.QueueCounts, name), "counts", records.DecodeCounts)
	q.config, q.hasConfig = find(x, x.m.space.Queue(ns, keys.QueueConfig, name), "queue", records.DecodeQueueConfig)
	q.gen = q.config.Gen
	if !q.hasConfig {
		mark, _ := x.sweepMark(ns, name)
		q.gen = mark.Gen
	}
	x.m.queues[k] = q
	return q
}

// touched notes that the queue's counters change.
func (x *entry) touched(q *queueRecord) *records.Counts {
	q.dirty, q.hasCounts = true, true
	x.list(q)
	x.exist(q)
	return &q.counts
}

// exist makes the queue's record on its first use: it tells since when it is there.
func (x *entry) exist(q *queueRecord) {
	if !q.hasConfig {
		q.hasConfig, q.dirtyConf = true, true
		q.config = records.QueueConfig{CreatedAt: x.now, Gen: q.gen}
		x.list(q)
	}
}

func (x *entry) list(q *queueRecord) {
	if !q.inDirtyLst {
		q.inDirtyLst = true
		x.dirty = append(x.dirty, q)
	}
}

func pauseEvent(paused bool) feed.Type {
	if paused {
		return feed.QueuePaused
	}
	return feed.QueueResumed
}

func drainEvent(draining bool) feed.Type {
	if draining {
		return feed.QueueDraining
	}
	return feed.QueueResumed
}

// queueEvent notes a change of the queue's settings and tells everybody.
func (x *entry) queueEvent(t feed.Type, q *queueRecord) {
	q.dirtyConf = true
	x.tell(q)
	x.events = append(x.events, feed.Event{Type: t, NS: q.key.ns, Queue: q.key.name})
}

package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// CrashLimit expired leases make a job dead with reason crash_loop (R-L5).
const CrashLimit = 3

// queuesCached bounds the decoded queue records kept between entries.
const queuesCached = 10_000

// leasedCached bounds the heads of leased jobs kept between entries, about 300
// bytes each.
const leasedCached = 50_000

// Machine applies the entries of one shard. It implements group.Machine.
type Machine struct {
	store *statedb.Group
	space keys.Space
	// queues caches decoded queue records. Only apply changes them, in log order,
	// so the cache is the truth; Reset drops it.
	queues map[queueKey]*queueRecord
	// leased caches the heads of jobs that workers hold: nearly every one of them is
	// read again soon, by its ack. The same reasoning makes it the truth.
	leased map[jobKey]Head
	events []feed.Event // Room of the last entry's events, for the next one.
	// committed is told after each commit; may be nil.
	committed func(index uint64)
}

type jobKey struct {
	ns job.Namespace
	id job.ID
}

type queueKey struct {
	ns   job.Namespace
	name string
}

type queueRecord struct {
	key        queueKey
	config     QueueConfig
	hasConfig  bool
	counts     Counts
	dirty      bool
	dirtyConf  bool
	inDirtyLst bool
}

// New makes the machine of a shard over its span of the state store.
func New(store *statedb.Group, committed func(index uint64)) *Machine {
	return &Machine{
		store: store, space: keys.In(store.Prefix()),
		queues: make(map[queueKey]*queueRecord), leased: make(map[jobKey]Head), committed: committed,
	}
}

var _ group.Machine = (*Machine)(nil)

// Reset forgets the cache.
func (m *Machine) Reset() error {
	clear(m.queues)
	clear(m.leased)
	return nil
}

// Committed passes the index on.
func (m *Machine) Committed(index uint64) {
	if m.committed != nil {
		m.committed(index)
	}
}

// entry is the application of one log entry.
type entry struct {
	m       *Machine
	txn     *statedb.Txn
	index   uint64
	now     int64
	ordinal uint32 // Of the place to give out next: jobs made ready, leases, errors.
	out     *Applied
	events  []feed.Event
	dirty   []*queueRecord // In the order of their first change.
}

// Apply runs the commands of one entry in order, then writes the counters and
// the events they caused.
func (m *Machine) Apply(txn *statedb.Txn, e group.Entry) (any, error) {
	cmds, err := command.Decode(e.Payload)
	if err != nil {
		return nil, err
	}
	if len(m.queues) > queuesCached {
		clear(m.queues)
	}
	if len(m.leased) > leasedCached {
		clear(m.leased)
	}
	x := &entry{
		m: m, txn: txn, index: e.Index, now: e.Now.UnixNano(),
		out:    &Applied{Now: e.Now.UnixNano(), Results: make([]Result, len(cmds))},
		events: m.events[:0],
	}
	for i, c := range cmds {
		if x.out.Results[i], err = x.apply(c); err != nil {
			return nil, fmt.Errorf("command %d (%T): %w", i, c, err)
		}
	}
	if err := x.finish(); err != nil {
		return nil, err
	}
	return x.out, nil
}

func (x *entry) apply(c command.Command) (Result, error) {
	switch c := c.(type) {
	case *command.Enqueue:
		return x.enqueue(c)
	case *command.Fetch:
		return x.fetch(c)
	case *command.Ack:
		return x.ack(c)
	case *command.Fail:
		return x.fail(c)
	case *command.Heartbeat:
		return x.heartbeat(c)
	case *command.Extend:
		return x.extend(c)
	case *command.Fire:
		return x.fire(c)
	case *command.Pause:
		return x.pause(c)
	case *command.Cancel:
		return x.cancel(c)
	case *command.Retry:
		return x.retry(c)
	case *command.Delete:
		return x.delete(c)
	case *command.TrimFeed:
		return x.trimFeed(c)
	default:
		return Result{}, fmt.Errorf("%w: no apply function", command.ErrMalformed)
	}
}

// finish writes what belongs to the entry as a whole.
func (x *entry) finish() error {
	for _, q := range x.dirty {
		if q.dirty {
			x.txn.Set(x.m.space.Queue(q.key.ns, keys.QueueCounts, q.key.name), q.counts.encode())
		}
		if q.dirtyConf {
			x.txn.Set(x.m.space.Queue(q.key.ns, keys.QueueConfig, q.key.name), q.config.encode())
		}
		q.dirty, q.dirtyConf, q.inDirtyLst = false, false, false
	}
	if len(x.events) > 0 {
		x.txn.SetNew(x.m.space.Feed(x.index), feed.Encode(x.now, x.events))
		x.m.events = x.events
	}
	return nil
}

// place gives out the next place of this entry.
func (x *entry) place() keys.Position {
	x.ordinal++
	return keys.Position{Index: x.index, Ordinal: x.ordinal}
}

func (x *entry) event(t feed.Type, ns job.Namespace, id job.ID, h *Head) {
	x.events = append(x.events, feed.Event{Type: t, NS: ns, Queue: h.Queue, ID: id, State: h.State, Attempt: h.Attempt})
}

// queue returns the record of a queue; a queue exists from its first use on.
func (x *entry) queue(ns job.Namespace, name string) (*queueRecord, error) {
	k := queueKey{ns, name}
	if q, ok := x.m.queues[k]; ok {
		return q, nil
	}
	q := &queueRecord{key: k}
	v, err := x.txn.Get(x.m.space.Queue(ns, keys.QueueCounts, name))
	if err == nil {
		q.counts, err = decodeCounts(v)
	}
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return nil, err
	}
	v, err = x.txn.Get(x.m.space.Queue(ns, keys.QueueConfig, name))
	if err == nil {
		q.hasConfig = true
		q.config, err = decodeQueueConfig(v)
	}
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return nil, err
	}
	x.m.queues[k] = q
	return q, nil
}

// touched notes that the queue's counters change.
func (x *entry) touched(q *queueRecord) *Counts {
	q.dirty = true
	x.list(q)
	if !q.hasConfig { // First use: the queue's record tells that it exists and since when.
		q.hasConfig, q.dirtyConf = true, true
		q.config.CreatedAt = x.now
	}
	return &q.counts
}

func (x *entry) list(q *queueRecord) {
	if !q.inDirtyLst {
		q.inDirtyLst = true
		x.dirty = append(x.dirty, q)
	}
}

// head reads the head of a job; ok is false if there is none.
func (x *entry) head(ns job.Namespace, id job.ID) (h Head, ok bool, err error) {
	if h, ok := x.m.leased[jobKey{ns, id}]; ok {
		return h, true, nil
	}
	v, err := x.txn.Get(x.m.space.Job(ns, keys.Head, id))
	if errors.Is(err, statedb.ErrNotFound) {
		return Head{}, false, nil
	}
	if err != nil {
		return Head{}, false, err
	}
	h, err = decodeHead(v)
	if err != nil {
		return Head{}, false, fmt.Errorf("job %s: %w", id, err)
	}
	return h, true, nil
}

func (x *entry) putHead(ns job.Namespace, id job.ID, h *Head) {
	assertHead(id, h)
	if k := (jobKey{ns, id}); h.State.Leased() {
		x.m.leased[k] = *h
	} else {
		delete(x.m.leased, k)
	}
	x.txn.Set(x.m.space.Job(ns, keys.Head, id), h.encode())
}

// assertHead checks the invariants of Head before it is written.
func assertHead(id job.ID, h *Head) {
	if h.Pos.IsZero() == (h.State == job.Pending) {
		panic(fmt.Sprintf("state: job %s is %s with ready position %v", id, h.State, h.Pos))
	}
	timed := h.State == job.Scheduled || h.State == job.Retrying || h.State.Leased()
	if timed != (h.Due != 0) {
		panic(fmt.Sprintf("state: job %s is %s with due time %d", id, h.State, h.Due))
	}
}

package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// queuesCached bounds the decoded queue records kept between entries.
const queuesCached = 10_000

// leasedCached bounds the heads of leased jobs kept between entries, about 300
// bytes each.
const leasedCached = 50_000

// readingsCached bounds the readings kept between entries, about 200 bytes each.
const readingsCached = 50_000

// Machine applies the entries of one shard. It implements group.Machine.
type Machine struct {
	store *statedb.Group
	space keys.Space
	// queues caches decoded queue records. Only apply changes them, in log order,
	// so the cache is the truth; Reset drops it.
	queues map[queueKey]*queueRecord
	// leased caches the heads of jobs that workers hold: nearly every one of them is
	// read again soon, by its ack. The same reasoning makes it the truth.
	leased map[jobKey]records.Head
	events []feed.Event // Room of the last entry's events, for the next one.
	// marks caches where the events of namespaces end; the same reasoning.
	marks map[job.Namespace]*eventsEnd
	// budgets caches the budgets of namespaces; the same reasoning.
	budgets  map[job.Namespace]*budgetSet
	policies map[job.Namespace][]records.Policy
	// ended are the namespaces that were ended; the same reasoning. Nil: not read yet.
	ended map[job.Namespace]records.EndedMark
	// readings caches those that are still counted; the same reasoning.
	readings map[job.Namespace]*openReading
	metered  []*openReading // Room of the last entry's, for the next one.
	// touched are the namespaces with events since the last commit, some of them more
	// than once; ring is told of them afterwards, and may be nil.
	touched []job.Namespace
	ring    func(job.Namespace)
	// committed is told after each commit; may be nil.
	committed func(index uint64)
}

// New makes the machine of a shard over its span of the state store.
func New(store *statedb.Group, committed func(index uint64)) *Machine {
	return &Machine{
		store: store, space: keys.In(store.Prefix()),
		queues: make(map[queueKey]*queueRecord), leased: make(map[jobKey]records.Head), committed: committed,
		readings: make(map[job.Namespace]*openReading),
		marks:    make(map[job.Namespace]*eventsEnd), budgets: make(map[job.Namespace]*budgetSet), policies: make(map[job.Namespace][]records.Policy),
	}
}

// RingOnCommit makes the machine call ring for each namespace with new events, once
// they are committed. It must not block. To be called before anything is applied.
func (m *Machine) RingOnCommit(ring func(job.Namespace)) { m.ring = ring }

var _ group.Machine = (*Machine)(nil)

// Reset forgets the caches.
func (m *Machine) Reset() error {
	clear(m.queues)
	clear(m.leased)
	clear(m.marks)
	clear(m.budgets)
	clear(m.policies)
	clear(m.readings)
	m.ended = nil
	return nil
}

// Committed passes the index on and rings for new events.
func (m *Machine) Committed(index uint64) {
	m.trimBudgets()
	for _, ns := range m.touched {
		m.ring(ns)
	}
	m.touched = m.touched[:0]
	if m.committed != nil {
		m.committed(index)
	}
}

// entry is the application of one log entry.
type entry struct {
	m     *Machine
	txn   *statedb.Txn
	index uint64
	now   int64 // Calendar time.
	lease int64 // Lease time.
	// version of the cell. What is stored hangs on it and never on what this program could do.
	version cellversion.Version
	ordinal uint32 // Of the place to give out next: jobs made ready, leases, errors.
	at      int    // Which of the commands is being applied.
	out     *Applied
	events  []feed.Event
	dirty   []*queueRecord // In the order of their first change.
	metered []*openReading // Likewise.
	meter   *openReading   // The last of them that was asked for.
	// ended are the endings of the command being applied that others must learn of.
	ended []delivery
}

// Apply runs the commands of one entry in order, then writes the counters and
// the events they caused.
func (m *Machine) Apply(txn *statedb.Txn, e group.Entry) (_ any, err error) {
	cmds, err := command.Decode(e.Payload)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(cmds, e.Version); err != nil {
		return nil, err
	}
	if len(m.queues) > queuesCached {
		clear(m.queues)
	}
	if len(m.leased) > leasedCached {
		clear(m.leased)
	}
	if len(m.marks) > marksCached {
		clear(m.marks)
	}
	if len(m.readings) > readingsCached {
		clear(m.readings)
	}
	x := &entry{
		m: m, txn: txn, index: e.Index, now: e.Now.UnixNano(), lease: e.Lease, version: e.Version,
		out:    &Applied{Now: stateread.Times{Lease: e.Lease, Calendar: e.Now.UnixNano()}, Results: make([]Result, len(cmds))},
		events: m.events[:0], metered: m.metered[:0],
	}
	defer func() {
		if err = statedb.Ended(recover()); err != nil && x.at < len(cmds) {
			err = fmt.Errorf("command %d (%T): %w", x.at, cmds[x.at], err)
		}
	}()
	var seq sequence
	for ; x.at < len(cmds); x.at++ {
		x.out.Results[x.at] = seq.next(x, cmds[x.at:])
	}
	x.finish()
	return x.out, nil
}

// finish writes what belongs to the entry as a whole.
func (x *entry) finish() {
	for _, q := range x.dirty {
		if q.dirty {
			x.txn.Set(x.m.space.Queue(q.key.ns, keys.QueueCounts, q.key.name), q.counts.Encode())
		}
		if q.dirtyConf {
			x.txn.Set(x.m.space.Queue(q.key.ns, keys.QueueConfig, q.key.name), q.config.Encode())
		}
		if q.tell || q.config.Limited() {
			shut := x.shutUntil(q.key.ns, q.key.name)
			qs := stateread.QueueStateOf(q.key.ns, q.key.name, &q.config, &q.counts, shut)
			qs.Rewind = q.tell
			x.out.Queues = append(x.out.Queues, qs)
		}
		q.dirty, q.dirtyConf, q.inDirtyLst, q.refused, q.tell = false, false, false, false, false
	}
	x.writeReadings()
	m := x.m
	m.metered = x.metered
	x.writeEvents()
}

// place gives out the next place of this entry.
func (x *entry) place() keys.Position {
	x.ordinal++
	return keys.Position{Index: x.index, Ordinal: x.ordinal}
}

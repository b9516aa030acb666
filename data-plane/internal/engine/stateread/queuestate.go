package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Times are lease time, which measures durations, and calendar time, in which people
// name instants.
type Times = group.Times

// QueueState is what the leader's memory keeps of a queue: after an entry that
// touched a queue with limits, changed its settings, or deleted it.
type QueueState struct {
	NS     job.Namespace
	Queue  string
	Paused bool
	// Rewind: jobs that were taken for a fetch may still be ready, or jobs that were
	// ready may be gone. What was loaded of the ready orders must be read again.
	Rewind bool

	max      uint32
	Throttle command.Throttle
	leased   int64
	starts   records.Starts
	shut     int64 // A spent budget lets no lease begin before; 0 if none does.
}

// QueueStateOf is what the leader's memory keeps of a queue.
func QueueStateOf(ns job.Namespace, queue string, c *records.QueueConfig, n *records.Counts, shut int64) QueueState {
	return QueueState{
		NS: ns, Queue: queue, Paused: c.Paused,
		max: c.MaxConcurrency, Throttle: c.Throttle, leased: n.Leased(), starts: n.Starts, shut: shut,
	}
}

// Limited reports whether handing out the queue's jobs has a limit.
func (q *QueueState) Limited() bool { return q.max > 0 || !q.Throttle.IsZero() }

// Slots is how many more of the queue's jobs workers may hold, and ok whether that
// has a limit.
func (q *QueueState) Slots() (n int64, ok bool) {
	return max(int64(q.max)-q.leased, 0), q.max > 0
}

// Starts is how many leases may begin at now, and ok whether that has a limit.
func (q *QueueState) Starts(now Times) (n int64, ok bool) {
	if now.Calendar < q.shut {
		return 0, true
	}
	if q.Throttle.IsZero() {
		return 0, false
	}
	return q.starts.Room(now.Lease, q.Throttle), true
}

// Opens is what keeps a lease from beginning: a budget until a calendar time, or a
// throttle until a lease time. The times of the others are 0, both if nothing does.
func (q *QueueState) Opens(now Times) (at Times) {
	if now.Calendar < q.shut {
		at.Calendar = q.shut
	}
	if q.Throttle.IsZero() {
		return at
	}
	if opens := q.starts.Opens(now.Lease, q.Throttle); opens > now.Lease {
		at.Lease = opens
	}
	return at
}

// ReadQueueState reads what the leader's memory keeps of a queue, and the floors of
// its ready orders; a queue that does not exist has no limits.
func ReadQueueState(g *statedb.Group, ns job.Namespace, queue string) (QueueState, records.Counts, error) {
	space := keys.In(g.Prefix())
	cfg, _, err := Get(g, space.Queue(ns, keys.QueueConfig, queue), records.DecodeQueueConfig)
	if err != nil {
		return QueueState{}, records.Counts{}, err
	}
	c, err := ReadCounts(g, ns, queue)
	if err != nil {
		return QueueState{}, records.Counts{}, err
	}
	shut, err := readShut(g, space, ns, queue)
	return QueueStateOf(ns, queue, &cfg, &c, shut), c, err
}

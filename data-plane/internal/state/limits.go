package state

import "github.com/corvo-cloud/corvo/data-plane/internal/records"

// What a queue may hand out. The leader's memory asks the same questions with the
// same functions, between two entries; here they decide.

// mayStart reports whether one more lease of the queue may begin. Once an entry was
// refused one, it gets no other job of the queue: a slot that a later command of the
// entry frees must not be taken by a younger job (INV-8).
func (x *entry) mayStart(q *queueRecord) (bool, error) {
	shut, err := x.shutUntil(q.key.ns, q.key.name)
	if err != nil {
		return false, err
	}
	if q.refused || shut != 0 || !q.config.HasRoom(&q.counts, x.lease) {
		q.refused = true
		x.tell(q)
		return false, nil
	}
	return true, nil
}

// started counts a lease that begins.
func (x *entry) started(q *queueRecord) {
	if !q.config.Throttle.IsZero() {
		x.touched(q).Starts = q.counts.Starts.Add(x.lease, q.config.Throttle)
	}
}

// tell lets the leader's memory learn what the queue is after the entry.
func (x *entry) tell(q *queueRecord) {
	q.tell = true
	x.list(q)
}

// stateOf is what the leader's memory keeps of a queue.
func stateOf(k queueKey, c *records.QueueConfig, n *records.Counts, shut int64) QueueState {
	return QueueState{
		NS: k.ns, Queue: k.name, Paused: c.Paused,
		max: c.MaxConcurrency, throttle: c.Throttle, leased: n.Leased(), starts: n.Starts, shut: shut,
	}
}

// Limited reports whether handing out the queue's jobs has a limit.
func (q *QueueState) Limited() bool { return q.max > 0 || !q.throttle.IsZero() }

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
	if q.throttle.IsZero() {
		return 0, false
	}
	return q.starts.Room(now.Lease, q.throttle), true
}

// Opens is what keeps a lease from beginning: a budget until a calendar time, or a
// throttle until a lease time. The times of the others are 0, both if nothing does.
func (q *QueueState) Opens(now Times) (at Times) {
	if now.Calendar < q.shut {
		at.Calendar = q.shut
	}
	if q.throttle.IsZero() {
		return at
	}
	if opens := q.starts.Opens(now.Lease, q.throttle); opens > now.Lease {
		at.Lease = opens
	}
	return at
}

package state

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// Every record starts with this version byte.
const recordVersion = 1

// ErrRecord: a stored record can not be read. The node must stop.
var ErrRecord = errors.New("malformed record")

func newRecord(room int) codec.Writer {
	w := codec.Writer{Buf: make([]byte, 0, room)}
	w.Byte(recordVersion)
	return w
}

func openRecord(what string, b []byte) (*codec.Reader, error) {
	r := codec.NewReader(b)
	if v := r.Byte(); v != recordVersion {
		return nil, fmt.Errorf("%w: %s has version %d", ErrRecord, what, v)
	}
	return r, nil
}

func closeRecord(what string, r *codec.Reader) error {
	if err := r.Close(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrRecord, what, err)
	}
	return nil
}

// Body is the part of a job that never changes.
type Body struct {
	Queue          string
	Payload        []byte
	CreatedAt      int64
	ScheduledAt    int64 // As asked; 0 if not scheduled.
	Tags           []command.Tag
	UniqueKey      string
	IdempotencyKey string
	TraceParent    string
}

func (b *Body) encode() []byte {
	w := newRecord(64 + len(b.Payload))
	w.Text(b.Queue)
	w.Bytes(b.Payload)
	w.Int(b.CreatedAt)
	w.Int(b.ScheduledAt)
	command.EncodeTags(&w, b.Tags)
	w.Text(b.UniqueKey)
	w.Text(b.IdempotencyKey)
	w.Text(b.TraceParent)
	return w.Buf
}

func decodeBody(v []byte) (Body, error) {
	r, err := openRecord("body", v)
	if err != nil {
		return Body{}, err
	}
	b := Body{Queue: r.Name(), Payload: r.Bytes(), CreatedAt: r.Int(), ScheduledAt: r.Int()}
	b.Tags = command.DecodeTags(r)
	b.UniqueKey, b.IdempotencyKey, b.TraceParent = r.Text(), r.Text(), r.Text()
	return b, closeRecord("body", r)
}

// Head is the part of a job that changes with every transition.
//
// Invariants: Pos is set iff State is Pending. Due is set iff State is Scheduled,
// Retrying or leased, and then there is a due row of that time; every other
// state has none. Epoch, Lease, Worker, Hostname and Peer describe the last lease.
type Head struct {
	Queue    string
	State    job.State
	Priority job.Priority
	Retry    command.RetryPolicy
	Attempt  uint32 // Fetches that were not given back.
	Crashes  uint32 // Leases that ran out.
	Pos      keys.Position
	Due      int64
	Epoch    keys.Position
	Lease    time.Duration
	Worker   string
	Hostname string
	Peer     uint64
	flags    byte
	Started  int64
	Finished int64 // Completed, dead or cancelled.
	FailedAt int64 // Last failed attempt.
	Reason   DeadReason
	Timeline []Moment
}

const (
	flagUnique     = 1 << iota // The body names a unique key, which the job holds while alive.
	flagCheckpoint             // There is a checkpoint record.
	flagProgress               // There is a progress record.
	flagResult                 // There is a result record.
	flagErrors                 // There is at least one attempt error.
	flagReclaimed              // The last lease ran out; its holder settled nothing.
)

func (h *Head) has(flag byte) bool { return h.flags&flag != 0 }

// HasCheckpoint reports whether a checkpoint was stored for the job.
func (h *Head) HasCheckpoint() bool { return h.has(flagCheckpoint) }

// DeadReason says why a job is dead. Stored: append only.
type DeadReason uint8

const (
	NotDead DeadReason = iota
	DeadRetries
	DeadCrashes
)

var deadReasons = [...]string{"", "max_retries", "crash_loop"}

func (d DeadReason) String() string {
	if int(d) < len(deadReasons) {
		return deadReasons[d]
	}
	return "unknown"
}

// Moment is one line of a job's short history.
type Moment struct {
	What    What
	At      int64
	Attempt uint32
}

// What happened at a Moment. Stored: append only.
type What uint8

const (
	WasEnqueued What = iota + 1
	WasScheduled
	WasPromoted
	WasStarted
	WasCompleted
	WasFailed
	WasReleased
	WasLeaseExpired
	WasCancelRequested
	WasCancelled
	WasRetried
	WasDead
)

var whatNames = [...]string{
	WasEnqueued: "enqueued", WasScheduled: "scheduled", WasPromoted: "promoted", WasStarted: "started",
	WasCompleted: "completed", WasFailed: "failed", WasReleased: "released", WasLeaseExpired: "lease_expired",
	WasCancelRequested: "cancel_requested", WasCancelled: "cancelled", WasRetried: "retried", WasDead: "dead",
}

func (m What) String() string {
	if m >= WasEnqueued && int(m) < len(whatNames) {
		return whatNames[m]
	}
	return "unknown"
}

// timelineMax moments are kept: the first, and the latest of the others.
const timelineMax = 16

// note never changes the moments that are there: copies of the head share them.
func (h *Head) note(what What, at int64) {
	keep := h.Timeline
	if len(keep) == timelineMax {
		keep = append(append(make([]Moment, 0, timelineMax), keep[0]), keep[2:]...)
	}
	h.Timeline = append(keep[:len(keep):len(keep)], Moment{what, at, h.Attempt})
}

func (h *Head) encode() []byte {
	w := newRecord(96 + 12*len(h.Timeline))
	w.Text(h.Queue)
	w.Byte(byte(h.State))
	w.Byte(byte(h.Priority))
	command.EncodeRetry(&w, h.Retry)
	w.Uint(uint64(h.Attempt))
	w.Uint(uint64(h.Crashes))
	command.EncodePosition(&w, h.Pos)
	w.Int(h.Due)
	command.EncodePosition(&w, h.Epoch)
	w.Uint(uint64(h.Lease))
	w.Text(h.Worker)
	w.Text(h.Hostname)
	w.Fixed64(h.Peer)
	w.Byte(h.flags)
	w.Int(h.Started)
	w.Int(h.Finished)
	w.Int(h.FailedAt)
	w.Byte(byte(h.Reason))
	w.Uint(uint64(len(h.Timeline)))
	last := int64(0)
	for _, m := range h.Timeline {
		w.Byte(byte(m.What))
		w.Int(m.At - last) // Differences are short.
		w.Uint(uint64(m.Attempt))
		last = m.At
	}
	return w.Buf
}

func decodeHead(v []byte) (Head, error) {
	r, err := openRecord("head", v)
	if err != nil {
		return Head{}, err
	}
	h := Head{Queue: r.Name(), State: job.State(r.Byte()), Priority: job.Priority(r.Byte())}
	h.Retry = command.DecodeRetry(r)
	h.Attempt, h.Crashes = r.Uint32(), r.Uint32()
	h.Pos, h.Due = command.DecodePosition(r), r.Int()
	h.Epoch, h.Lease = command.DecodePosition(r), time.Duration(r.Uint())
	h.Worker, h.Hostname, h.Peer = r.Text(), r.Text(), r.Fixed64()
	h.flags = r.Byte()
	h.Started, h.Finished, h.FailedAt = r.Int(), r.Int(), r.Int()
	h.Reason = DeadReason(r.Byte())
	h.Timeline = make([]Moment, r.Count(3))
	last := int64(0)
	for i := range h.Timeline {
		m := Moment{What: What(r.Byte()), At: last + r.Int(), Attempt: r.Uint32()}
		h.Timeline[i], last = m, m.At
	}
	if !h.State.Valid() && r.Err() == nil {
		return Head{}, fmt.Errorf("%w: head has state %d", ErrRecord, h.State)
	}
	return h, closeRecord("head", r)
}

// QueueConfig is what an operator set for a queue.
type QueueConfig struct {
	Paused    bool
	CreatedAt int64
}

func (q *QueueConfig) encode() []byte {
	w := newRecord(16)
	w.Bool(q.Paused)
	w.Int(q.CreatedAt)
	return w.Buf
}

func decodeQueueConfig(v []byte) (QueueConfig, error) {
	r, err := openRecord("queue", v)
	if err != nil {
		return QueueConfig{}, err
	}
	q := QueueConfig{Paused: r.Bool(), CreatedAt: r.Int()}
	return q, closeRecord("queue", r)
}

// stateSlots is the size of a per-state table; slot 0 is unused.
const stateSlots = int(job.Cancelled) + 1

// Counts are the exact numbers of a queue, changed in the batch that changes the
// jobs, and the floors of its ready orders.
type Counts struct {
	Jobs     [stateSlots]int64 // By job.State.
	Enqueued int64             // Ever.
	Failed   int64             // Failed attempts, ever.
	// Floor: no ready job of the priority stands before it.
	Floor [job.Priorities]keys.Position
}

func (c *Counts) encode() []byte {
	w := newRecord(64)
	w.Uint(uint64(stateSlots))
	for _, n := range c.Jobs {
		w.Int(n)
	}
	w.Int(c.Enqueued)
	w.Int(c.Failed)
	for _, p := range c.Floor {
		command.EncodePosition(&w, p)
	}
	return w.Buf
}

func decodeCounts(v []byte) (Counts, error) {
	r, err := openRecord("counts", v)
	if err != nil {
		return Counts{}, err
	}
	var c Counts
	n := r.Count(1)
	if n > stateSlots {
		return Counts{}, fmt.Errorf("%w: counts of %d states", ErrRecord, n)
	}
	for i := range n {
		c.Jobs[i] = r.Int()
	}
	c.Enqueued, c.Failed = r.Int(), r.Int()
	for i := range c.Floor {
		c.Floor[i] = command.DecodePosition(r)
	}
	return c, closeRecord("counts", r)
}

// lock is the record of a unique lock or of an idempotency key.
type lock struct {
	Owner   job.ID
	By      job.ID // Stands in the due row; differs from Owner when the answer was a duplicate.
	Expires int64
	// First answer of an idempotent enqueue.
	State     job.State
	Duplicate bool
}

func (l *lock) encode() []byte {
	w := newRecord(32)
	w.ID(l.Owner)
	w.ID(l.By)
	w.Int(l.Expires)
	w.Byte(byte(l.State))
	w.Bool(l.Duplicate)
	return w.Buf
}

func decodeLock(v []byte) (lock, error) {
	r, err := openRecord("lock", v)
	if err != nil {
		return lock{}, err
	}
	l := lock{Owner: r.ID(), By: r.ID(), Expires: r.Int(), State: job.State(r.Byte()), Duplicate: r.Bool()}
	return l, closeRecord("lock", r)
}

// lockName is the value of a lock's due row.
func encodeLockName(queue, key string) []byte {
	w := newRecord(4 + len(queue) + len(key))
	w.Text(queue)
	w.Text(key)
	return w.Buf
}

func decodeLockName(v []byte) (queue, key string, err error) {
	r, err := openRecord("lock name", v)
	if err != nil {
		return "", "", err
	}
	queue, key = r.Name(), r.Text()
	return queue, key, closeRecord("lock name", r)
}

// attemptError is one failed attempt.
type attemptError struct {
	Attempt   uint32
	At        int64
	Error     string
	Backtrace string
}

func (a *attemptError) encode() []byte {
	w := newRecord(32 + len(a.Error) + len(a.Backtrace))
	w.Uint(uint64(a.Attempt))
	w.Int(a.At)
	w.Text(a.Error)
	w.Text(a.Backtrace)
	return w.Buf
}

func decodeAttemptError(v []byte) (attemptError, error) {
	r, err := openRecord("attempt error", v)
	if err != nil {
		return attemptError{}, err
	}
	a := attemptError{Attempt: r.Uint32(), At: r.Int(), Error: r.Text(), Backtrace: r.Text()}
	return a, closeRecord("attempt error", r)
}

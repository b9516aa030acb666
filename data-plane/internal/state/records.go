package state

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// Every record starts with its version byte. Records that carry nothing of a later
// version are written in the first, so that stored form changes only with the
// commands that need it (R18), and one value has one form.
const (
	recordVersion  = 1
	recordVersion2 = 2
	recordVersion3 = 3
)

// ErrRecord: a stored record can not be read. The node must stop.
var ErrRecord = errors.New("malformed record")

func newRecord(room int) codec.Writer { return newRecordOf(recordVersion, room) }

func newRecordOf(version byte, room int) codec.Writer {
	w := codec.Writer{Buf: make([]byte, 0, room)}
	w.Byte(version)
	return w
}

func openRecord(what string, b []byte) (*codec.Reader, error) {
	r, _, err := openRecordUpTo(what, b, recordVersion)
	return r, err
}

func openRecordUpTo(what string, b []byte, latest byte) (*codec.Reader, byte, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	if v < recordVersion || v > latest {
		return nil, 0, fmt.Errorf("%w: %s has version %d", ErrRecord, what, v)
	}
	return r, v, nil
}

// versionFor is the version of a record that has or has not what came with the second.
func versionFor(second bool) byte {
	if second {
		return recordVersion2
	}
	return recordVersion
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
	More           *BodyMore
}

// BodyMore is what only some jobs have.
type BodyMore struct {
	ExpireAt     int64 // 0: never.
	Agent        *command.AgentLimits
	Parent       job.ID
	Batch        job.BatchID
	Chain        job.ChainID
	ChainStep    int // Place in the chain from 0; ChainOnExit, ChainOnFailure.
	Schedule     job.ScheduleID
	Tick         int64 // Of the schedule; 0: run by hand.
	DependsOn    []job.ID
	OnDependency command.DependencyPolicy
}

func (m *BodyMore) isZero() bool {
	return m.ExpireAt == 0 && m.Agent == nil && m.Parent.IsZero() && m.Batch.IsZero() && m.Chain.IsZero() &&
		m.Schedule.IsZero() && len(m.DependsOn) == 0
}

// Steps of a chain that have no place in it (contract, domain constants).
const (
	ChainOnExit    = -1
	ChainOnFailure = -2
)

func (m *BodyMore) encode(w *codec.Writer) {
	w.Int(m.ExpireAt)
	w.Bool(m.Agent != nil)
	if m.Agent != nil {
		command.EncodeAgentLimits(w, *m.Agent)
	}
	w.ID(m.Parent)
	w.ID(m.Batch)
	w.ID(m.Chain)
	w.Int(int64(m.ChainStep))
	w.ID(m.Schedule)
	w.Int(m.Tick)
	w.Uint(uint64(len(m.DependsOn)))
	for _, id := range m.DependsOn {
		w.ID(id)
	}
	w.Byte(byte(m.OnDependency))
}

func decodeBodyMore(r *codec.Reader) *BodyMore {
	m := &BodyMore{ExpireAt: r.Time()}
	if r.Bool() {
		a := command.DecodeAgentLimits(r)
		m.Agent = &a
	}
	m.Parent, m.Batch, m.Chain, m.ChainStep = r.ID(), r.ID(), r.ID(), int(r.Int())
	m.Schedule, m.Tick = r.ID(), r.Time()
	if n := r.Count(16); n > 0 {
		m.DependsOn = make([]job.ID, n)
		for i := range m.DependsOn {
			m.DependsOn[i] = r.ID()
		}
	}
	m.OnDependency = command.DependencyPolicy(r.Byte())
	return m
}

func (b *Body) encode() []byte {
	w := newRecordOf(versionFor(b.More != nil), 64+len(b.Payload))
	w.Text(b.Queue)
	w.Bytes(b.Payload)
	w.Int(b.CreatedAt)
	w.Int(b.ScheduledAt)
	command.EncodeTags(&w, b.Tags)
	w.Text(b.UniqueKey)
	w.Text(b.IdempotencyKey)
	w.Text(b.TraceParent)
	if b.More != nil {
		b.More.encode(&w)
	}
	return w.Buf
}

func decodeBody(v []byte) (Body, error) {
	r, version, err := openRecordUpTo("body", v, recordVersion2)
	if err != nil {
		return Body{}, err
	}
	b := Body{Queue: r.Name(), Payload: r.Bytes(), CreatedAt: r.Int(), ScheduledAt: r.Int()}
	b.Tags = command.DecodeTags(r)
	b.UniqueKey, b.IdempotencyKey, b.TraceParent = r.Text(), r.Text(), r.Text()
	if version == recordVersion2 {
		b.More = decodeBodyMore(r)
	}
	return b, closeRecord("body", r)
}

// Head is the part of a job that changes with every transition.
//
// Invariants: Pos is set iff State is Pending and nothing blocks the job. Due is set iff State is Scheduled,
// Retrying or leased, and possibly if it is Held, and then there is a due row of that
// time; every other state has none. Epoch, Lease, Worker, Hostname and Peer describe the last lease.
type Head struct {
	Queue    string
	State    job.State
	Priority job.Priority
	Retry    command.RetryPolicy
	Attempt  uint32 // Fetches that were not given back.
	Crashes  uint32 // Leases that ran out.
	Pos      keys.Position
	Due      int64 // In lease time while a lease or a retry waits for it, else in calendar time.
	Shift    int64 // Calendar time minus lease time when the lease or the wait for a retry began.
	Epoch    keys.Position
	Lease    time.Duration
	Worker   string
	Hostname string
	Peer     uint64
	flags    uint32
	Started  int64
	Finished int64 // Completed, dead or cancelled.
	FailedAt int64 // Last failed attempt.
	Reason   DeadReason
	Timeline []Moment
	// gen is the generation of the queue in which the job was made. When it is not
	// the queue's any more, the job was deleted with the queue.
	gen       uint64
	ExpireAt  int64  // There is a due row for it while the job is not finished; 0: never.
	Iteration uint32 // Of an agent job, from 1.
}

const (
	flagUnique     = 1 << iota // The body names a unique key, which the job holds while alive.
	flagCheckpoint             // There is a checkpoint record.
	flagProgress               // There is a progress record.
	flagResult                 // There is a result record.
	flagErrors                 // There is at least one attempt error.
	flagReclaimed              // The last lease ran out; its holder settled nothing.
	_                          // Two bits of the first version that nothing used.
	_
	flagChain      // The body names a chain.
	flagBatch      // The body names a batch, of which the job is a member.
	flagDependents // Other jobs wait for this one.
	flagBlocked    // It waits for other jobs: while it is pending it has no place in the ready order.
	flagAgent      // The body has the limits of an agent job.
	flagHold       // There is a hold record.
	flagHoldNext   // When its worker lets go of it, it is held.
	flagExpired    // When its worker lets go of it, it is dead: it expired meanwhile.
	flagUsage      // There is a usage record.
	flagIterations // There is at least one iteration record.
	flagIterated   // Its iteration is over: the next lease begins another one.
	flagRanOut     // A lease ran out that the crashes do not tell of (any more).
	flagOverBudget // It cost more than a budget allows for one job, and that was told.
	flagDeadNext   // When its worker lets go of it, it is dead: it cost too much.

	// flagsFirst are those that fit the first version of the record.
	flagsFirst = 1<<8 - 1
)

func (h *Head) has(flag uint32) bool { return h.flags&flag != 0 }

// onLeaseTime reports whether Due is in lease time.
func (h *Head) onLeaseTime() bool {
	return h.State.Valid() && h.Due != 0 && (h.State == job.Retrying || h.State.Leased())
}

// DueAt is Due in calendar time, as it was when the wait began; 0 if nothing is due.
func (h *Head) DueAt() int64 {
	if h.onLeaseTime() {
		return h.Due + h.Shift
	}
	return h.Due
}

// Blocked reports whether the job is pending and waits for other jobs.
func (h *Head) Blocked() bool { return h.State == job.Pending && h.has(flagBlocked) }

// HasCheckpoint reports whether a checkpoint was stored for the job.
func (h *Head) HasCheckpoint() bool { return h.has(flagCheckpoint) }

// DeadReason says why a job is dead. Stored: append only.
type DeadReason uint8

const (
	NotDead DeadReason = iota
	DeadRetries
	DeadCrashes
	DeadTerminal   // Its worker said that trying again is of no use.
	DeadExpired    // Its time to live was over.
	DeadRejected   // A person decided so.
	DeadDependency // A job that it depends on did not complete.
	DeadBudget     // It cost more than a budget allows.
	deadReasonsEnd
)

var deadReasons = [...]string{
	"", "max_retries", "crash_loop", "terminal", "expired", "rejected", "dependency_failed", "budget_exceeded",
}

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
	WasHeld
	WasApproved
	WasRejected
	WasContinued // The next iteration of an agent.
	WasExpired
	WasMoved
	WasUnblocked
	WasPrioritized
)

var whatNames = [...]string{
	WasEnqueued: "enqueued", WasScheduled: "scheduled", WasPromoted: "promoted", WasStarted: "started",
	WasCompleted: "completed", WasFailed: "failed", WasReleased: "released", WasLeaseExpired: "lease_expired",
	WasCancelRequested: "cancel_requested", WasCancelled: "cancelled", WasRetried: "retried", WasDead: "dead",
	WasHeld: "held", WasApproved: "approved", WasRejected: "rejected", WasContinued: "continued", WasExpired: "expired",
	WasMoved: "moved", WasUnblocked: "unblocked", WasPrioritized: "priority_changed",
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
	version := versionFor(h.gen != 0)
	if h.flags > flagsFirst || h.ExpireAt != 0 || h.Iteration != 0 {
		version = recordVersion3
	}
	w := newRecordOf(version, 96+12*len(h.Timeline))
	w.Text(h.Queue)
	w.Byte(byte(h.State))
	w.Byte(byte(h.Priority))
	command.EncodeRetry(&w, h.Retry)
	w.Uint(uint64(h.Attempt))
	w.Uint(uint64(h.Crashes))
	command.EncodePosition(&w, h.Pos)
	w.Int(h.Due)
	if h.onLeaseTime() {
		w.Int(h.Shift)
	}
	command.EncodePosition(&w, h.Epoch)
	w.Uint(uint64(h.Lease))
	w.Text(h.Worker)
	w.Text(h.Hostname)
	w.Fixed64(h.Peer)
	w.Byte(byte(h.flags))
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
	if version >= recordVersion2 {
		w.Uint(h.gen)
	}
	if version == recordVersion3 {
		w.Uint(uint64(h.flags >> 8))
		w.Int(h.ExpireAt)
		w.Uint(uint64(h.Iteration))
	}
	return w.Buf
}

func decodeHead(v []byte) (Head, error) {
	r, version, err := openRecordUpTo("head", v, recordVersion3)
	if err != nil {
		return Head{}, err
	}
	h := Head{Queue: r.Name(), State: job.State(r.Byte()), Priority: job.Priority(r.Byte())}
	h.Retry = command.DecodeRetry(r)
	h.Attempt, h.Crashes = r.Uint32(), r.Uint32()
	h.Pos, h.Due = command.DecodePosition(r), r.Int()
	if h.onLeaseTime() {
		h.Shift = r.Int()
	}
	h.Epoch, h.Lease = command.DecodePosition(r), time.Duration(r.Uint())
	h.Worker, h.Hostname, h.Peer = r.Text(), r.Text(), r.Fixed64()
	h.flags = uint32(r.Byte())
	h.Started, h.Finished, h.FailedAt = r.Int(), r.Int(), r.Int()
	h.Reason = DeadReason(r.Byte())
	h.Timeline = make([]Moment, r.Count(3))
	last := int64(0)
	for i := range h.Timeline {
		m := Moment{What: What(r.Byte()), At: last + r.Int(), Attempt: r.Uint32()}
		h.Timeline[i], last = m, m.At
	}
	if version >= recordVersion2 {
		h.gen = r.Uint()
	}
	if version == recordVersion3 {
		h.flags |= r.Uint32() << 8
		h.ExpireAt, h.Iteration = r.Time(), r.Uint32()
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
	// MaxConcurrency is how many of its jobs workers may hold at a time; 0 is no limit.
	MaxConcurrency uint32
	Throttle       command.Throttle
	gen            uint64 // See Head.
	// kept, if not 0, is the generation after the oldest whose leased jobs are still
	// there: clearing a queue lets a generation pass without them.
	kept     uint64
	Draining bool // Takes no more jobs.
	// Retry is for the parts that a producer leaves open, if RetrySet names them.
	Retry    command.RetryPolicy
	RetrySet command.RetryParts
}

// Limited reports whether handing out the queue's jobs has a limit.
func (q *QueueConfig) Limited() bool { return q.MaxConcurrency > 0 || !q.Throttle.IsZero() }

// Fingerprint tells settings from other ones, and is never 0. It is about what operators
// set, not about what the queue went through.
func (q *QueueConfig) Fingerprint() uint64 {
	w := newRecord(32)
	w.Bool(q.Paused)
	w.Bool(q.Draining)
	w.Uint(uint64(q.MaxConcurrency))
	command.EncodeThrottle(&w, q.Throttle)
	command.EncodeRetry(&w, q.Retry)
	w.Byte(byte(q.RetrySet))
	h := fnv.New64a()
	_, _ = h.Write(w.Buf) // Never fails.
	return max(h.Sum64(), 1)
}

func (q *QueueConfig) encode() []byte {
	version := versionFor(q.Limited() || q.gen != 0)
	if q.kept != 0 || q.Draining || q.RetrySet != 0 {
		version = recordVersion3
	}
	w := newRecordOf(version, 32)
	w.Bool(q.Paused)
	w.Int(q.CreatedAt)
	if version >= recordVersion2 {
		w.Uint(uint64(q.MaxConcurrency))
		command.EncodeThrottle(&w, q.Throttle)
		w.Uint(q.gen)
	}
	if version == recordVersion3 {
		w.Uint(q.kept)
		w.Bool(q.Draining)
		command.EncodeRetry(&w, q.Retry)
		w.Byte(byte(q.RetrySet))
	}
	return w.Buf
}

func decodeQueueConfig(v []byte) (QueueConfig, error) {
	r, version, err := openRecordUpTo("queue", v, recordVersion3)
	if err != nil {
		return QueueConfig{}, err
	}
	q := QueueConfig{Paused: r.Bool(), CreatedAt: r.Int()}
	if version >= recordVersion2 {
		q.MaxConcurrency, q.Throttle, q.gen = r.Uint32(), command.DecodeThrottle(r), r.Uint()
	}
	if version == recordVersion3 {
		q.kept, q.Draining, q.Retry, q.RetrySet = r.Uint(), r.Bool(), command.DecodeRetry(r), command.RetryParts(r.Byte())
	}
	if q.Throttle.IsZero() {
		q.Throttle = command.Throttle{} // One value, one form.
	}
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
	// starts is what a throttle counts; empty without one.
	starts starts
}

// Leased is how many jobs workers hold: the active set that a limit of concurrency
// is about (R-C1).
func (c *Counts) Leased() int64 { return c.Jobs[job.Active] + c.Jobs[job.Cancelling] }

func (c *Counts) encode() []byte {
	w := newRecordOf(versionFor(len(c.starts) > 0), 64+8*len(c.starts))
	w.Uint(uint64(stateSlots))
	for _, n := range c.Jobs {
		w.Int(n)
	}
	w.Int(c.Enqueued)
	w.Int(c.Failed)
	for _, p := range c.Floor {
		command.EncodePosition(&w, p)
	}
	if len(c.starts) > 0 {
		c.starts.encode(&w)
	}
	return w.Buf
}

func decodeCounts(v []byte) (Counts, error) {
	r, version, err := openRecordUpTo("counts", v, recordVersion2)
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
	if version == recordVersion2 {
		c.starts = decodeStarts(r)
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
	gen       uint64 // See Head: a lock of another generation is not in force.
}

func (l *lock) encode() []byte {
	w := newRecordOf(versionFor(l.gen != 0), 40)
	w.ID(l.Owner)
	w.ID(l.By)
	w.Int(l.Expires)
	w.Byte(byte(l.State))
	w.Bool(l.Duplicate)
	if l.gen != 0 {
		w.Uint(l.gen)
	}
	return w.Buf
}

func decodeLock(v []byte) (lock, error) {
	r, version, err := openRecordUpTo("lock", v, recordVersion2)
	if err != nil {
		return lock{}, err
	}
	l := lock{Owner: r.ID(), By: r.ID(), Expires: r.Int(), State: job.State(r.Byte()), Duplicate: r.Bool()}
	if version == recordVersion2 {
		l.gen = r.Uint()
	}
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
	Worker    string // That held the lease; empty in rows of before it was kept.
}

func (a *attemptError) encode() []byte {
	w := newRecord(32 + len(a.Error) + len(a.Backtrace))
	w.Uint(uint64(a.Attempt))
	w.Int(a.At)
	w.Text(a.Error)
	w.Text(a.Backtrace)
	if a.Worker != "" {
		w.Text(a.Worker)
	}
	return w.Buf
}

func decodeAttemptError(v []byte) (attemptError, error) {
	r, err := openRecord("attempt error", v)
	if err != nil {
		return attemptError{}, err
	}
	a := attemptError{Attempt: r.Uint32(), At: r.Int(), Error: r.Text(), Backtrace: r.Text()}
	if r.Err() == nil && r.Len() > 0 {
		if a.Worker = r.Text(); r.Err() == nil && a.Worker == "" {
			return attemptError{}, fmt.Errorf("%w: attempt error: a worker without a name", ErrRecord)
		}
	}
	return a, closeRecord("attempt error", r)
}

// sweepMark says that objects of other generations than gen may be left of a queue
// that was deleted at a time.
type sweepMark struct {
	gen uint64
	at  int64
}

func (s *sweepMark) encode() []byte {
	w := newRecord(24)
	w.Uint(s.gen)
	w.Int(s.at)
	return w.Buf
}

func decodeSweepMark(v []byte) (sweepMark, error) {
	r, err := openRecord("sweep mark", v)
	if err != nil {
		return sweepMark{}, err
	}
	s := sweepMark{gen: r.Uint(), at: r.Int()}
	return s, closeRecord("sweep mark", r)
}

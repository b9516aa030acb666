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

// recordVersion is the version byte that every record starts with. Parts that only some
// records have stand behind a mask, so that one value has one form, and a short one.
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
	ExpireAt       int64 // 0: never.
	Agent          *command.AgentLimits
	Parent         job.ID
	Batch          job.BatchID
	Chain          job.ChainID
	ChainStep      int // Place in the chain from 0; ChainOnExit, ChainOnFailure.
	Schedule       job.ScheduleID
	Tick           int64 // Of the schedule; 0: run by hand.
	DependsOn      []job.ID
	OnDependency   command.DependencyPolicy
}

// Steps of a chain that have no place in it (contract, domain constants).
const (
	ChainOnExit    = -1
	ChainOnFailure = -2
)

// Parts of a Body. Stored: append only.
const (
	bodyScheduled codec.Mask = 1 << iota
	bodyTags
	bodyUnique
	bodyIdempotency
	bodyTrace
	bodyExpiry
	bodyAgent
	bodyParent
	bodyBatch
	bodyChain
	bodySchedule
	bodyDependsOn
)

func (b *Body) parts() codec.Mask {
	return bodyScheduled.If(b.ScheduledAt != 0) |
		bodyTags.If(len(b.Tags) > 0) |
		bodyUnique.If(b.UniqueKey != "") |
		bodyIdempotency.If(b.IdempotencyKey != "") |
		bodyTrace.If(b.TraceParent != "") |
		bodyExpiry.If(b.ExpireAt != 0) |
		bodyAgent.If(b.Agent != nil) |
		bodyParent.If(!b.Parent.IsZero()) |
		bodyBatch.If(!b.Batch.IsZero()) |
		bodyChain.If(!b.Chain.IsZero()) |
		bodySchedule.If(!b.Schedule.IsZero()) |
		bodyDependsOn.If(len(b.DependsOn) > 0)
}

func (b *Body) encode() []byte {
	w := newRecord(64 + len(b.Payload))
	parts := b.parts()
	w.Text(b.Queue)
	w.Bytes(b.Payload)
	w.Int(b.CreatedAt)
	w.Mask(parts)
	if parts.Has(bodyScheduled) {
		w.Int(b.ScheduledAt)
	}
	if parts.Has(bodyTags) {
		command.EncodeTags(&w, b.Tags)
	}
	if parts.Has(bodyUnique) {
		w.Text(b.UniqueKey)
	}
	if parts.Has(bodyIdempotency) {
		w.Text(b.IdempotencyKey)
	}
	if parts.Has(bodyTrace) {
		w.Text(b.TraceParent)
	}
	if parts.Has(bodyExpiry) {
		w.Int(b.ExpireAt)
	}
	if parts.Has(bodyAgent) {
		command.EncodeAgentLimits(&w, *b.Agent)
	}
	b.encodeTies(&w, parts)
	return w.Buf
}

// encodeTies writes what the job has to do with others.
func (b *Body) encodeTies(w *codec.Writer, parts codec.Mask) {
	if parts.Has(bodyParent) {
		w.ID(b.Parent)
	}
	if parts.Has(bodyBatch) {
		w.ID(b.Batch)
	}
	if parts.Has(bodyChain) {
		w.ID(b.Chain)
		w.Int(int64(b.ChainStep))
	}
	if parts.Has(bodySchedule) {
		w.ID(b.Schedule)
		w.Int(b.Tick)
	}
	if parts.Has(bodyDependsOn) {
		command.EncodeIDs(w, b.DependsOn)
		w.Byte(byte(b.OnDependency))
	}
}

func decodeBody(v []byte) (Body, error) {
	r, err := openRecord("body", v)
	if err != nil {
		return Body{}, err
	}
	b := Body{Queue: r.Name(), Payload: r.Bytes(), CreatedAt: r.Int()}
	parts := r.Mask()
	if parts.Has(bodyScheduled) {
		b.ScheduledAt = r.Int()
	}
	if parts.Has(bodyTags) {
		b.Tags = command.DecodeTags(r)
	}
	if parts.Has(bodyUnique) {
		b.UniqueKey = r.Text()
	}
	if parts.Has(bodyIdempotency) {
		b.IdempotencyKey = r.Text()
	}
	if parts.Has(bodyTrace) {
		b.TraceParent = r.Text()
	}
	if parts.Has(bodyExpiry) {
		b.ExpireAt = r.Time()
	}
	if parts.Has(bodyAgent) {
		b.Agent = command.DecodeAgentLimits(r)
	}
	b.decodeTies(r, parts)
	r.Confirm(parts, b.parts())
	return b, closeRecord("body", r)
}

func (b *Body) decodeTies(r *codec.Reader, parts codec.Mask) {
	if parts.Has(bodyParent) {
		b.Parent = r.ID()
	}
	if parts.Has(bodyBatch) {
		b.Batch = r.ID()
	}
	if parts.Has(bodyChain) {
		b.Chain, b.ChainStep = r.ID(), int(r.Int())
	}
	if parts.Has(bodySchedule) {
		b.Schedule, b.Tick = r.ID(), r.Time()
	}
	if parts.Has(bodyDependsOn) {
		b.DependsOn, b.OnDependency = command.DecodeIDs(r), command.DependencyPolicy(r.Byte())
	}
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
	flagChain                  // The body names a chain.
	flagBatch                  // The body names a batch, of which the job is a member.
	flagDependents             // Other jobs wait for this one.
	flagBlocked                // It waits for other jobs: while it is pending it has no place in the ready order.
	flagAgent                  // The body has the limits of an agent job.
	flagHold                   // There is a hold record.
	flagHoldNext               // When its worker lets go of it, it is held.
	flagExpired                // When its worker lets go of it, it is dead: it expired meanwhile.
	flagUsage                  // There is a usage record.
	flagIterations             // There is at least one iteration record.
	flagIterated               // Its iteration is over: the next lease begins another one.
	flagRanOut                 // A lease ran out that the crashes do not tell of (any more).
	flagOverBudget             // It cost more than a budget allows for one job, and that was told.
	flagDeadNext               // When its worker lets go of it, it is dead: it cost too much.
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

// Parts of a Head. Stored: append only.
const (
	headPos codec.Mask = 1 << iota
	headDue
	headLease
	headStarted
	headFinished
	headFlags
	headFailed
	headReason
	headCrashes
	headGen
	headExpiry
	headIteration
)

func (h *Head) parts() codec.Mask {
	return headPos.If(!h.Pos.IsZero()) |
		headDue.If(h.Due != 0) |
		headLease.If(!h.Epoch.IsZero() || h.Lease != 0 || h.Worker != "" || h.Hostname != "" || h.Peer != 0) |
		headStarted.If(h.Started != 0) |
		headFinished.If(h.Finished != 0) |
		headFlags.If(h.flags != 0) |
		headFailed.If(h.FailedAt != 0) |
		headReason.If(h.Reason != NotDead) |
		headCrashes.If(h.Crashes != 0) |
		headGen.If(h.gen != 0) |
		headExpiry.If(h.ExpireAt != 0) |
		headIteration.If(h.Iteration != 0)
}

func (h *Head) encode() []byte {
	w := newRecord(96 + 12*len(h.Timeline))
	parts := h.parts()
	w.Text(h.Queue)
	w.Byte(byte(h.State))
	w.Byte(byte(h.Priority))
	command.EncodeRetry(&w, h.Retry)
	w.Uint(uint64(h.Attempt))
	w.Uint(uint64(len(h.Timeline)))
	last := int64(0)
	for _, m := range h.Timeline {
		w.Byte(byte(m.What))
		w.Int(m.At - last) // Differences are short.
		w.Uint(uint64(m.Attempt))
		last = m.At
	}
	w.Mask(parts)
	if parts.Has(headPos) {
		command.EncodePosition(&w, h.Pos)
	}
	if parts.Has(headDue) {
		w.Int(h.Due)
		if h.onLeaseTime() {
			w.Int(h.Shift)
		}
	}
	if parts.Has(headLease) {
		command.EncodePosition(&w, h.Epoch)
		w.Uint(uint64(h.Lease))
		w.Text(h.Worker)
		w.Text(h.Hostname)
		w.Fixed64(h.Peer)
	}
	if parts.Has(headStarted) {
		w.Int(h.Started)
	}
	if parts.Has(headFinished) {
		w.Int(h.Finished)
	}
	if parts.Has(headFlags) {
		w.Uint(uint64(h.flags))
	}
	h.encodeRare(&w, parts)
	return w.Buf
}

func (h *Head) encodeRare(w *codec.Writer, parts codec.Mask) {
	if parts.Has(headFailed) {
		w.Int(h.FailedAt)
	}
	if parts.Has(headReason) {
		w.Byte(byte(h.Reason))
	}
	if parts.Has(headCrashes) {
		w.Uint(uint64(h.Crashes))
	}
	if parts.Has(headGen) {
		w.Uint(h.gen)
	}
	if parts.Has(headExpiry) {
		w.Int(h.ExpireAt)
	}
	if parts.Has(headIteration) {
		w.Uint(uint64(h.Iteration))
	}
}

func decodeHead(v []byte) (Head, error) {
	r, err := openRecord("head", v)
	if err != nil {
		return Head{}, err
	}
	h := Head{Queue: r.Name(), State: job.State(r.Byte()), Priority: job.Priority(r.Byte())}
	h.Retry, h.Attempt = command.DecodeRetry(r), r.Uint32()
	h.Timeline = make([]Moment, r.Count(3))
	last := int64(0)
	for i := range h.Timeline {
		m := Moment{What: What(r.Byte()), At: last + r.Int(), Attempt: r.Uint32()}
		h.Timeline[i], last = m, m.At
	}
	parts := r.Mask()
	if parts.Has(headPos) {
		h.Pos = command.DecodePosition(r)
	}
	if parts.Has(headDue) {
		h.Due = r.Int()
		if h.onLeaseTime() {
			h.Shift = r.Int()
		}
	}
	if parts.Has(headLease) {
		h.Epoch, h.Lease = command.DecodePosition(r), time.Duration(r.Uint())
		h.Worker, h.Hostname, h.Peer = r.Text(), r.Text(), r.Fixed64()
	}
	if parts.Has(headStarted) {
		h.Started = r.Int()
	}
	if parts.Has(headFinished) {
		h.Finished = r.Int()
	}
	if parts.Has(headFlags) {
		h.flags = r.Uint32()
	}
	h.decodeRare(r, parts)
	r.Confirm(parts, h.parts())
	if !h.State.Valid() && r.Err() == nil {
		return Head{}, fmt.Errorf("%w: head has state %d", ErrRecord, h.State)
	}
	return h, closeRecord("head", r)
}

func (h *Head) decodeRare(r *codec.Reader, parts codec.Mask) {
	if parts.Has(headFailed) {
		h.FailedAt = r.Int()
	}
	if parts.Has(headReason) {
		h.Reason = DeadReason(r.Byte())
	}
	if parts.Has(headCrashes) {
		h.Crashes = r.Uint32()
	}
	if parts.Has(headGen) {
		h.gen = r.Uint()
	}
	if parts.Has(headExpiry) {
		h.ExpireAt = r.Time()
	}
	if parts.Has(headIteration) {
		h.Iteration = r.Uint32()
	}
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
	w := newRecord(32)
	w.Bool(q.Paused)
	w.Int(q.CreatedAt)
	w.Uint(uint64(q.MaxConcurrency))
	command.EncodeThrottle(&w, q.Throttle)
	w.Uint(q.gen)
	w.Uint(q.kept)
	w.Bool(q.Draining)
	command.EncodeRetry(&w, q.Retry)
	w.Byte(byte(q.RetrySet))
	return w.Buf
}

func decodeQueueConfig(v []byte) (QueueConfig, error) {
	r, err := openRecord("queue", v)
	if err != nil {
		return QueueConfig{}, err
	}
	q := QueueConfig{
		Paused: r.Bool(), CreatedAt: r.Int(), MaxConcurrency: r.Uint32(), Throttle: command.DecodeThrottle(r), gen: r.Uint(), kept: r.Uint(),
		Draining: r.Bool(), Retry: command.DecodeRetry(r), RetrySet: command.RetryParts(r.Byte()),
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
	w := newRecord(64 + 8*len(c.starts))
	for _, n := range c.Jobs {
		w.Int(n)
	}
	w.Int(c.Enqueued)
	w.Int(c.Failed)
	for _, p := range c.Floor {
		command.EncodePosition(&w, p)
	}
	c.starts.encode(&w)
	return w.Buf
}

func decodeCounts(v []byte) (Counts, error) {
	r, err := openRecord("counts", v)
	if err != nil {
		return Counts{}, err
	}
	var c Counts
	for i := range c.Jobs {
		c.Jobs[i] = r.Int()
	}
	c.Enqueued, c.Failed = r.Int(), r.Int()
	for i := range c.Floor {
		c.Floor[i] = command.DecodePosition(r)
	}
	c.starts = decodeStarts(r)
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
	w := newRecord(40)
	w.ID(l.Owner)
	w.ID(l.By)
	w.Int(l.Expires)
	w.Byte(byte(l.State))
	w.Bool(l.Duplicate)
	w.Uint(l.gen)
	return w.Buf
}

func decodeLock(v []byte) (lock, error) {
	r, err := openRecord("lock", v)
	if err != nil {
		return lock{}, err
	}
	l := lock{Owner: r.ID(), By: r.ID(), Expires: r.Int(), State: job.State(r.Byte()), Duplicate: r.Bool(), gen: r.Uint()}
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
	Worker    string // That held the lease.
}

func (a *attemptError) encode() []byte {
	w := newRecord(32 + len(a.Error) + len(a.Backtrace))
	w.Uint(uint64(a.Attempt))
	w.Int(a.At)
	w.Text(a.Error)
	w.Text(a.Backtrace)
	w.Text(a.Worker)
	return w.Buf
}

func decodeAttemptError(v []byte) (attemptError, error) {
	r, err := openRecord("attempt error", v)
	if err != nil {
		return attemptError{}, err
	}
	a := attemptError{Attempt: r.Uint32(), At: r.Int(), Error: r.Text(), Backtrace: r.Text(), Worker: r.Text()}
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

package records

import (
	"fmt"
	"math"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

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
	Flags    uint32
	Started  int64
	Finished int64 // Completed, dead or cancelled.
	FailedAt int64 // Last failed attempt.
	Reason   DeadReason
	Timeline []Moment
	// Gen is the generation of the queue in which the job was made. When it is not
	// the queue's any more, the job was deleted with the queue.
	Gen       uint64
	ExpireAt  int64  // There is a due row for it while the job is not finished; 0: never.
	Iteration uint32 // Of an agent job, from 1.
	// Metered: the job was made after the cell began to count what is billed, so that it is
	// among what its namespace stores, with Stored bytes of payload and result.
	Metered bool
	Stored  uint64
}

// What is said of a job in one bit. Stored: append only.
const (
	FlagUnique     = 1 << iota // The body names a unique key, which the job holds while alive.
	FlagCheckpoint             // There is a checkpoint record.
	FlagProgress               // There is a progress record.
	FlagResult                 // There is a result record.
	FlagErrors                 // There is at least one attempt error.
	FlagReclaimed              // The last lease ran out; its holder settled nothing.
	FlagChain                  // The body names a chain.
	FlagBatch                  // The body names a batch, of which the job is a member.
	FlagDependents             // Other jobs wait for this one.
	FlagBlocked                // It waits for other jobs: while it is pending it has no place in the ready order.
	FlagAgent                  // The body has the limits of an agent job.
	FlagHold                   // There is a hold record.
	FlagHoldNext               // When its worker lets go of it, it is held.
	FlagExpired                // When its worker lets go of it, it is dead: it expired meanwhile.
	FlagUsage                  // There is a usage record.
	FlagIterations             // There is at least one iteration record.
	FlagIterated               // Its iteration is over: the next lease begins another one.
	FlagRanOut                 // A lease ran out that the crashes do not tell of (any more).
	FlagOverBudget             // It cost more than a budget allows for one job, and that was told.
	FlagDeadNext               // When its worker lets go of it, it is dead: it cost too much.
)

// Has reports whether a flag is set.
func (h *Head) Has(flag uint32) bool { return h.Flags&flag != 0 }

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
func (h *Head) Blocked() bool { return h.State == job.Pending && h.Has(FlagBlocked) }

// HasCheckpoint reports whether a checkpoint was stored for the job.
func (h *Head) HasCheckpoint() bool { return h.Has(FlagCheckpoint) }

// StoppedByBudget reports whether the job's worker was asked to let go of it because
// the job costs more than a budget allows.
func (h *Head) StoppedByBudget() bool {
	return h.State == job.Cancelling && h.Has(FlagOverBudget)
}

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
	headStored
)

func (h *Head) parts() codec.Mask {
	return headPos.If(!h.Pos.IsZero()) |
		headDue.If(h.Due != 0) |
		headLease.If(!h.Epoch.IsZero() || h.Lease != 0 || h.Worker != "" || h.Hostname != "" || h.Peer != 0) |
		headStarted.If(h.Started != 0) |
		headFinished.If(h.Finished != 0) |
		headFlags.If(h.Flags != 0) |
		headFailed.If(h.FailedAt != 0) |
		headReason.If(h.Reason != NotDead) |
		headCrashes.If(h.Crashes != 0) |
		headGen.If(h.Gen != 0) |
		headExpiry.If(h.ExpireAt != 0) |
		headIteration.If(h.Iteration != 0) |
		headStored.If(h.Metered)
}

func (h *Head) Fields(f *codec.Fields) {
	f.Name(&h.Queue)
	codec.Byte(f, &h.State)
	codec.Byte(f, &h.Priority)
	h.Retry.Fields(f)
	f.Uint32(&h.Attempt)
	timeline(f, &h.Timeline)
	parts := f.Parts(h.parts())
	if parts.Has(headPos) {
		command.Position(f, &h.Pos)
	}
	if parts.Has(headDue) {
		f.Int(&h.Due)
		if h.onLeaseTime() {
			f.Int(&h.Shift)
		}
	}
	if parts.Has(headLease) {
		command.Position(f, &h.Epoch)
		f.Duration(&h.Lease)
		f.Text(&h.Worker)
		f.Text(&h.Hostname)
		f.Fixed64(&h.Peer)
	}
	if parts.Has(headStarted) {
		f.Int(&h.Started)
	}
	if parts.Has(headFinished) {
		f.Int(&h.Finished)
	}
	if parts.Has(headFlags) {
		f.Uint32(&h.Flags)
	}
	if parts&^headStored >= headFailed { // Every job has a size.
		h.rareFields(f, parts)
	}
	if f.Flag(&h.Metered, parts, headStored); h.Metered {
		f.Uint(&h.Stored)
	}
	f.Confirm(parts, h.parts())
}

func (h *Head) rareFields(f *codec.Fields, parts codec.Mask) {
	if parts.Has(headFailed) {
		f.Int(&h.FailedAt)
	}
	if parts.Has(headReason) {
		codec.Byte(f, &h.Reason)
	}
	if parts.Has(headCrashes) {
		f.Uint32(&h.Crashes)
	}
	if parts.Has(headGen) {
		f.Uint(&h.Gen)
	}
	if parts.Has(headExpiry) {
		f.Natural(&h.ExpireAt)
	}
	if parts.Has(headIteration) {
		f.Uint32(&h.Iteration)
	}
}

func (h *Head) Encode() []byte {
	f := newRecord(96 + 12*len(h.Timeline))
	h.Fields(&f)
	return f.Written()
}

// DecodeHead reads what Head.Encode wrote.
func DecodeHead(v []byte) (h Head, err error) {
	f := openRecord(v)
	h.Fields(&f)
	if !h.State.Valid() && f.Reader().Err() == nil {
		return Head{}, fmt.Errorf("%w: head has state %d", ErrRecord, h.State)
	}
	return h, closeRecord("head", &f)
}

// Holds decides whether a caller may settle the current lease of h (law 5).
// Without a token the first lease is open to everybody in the
// namespace; once a lease has run out only the current holder may: the same
// worker id where the call has one, else the same key and address.
func Holds(h *Head, by command.Holder) bool {
	if !by.Token.IsZero() {
		// The epoch alone is unique; the attempt is given back by a release.
		return by.Token.Epoch == h.Epoch
	}
	switch {
	case h.Crashes == 0 && !h.Has(FlagRanOut):
		return true
	case by.Worker != "":
		return by.Worker == h.Worker
	default:
		return by.Peer == h.Peer
	}
}

// LeaseLimit is when the lease of a job ends at the latest, in lease time, by the limits of
// an agent job.
func LeaseLimit(h *Head, a command.AgentLimits) int64 {
	if a.IterationTimeout <= 0 {
		return math.MaxInt64
	}
	return SaturatingAdd(h.Started-h.Shift, int64(a.IterationTimeout))
}

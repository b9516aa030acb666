// Package command owns every change that can be asked of the jobs of a shard, as
// typed values, and the one versioned codec by which they enter the raft log. A
// command is complete: ids, times and every choice were made by the proposer, so
// that applying it needs nothing but the state (law 2).
//
// It knows neither how a command is applied (state) nor who proposes it (shard).
// Kind numbers are append-only; an unknown kind stops the node, it is never
// skipped.
package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// Command is one of the types of this package.
type Command interface {
	kind() kind
	encode(w *codec.Writer)
	decode(r *codec.Reader)
}

type kind uint8

// Stored in the log: append only.
const (
	kindEnqueue kind = iota + 1
	kindFetch
	kindAck
	kindFail
	kindHeartbeat
	kindExtend
	kindFire
	kindPause
	kindCancel
	kindRetry
	kindDelete
	kindTrimFeed
	kindSetQueue
	kindDeleteQueue
	kindSweep
	kindEnqueueMore
	kindAckMore
	kindFailMore
	kindHeartbeatMore
	kindSetQueueMore
	kindTogether
	kindHold
	kindDecide
	kindMove
	kindClearQueue
	kindMakeBatch
	kindSealBatch
	kindPutSchedule
	kindDeleteSchedule
	kindTick
	kindPutBudget
	kindDeleteBudget
	kindPutPolicy
	kindDeletePolicy
	kindRequeue
	kindFetchFrom
	kindPrioritize
	kindAudit
	kindAuditTaken
	kindEndNamespace
	kindSweepNamespace
)

// Token proves a lease: the attempt and the place in the log where it was granted.
type Token struct {
	Attempt uint32
	Epoch   keys.Position
}

// IsZero reports whether the caller showed no token.
func (t Token) IsZero() bool { return t == Token{} }

// Holder says who settles a lease: the token if there is one, and what
// identifies the caller otherwise (law 5).
type Holder struct {
	Token  Token
	Worker string // Worker id, if the call names one.
	Peer   uint64 // Hash of key and peer address.
}

// Tag is one tag of a job. Lists of tags are sorted by key.
type Tag struct{ Key, Value string }

// Enqueue adds a job.
type Enqueue struct {
	NS             job.Namespace
	ID             job.ID
	Queue          string
	Payload        []byte
	Checkpoint     []byte
	Priority       job.Priority
	Retry          RetryPolicy
	ScheduledAt    int64 // Unix nanoseconds; 0: at once.
	Tags           []Tag
	UniqueKey      string
	UniqueFor      time.Duration
	IdempotencyKey string
	IdempotencyFor time.Duration
	TraceParent    string
	More           *EnqueueMore
}

// RetryPolicy says how often and when a job is tried again.
type RetryPolicy struct {
	MaxRetries uint32 // Total attempts.
	Backoff    job.Backoff
	BaseDelay  time.Duration
	MaxDelay   time.Duration
}

// DefaultRetry is the policy of a job that names none.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{job.DefaultMaxRetries, job.BackoffExponential, job.DefaultBaseDelay, job.DefaultMaxDelay}
}

// Fetch leases the named jobs, which the leader's dispatch chose, to one worker.
// Jobs that are not ready any more are skipped.
type Fetch struct {
	NS   job.Namespace
	Jobs []job.ID
	// Queues are those the worker asked for. A job may be moved in the same entry, and
	// a worker that does not know its queue would not know what to do with it. None
	// in entries of older nodes: then any queue will do.
	Queues   []string
	Worker   string
	Hostname string
	Peer     uint64
	Lease    time.Duration
	// Floors tell from where on the ready orders still have jobs, so that a new
	// leader need not walk over what was consumed.
	Floors []Floor
}

// Floor: no ready job of the queue and priority stands before Pos.
type Floor struct {
	Queue    string
	Priority job.Priority
	Pos      keys.Position
}

// Ack completes a job.
type Ack struct {
	NS         job.Namespace
	ID         job.ID
	By         Holder
	Result     []byte
	Checkpoint []byte
	More       *AckMore
}

// Fail ends an attempt without success; Release gives it back unspent.
type Fail struct {
	NS        job.Namespace
	ID        job.ID
	By        Holder
	Error     string
	Backtrace string
	Release   bool
	More      *FailMore
}

// Heartbeat stores news of a running job.
type Heartbeat struct {
	NS         job.Namespace
	ID         job.ID
	By         Holder
	Progress   []byte
	Checkpoint []byte
	More       *HeartbeatMore
}

// Extend moves the end of a lease that its holder renewed with the leader.
type Extend struct {
	NS    job.Namespace
	ID    job.ID
	Epoch keys.Position // The lease it is about; another one is left alone.
	Until int64
}

// Fire says that the time of a due row has come.
type Fire struct{ Due keys.Due }

// Pause stops (or resumes) handing out the jobs of a queue.
type Pause struct {
	NS     job.Namespace
	Queue  string
	Paused bool
}

// Cancel ends a job, or asks its worker to let go.
type Cancel struct {
	NS job.Namespace
	ID job.ID
}

// Retry makes a finished job pending again, with fresh counters, or one that waits for its
// time pending now, with its own.
type Retry struct {
	NS job.Namespace
	ID job.ID
}

// Delete removes a job that no worker holds.
type Delete struct {
	NS job.Namespace
	ID job.ID
}

// TrimFeed removes the events of entries before an index.
type TrimFeed struct{ Before uint64 }

// Settings names settings of a queue. Stored: append only.
type Settings uint8

const (
	SetPaused Settings = 1 << iota
	SetConcurrency
	SetThrottle
	SetDraining
	SetRetry
)

// SetQueue makes a queue exist and changes the settings that Set names.
type SetQueue struct {
	NS             job.Namespace
	Queue          string
	Set            Settings
	Paused         bool
	MaxConcurrency uint32 // Leases at a time; 0 is no limit.
	Throttle       Throttle
	More           *QueueMore // What SetDraining and SetRetry are about, and a condition.
}

// Throttle allows Limit leases to begin in any Window; zero is no limit.
type Throttle struct {
	Limit  uint32
	Window time.Duration
}

// IsZero reports whether nothing is limited.
func (t Throttle) IsZero() bool { return t.Limit == 0 || t.Window <= 0 }

// DeleteQueue removes a queue and, at once for everybody who asks, all its jobs.
// What they leave in the store is removed by Sweep, piece by piece.
type DeleteQueue struct {
	NS    job.Namespace
	Queue string
}

// SweepMax bounds the jobs and locks of one Sweep.
const SweepMax = 512

// Sweep removes what a deleted queue left behind: the leader found it, and apply
// checks each item. A queue of the same name that lives now is not touched.
type Sweep struct {
	NS          job.Namespace
	Queue       string
	Jobs        []job.ID
	Unique      []string // Keys of unique locks.
	Idempotency []string
	// Done, if not 0, says that nothing is left of what came before this generation.
	Done uint64
}

const (
	version = 1
	// CommandsMax bounds one entry; the proposer closes a batch before it.
	CommandsMax = 16384
)

// ErrMalformed is returned for bytes that are not a list of known commands.
var ErrMalformed = errors.New("malformed commands")

// Encode writes the payload of one log entry.
func Encode(cmds []Command) []byte {
	w := codec.Writer{Buf: make([]byte, 0, 64+96*len(cmds))}
	w.Byte(version)
	w.Uint(uint64(len(cmds)))
	for _, c := range cmds {
		w.Byte(byte(c.kind()))
		c.encode(&w)
	}
	return w.Buf
}

// Decode reads the payload of one log entry. Byte slices alias b.
func Decode(b []byte) ([]Command, error) {
	r := codec.NewReader(b)
	if v := r.Byte(); v != version {
		return nil, fmt.Errorf("%w: version %d, this node knows %d", ErrMalformed, v, version)
	}
	n := r.Count(1)
	if n > CommandsMax {
		return nil, fmt.Errorf("%w: %d commands", ErrMalformed, n)
	}
	cmds := make([]Command, 0, n)
	for range n {
		c, err := newCommand(kind(r.Byte()))
		if err != nil {
			return nil, err
		}
		c.decode(r)
		if r.Err() != nil {
			break
		}
		cmds = append(cmds, c)
	}
	if err := r.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return cmds, nil
}

func newCommand(k kind) (Command, error) {
	switch k {
	case kindEnqueue:
		return new(Enqueue), nil
	case kindFetch:
		return new(Fetch), nil
	case kindAck:
		return new(Ack), nil
	case kindFail:
		return new(Fail), nil
	case kindHeartbeat:
		return new(Heartbeat), nil
	case kindExtend:
		return new(Extend), nil
	case kindFire:
		return new(Fire), nil
	case kindPause:
		return new(Pause), nil
	case kindCancel:
		return new(Cancel), nil
	case kindRetry:
		return new(Retry), nil
	case kindDelete:
		return new(Delete), nil
	case kindTrimFeed:
		return new(TrimFeed), nil
	case kindSetQueue:
		return new(SetQueue), nil
	case kindDeleteQueue:
		return new(DeleteQueue), nil
	case kindSweep:
		return new(Sweep), nil
	case kindEnqueueMore:
		return &Enqueue{More: new(EnqueueMore)}, nil
	case kindAckMore:
		return &Ack{More: new(AckMore)}, nil
	case kindFailMore:
		return &Fail{More: new(FailMore)}, nil
	case kindHeartbeatMore:
		return &Heartbeat{More: new(HeartbeatMore)}, nil
	case kindSetQueueMore:
		return &SetQueue{More: new(QueueMore)}, nil
	case kindTogether:
		return new(Together), nil
	case kindHold:
		return new(Hold), nil
	case kindDecide:
		return new(Decide), nil
	case kindPrioritize:
		return new(Prioritize), nil
	case kindEndNamespace:
		return new(EndNamespace), nil
	case kindSweepNamespace:
		return new(SweepNamespace), nil
	case kindMove:
		return new(Move), nil
	case kindClearQueue:
		return new(ClearQueue), nil
	case kindMakeBatch:
		return new(MakeBatch), nil
	case kindSealBatch:
		return new(SealBatch), nil
	case kindPutSchedule:
		return new(PutSchedule), nil
	case kindDeleteSchedule:
		return new(DeleteSchedule), nil
	case kindTick:
		return new(Tick), nil
	case kindPutBudget:
		return new(PutBudget), nil
	case kindDeleteBudget:
		return new(DeleteBudget), nil
	case kindPutPolicy:
		return new(PutPolicy), nil
	case kindDeletePolicy:
		return new(DeletePolicy), nil
	case kindFetchFrom:
		return &Fetch{Queues: []string{}}, nil
	case kindAudit:
		return new(Audit), nil
	case kindAuditTaken:
		return new(AuditTaken), nil
	case kindRequeue:
		return new(Requeue), nil
	default:
		return nil, fmt.Errorf("%w: unknown command %d", ErrMalformed, k)
	}
}

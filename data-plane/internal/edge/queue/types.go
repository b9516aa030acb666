package queue

import (
	"encoding/json"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Limits of the worker protocol; a value beyond one is refused by name.
const (
	QueueNameBytesMax  = 128
	PayloadBytesMax    = 256 << 10 // Default; a tenant's plan may say otherwise.
	ResultBytesMax     = 256 << 10
	CheckpointBytesMax = 256 << 10
	ProgressBytesMax   = 64 << 10
	ErrorBytesMax      = 16 << 10 // Longer errors and backtraces are cut, not refused.
	BacktraceBytesMax  = 64 << 10
	TagsMax            = 64
	TagBytesMax        = 256
	KeyBytesMax        = 256 // Unique and idempotency keys.
	WorkerNameBytesMax = 256
	ReasonBytesMax     = 1 << 10 // Of a hold, and of a comment on it.
	BatchMax           = 1000    // Items of an enqueue batch.
	FetchCountMax      = 512
	AckBatchMax        = 512
	FetchQueuesMax     = 64
	LeaseMin           = time.Second
	LeaseMax           = 24 * time.Hour
	WaitDefault        = 30 * time.Second
	WaitMax            = 60 * time.Second
	RetriesMax         = 1000
	DelayMax           = 30 * 24 * time.Hour
	UniquePeriodMax    = 365 * 24 * time.Hour
	ScheduleAheadMax   = 10 * 365 * 24 * time.Hour
	ExpireAfterMin     = time.Millisecond
	ExpireAfterMax     = ScheduleAheadMax
	ConcurrencyMax     = 1_000_000 // Of a queue's own limits; more is no limit.
	ThrottleMax        = 1_000_000_000
	WindowMin          = time.Millisecond
	WindowMax          = 31 * 24 * time.Hour
	FinishedMax        = 1_000_000_000 // Finished jobs of a queue to keep.
)

// Caller is who calls, as proven by the transport. Every use case works inside its
// Namespace and nowhere else.
type Caller struct {
	Namespace job.Namespace
	// Tenant is whose namespace it is; "" is a tenant with this namespace alone.
	Tenant string
	// Principal is the key id or user, Peer the client's address without the port.
	// Atomic they identify a holder without a lease token.
	Principal string
	Peer      string
	// PayloadBytesMax is the plan's limit; 0 means the default.
	PayloadBytesMax int
	// Owner is whom a key belongs to.
	Owner string
	// Person: somebody signed in, or with a key of their own.
	Person bool
	// Rights are what the caller may do in the namespace.
	Rights permission.Here
	// Refused is told what the caller may not do, when it tried: in a queue, or in the
	// namespace if queue is "". It is one function for all callers. Nil: nobody is.
	Refused func(c Caller, p permission.Permission, queue string)
}

// EnqueueInput is one job to add. A nil pointer means the default.
type EnqueueInput struct {
	Queue          string
	Payload        json.RawMessage // Empty means {}.
	Checkpoint     json.RawMessage // Initial checkpoint; empty means none.
	Priority       wire.Priority
	MaxRetries     *int // All attempts; 0 means 1.
	RetryBackoff   wire.Backoff
	RetryBaseDelay *time.Duration
	RetryMaxDelay  *time.Duration
	ScheduledAt    time.Time      // Zero or past: at once.
	Delay          *time.Duration // ScheduledAt, counted from now; not both.
	ExpireAfter    *time.Duration // Time to live, from now; nil: for ever.
	Tags           map[string]string
	UniqueKey      string
	UniquePeriod   *time.Duration // 0 is the default too.
	IdempotencyKey string
	TraceParent    string // W3C traceparent of the producer.
	ParentID       string // The job this one came out of, for people to see.
	Agent          *AgentLimits
	Chain          *ChainInput
	DependsOn      []string // Ids of jobs that must end first.
	// OnDependencyFailed says what happens to the job when one of those does not
	// complete: fail, which is the default, run or cancel.
	OnDependencyFailed wire.DependencyPolicy
	BatchID            string // The job joins this open batch.
}

// EnqueueResult is the job that now exists for the request.
type EnqueueResult struct {
	wire.Enqueued
	// Replayed: the idempotency key was used before; this is the first answer
	// again.
	Replayed bool
}

// FetchInput asks for up to Count jobs of any of Queues.
type FetchInput struct {
	Queues   []string
	WorkerID string
	Hostname string
	Count    int
	Lease    time.Duration // 0 means the default.
	Wait     time.Duration // 0 answers at once.
}

// AckInput completes one attempt. Token may be empty (generation-1 clients).
type AckInput struct {
	JobID      job.ID
	Token      string
	WorkerID   string
	Result     json.RawMessage
	Checkpoint json.RawMessage
	Usage      *UsageReport
	// AgentStatus is what an agent job's loop does next: continue, done or hold.
	AgentStatus wire.AgentStatus
	HoldReason  string
	StepStatus  wire.StepStatus // Of a chain; "" is continue.
	ExitReason  string
}

// FailInput ends one attempt without success.
type FailInput struct {
	JobID     job.ID
	Token     string
	WorkerID  string
	Error     string
	Backtrace string
	// Release gives the job back without spending the attempt. The error text
	// "worker_shutdown" of generation-1 clients means the same.
	Release bool
	// Terminal: a retry would not help; the job is dead.
	Terminal bool
	// Delay is the time to the next attempt, instead of the backoff, or until a
	// released job is handed out again; nil if not given.
	Delay *time.Duration
	Usage *UsageReport
}

// HeartbeatInput renews one lease and may carry news to store.
type HeartbeatInput struct {
	JobID      job.ID
	Token      string
	WorkerID   string
	Lease      time.Duration // 0: the lease of the fetch.
	Progress   json.RawMessage
	Checkpoint json.RawMessage
	Usage      *UsageReport
}

// ToHolder is what the holder of a lease is told. Who shows no lease token is an existing
// client, which knows ok and cancel: told anything else it would go on working.
func ToHolder(token string, o wire.HeartbeatOutcome) wire.HeartbeatOutcome {
	if token == "" && o.Status == wire.HeartbeatLost {
		o.Status = wire.HeartbeatCancel
	}
	return o
}

// FrameInput is one stream frame: settlements first, so that what they free is
// usable by the fetch; then the fetch; then the enqueues. All share one commit.
type FrameInput struct {
	Acks       []AckInput
	Fails      []FailInput
	Heartbeats []HeartbeatInput
	Fetch      *FetchInput
	Enqueues   []EnqueueInput
}

// FrameResult answers a frame. The slices are as long as, and in the order of, the
// input; an Err in an item is about that item only.
type FrameResult struct {
	Acks       []error
	Fails      []FailOutcome
	Heartbeats []wire.HeartbeatOutcome
	Grants     []wire.FetchedJob
	Enqueues   []EnqueueResult
	// FetchErr and EnqueueErr refuse only that part of the frame: a frame with an
	// invalid enqueue adds none of its jobs, but its settlements count.
	FetchErr   error
	EnqueueErr error
	// HeartbeatErr refuses the news of heartbeats; the leases were renewed.
	HeartbeatErr error
}

// FailOutcome is what happened to the job, or the reason there is none.
type FailOutcome struct {
	wire.FailResult
	Err error
}

// Throttle allows Limit jobs to start in any Window; zero is no limit.
type Throttle struct {
	Limit  int
	Window time.Duration
}

// QueueSettings changes a queue; nil fields stay as they are.
type QueueSettings struct {
	Paused         *bool
	MaxConcurrency *int // 0: no limit.
	Throttle       *Throttle
	Retry          *RetrySettings
	Retention      *retention.Finished // What is 0 is the namespace's.
	// IfFingerprint, if not 0, refuses the change unless the queue has the settings that
	// the caller has seen.
	IfFingerprint uint64
}

// RetrySettings are a queue's defaults for what producers leave open. For fields
// that are not set the engine's defaults apply.
type RetrySettings struct {
	MaxRetries *int
	Backoff    wire.Backoff
	BaseDelay  *time.Duration
	MaxDelay   *time.Duration
}

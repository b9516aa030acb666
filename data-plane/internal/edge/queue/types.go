package queue

import (
	"encoding/json"
	"time"

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
)

// Caller is who calls, as proven by the transport. Every use case works inside its
// Namespace and nowhere else.
type Caller struct {
	Namespace job.Namespace
	// Principal is the key id or user, Peer the client's address without the port.
	// Together they identify a holder without a lease token.
	Principal string
	Peer      string
	// PayloadBytesMax is the plan's limit; 0 means the default.
	PayloadBytesMax int
}

// EnqueueInput is one job to add. A nil pointer means the default.
type EnqueueInput struct {
	Queue          string
	Payload        json.RawMessage // Empty means {}.
	Checkpoint     json.RawMessage // Initial checkpoint; empty means none.
	Priority       string
	MaxRetries     *int // All attempts; 0 means 1.
	RetryBackoff   string
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
	OnDependencyFailed string
	BatchID            string // The job joins this open batch.
}

// EnqueueStatus is the word of an enqueue result.
type EnqueueStatus string

const (
	StatusPending   EnqueueStatus = "pending"
	StatusScheduled EnqueueStatus = "scheduled"
	StatusHeld      EnqueueStatus = "held" // For an approval policy.
	StatusDuplicate EnqueueStatus = "duplicate"
)

// EnqueueResult is the job that now exists for the request.
type EnqueueResult struct {
	JobID  job.ID
	Status EnqueueStatus
	// UniqueExisting: the unique key was held; JobID is the holder.
	UniqueExisting bool
	// Replayed: the idempotency key was used before; this is the first answer
	// again.
	Replayed bool
	Chain    job.ChainID // Zero if it is in none.
	Batch    job.BatchID // Zero if it is in none.
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

// Grant is one leased attempt, ready to be sent to a worker.
type Grant struct {
	JobID      job.ID
	Queue      string
	Payload    json.RawMessage
	Checkpoint json.RawMessage // nil when there is none.
	Tags       map[string]string
	Attempt    int
	MaxRetries int
	Lease      time.Duration
	Token      string
	// TraceParent is the producer's, so that a trace goes on in the worker.
	TraceParent string
	ExpireAt    time.Time   // Zero: never.
	Agent       *AgentState // nil if it is no agent job.
	Places
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
	AgentStatus string
	HoldReason  string
	StepStatus  string // Of a chain: continue, which is the default, or exit.
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

// FailResult is what happened to the job.
type FailResult struct {
	State             job.State // Retrying, Dead, Pending (released), Cancelled or Held.
	NextAttemptAt     time.Time // Zero unless Retrying.
	AttemptsRemaining int
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

// HeartbeatStatus is the word a worker gets for one of its jobs.
type HeartbeatStatus string

const (
	HeartbeatOK     HeartbeatStatus = "ok"
	HeartbeatCancel HeartbeatStatus = "cancel"
	// HeartbeatOverBudget is cancel because the job costs more than a budget allows.
	HeartbeatOverBudget HeartbeatStatus = "cancel, over budget"
	// HeartbeatLost: the lease is gone; stop working on it.
	HeartbeatLost HeartbeatStatus = "lost"
)

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
	Heartbeats []HeartbeatStatus
	Grants     []Grant
	Enqueues   []EnqueueResult
	// FetchErr and EnqueueErr refuse only that part of the frame: a frame with an
	// invalid enqueue adds none of its jobs, but its settlements count.
	FetchErr   error
	EnqueueErr error
	// HeartbeatErr refuses the news of heartbeats; the leases were renewed.
	HeartbeatErr error
}

// FailOutcome is a FailResult or the reason there is none.
type FailOutcome struct {
	FailResult
	Err error
}

// TimelineEvent is one line of a job's recent history.
type TimelineEvent struct {
	Event   string
	At      time.Time
	Attempt int
}

// AttemptError is one failed attempt as it was reported.
type AttemptError struct {
	Attempt   int
	Error     string
	Backtrace string
	At        time.Time
}

// Job is a whole job as stored.
type Job struct {
	ID             job.ID
	Queue          string
	State          job.State
	Payload        json.RawMessage
	Priority       job.Priority
	Attempt        int
	MaxRetries     int
	Crashes        int
	RetryBackoff   job.Backoff
	RetryBaseDelay time.Duration
	RetryMaxDelay  time.Duration
	UniqueKey      string
	Tags           map[string]string
	WorkerID       string
	Hostname       string
	Progress       json.RawMessage
	Checkpoint     json.RawMessage
	Result         json.RawMessage
	LeaseExpiresAt time.Time
	ScheduledAt    time.Time
	ExpireAt       time.Time // Zero: never.
	CreatedAt      time.Time
	StartedAt      time.Time
	CompletedAt    time.Time
	FinishedAt     time.Time // Completed, dead or cancelled.
	FailedAt       time.Time
	// DeadReason is a word such as "max_retries" when State is Dead.
	DeadReason  string
	Errors      []AttemptError
	Timeline    []TimelineEvent
	TraceParent string
	Parent      job.ID    // Zero if it came out of no job.
	Hold        *Hold     // The latest; nil if it never was held.
	Usage       *JobUsage // nil if it reported none.
	Agent       *AgentState
	Groups
	Schedule job.ScheduleID // That made it; zero for every other job.
}

// Hold is why a job waits or waited for a person, and what was decided.
type Hold struct {
	Reason    string
	By        string // Who asked; "" if a rule did.
	At        time.Time
	Until     time.Time // Zero: for ever.
	Policy    string    // Id of the approval policy that asked; "" if none did.
	Approvers []string  // Who may decide; empty: every operator.
	Decision  string    // "approved", "rejected", or "" as long as nobody decided.
	DecidedBy string    // "" if the time was over.
	Comment   string
	DecidedAt time.Time
}

// QueueInfo is one queue with its exact counts.
type QueueInfo struct {
	Name            string
	Paused          bool
	Draining        bool // Takes no more jobs.
	MaxConcurrency  int  // 0: no limit.
	Throttle        Throttle
	Retry           RetrySettings
	CreatedAt       time.Time
	Counts          map[job.State]int64 // Every state is present.
	Enqueued        int64               // Ever.
	Failed          int64               // Failed attempts, ever.
	OldestPendingAt time.Time           // Zero when nothing is pending.
	// Fingerprint identifies these settings; see QueueSettings.IfFingerprint.
	Fingerprint uint64
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
	// IfFingerprint, if not 0, refuses the change unless the queue has the settings that
	// the caller has seen.
	IfFingerprint uint64
}

// RetrySettings are a queue's defaults for what producers leave open. For fields
// that are not set the engine's defaults apply.
type RetrySettings struct {
	MaxRetries *int
	Backoff    string
	BaseDelay  *time.Duration
	MaxDelay   *time.Duration
}

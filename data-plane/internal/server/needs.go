package server

import (
	"context"
	"net/http"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// Producing is what a producer asks of the use cases.
type Producing interface {
	Enqueue(ctx context.Context, c queue.Caller, in queue.EnqueueInput) (queue.EnqueueResult, error)
	// EnqueueBatch adds all or none, in one commit.
	EnqueueBatch(ctx context.Context, c queue.Caller, in []queue.EnqueueInput) ([]queue.EnqueueResult, error)
}

// Working is what a worker asks. An error in an item concerns that item alone.
type Working interface {
	// Fetch answers an empty slice when nothing came within the wait.
	Fetch(ctx context.Context, c queue.Caller, in queue.FetchInput) ([]queue.Grant, error)
	Ack(ctx context.Context, c queue.Caller, in []queue.AckInput) ([]error, error)
	Fail(ctx context.Context, c queue.Caller, in []queue.FailInput) ([]queue.FailOutcome, error)
	Heartbeat(ctx context.Context, c queue.Caller, in []queue.HeartbeatInput) ([]queue.HeartbeatStatus, error)
	// Frame runs its parts in one commit and does not wait for jobs. Its error means
	// that nothing of the frame is known to have happened; a part that is not valid
	// has its own error and costs the others nothing.
	Frame(ctx context.Context, c queue.Caller, in queue.FrameInput) (queue.FrameResult, error)
}

// Inspecting looks and does not touch.
type Inspecting interface {
	Job(ctx context.Context, c queue.Caller, id job.ID) (queue.Job, error)
	Queues(ctx context.Context, c queue.Caller) ([]queue.QueueInfo, error)
	Queue(ctx context.Context, c queue.Caller, name string) (queue.QueueInfo, error)
}

// Operating is what an operator asks.
type Operating interface {
	PauseQueue(ctx context.Context, c queue.Caller, name string) error
	ResumeQueue(ctx context.Context, c queue.Caller, name string) error
	// Audit lists who administered what, newest first, before a number; 0 is the newest.
	Audit(ctx context.Context, c queue.Caller, before uint64, limit int) (queue.AuditPage, error)
	// DrainQueue answers how many jobs are left after at most wait.
	DrainQueue(ctx context.Context, c queue.Caller, name string, wait time.Duration) (remaining int64, err error)
	// SetQueue makes the queue exist and answers what it is then.
	SetQueue(ctx context.Context, c queue.Caller, name string, in queue.QueueSettings) (queue.QueueInfo, error)
	// ClearQueue leaves the jobs that workers hold.
	ClearQueue(ctx context.Context, c queue.Caller, name string) (removed int64, err error)
	// RequeueDead retries every dead job of the queue, however many.
	RequeueDead(ctx context.Context, c queue.Caller, name string) (requeued int64, err error)
	MoveJob(ctx context.Context, c queue.Caller, id job.ID, to string) error
	// DeleteQueue takes the queue's jobs with it.
	DeleteQueue(ctx context.Context, c queue.Caller, name string) error
	// Cancel answers the state the job is in now: Cancelled or Cancelling.
	Cancel(ctx context.Context, c queue.Caller, id job.ID) (job.State, error)
	// Hold answers Held, or Cancelling if a worker must let go of it first.
	Hold(ctx context.Context, c queue.Caller, id job.ID, reason string) (job.State, error)
	// Approve and Reject end a hold; they answer the state the job is in now.
	Approve(ctx context.Context, c queue.Caller, id job.ID, comment string) (job.State, error)
	Reject(ctx context.Context, c queue.Caller, id job.ID, comment string) (job.State, error)
	Retry(ctx context.Context, c queue.Caller, id job.ID) error
	Delete(ctx context.Context, c queue.Caller, id job.ID) error
}

// Governing is about agents and what models cost.
type Governing interface {
	// Iterations lists the finished iterations after one; a limit of 0 is the default.
	Iterations(ctx context.Context, c queue.Caller, id job.ID, after, limit int) (queue.IterationPage, error)
	// Replay makes a new job that begins where an iteration of another ended.
	Replay(ctx context.Context, c queue.Caller, id job.ID, from int, key string) (queue.EnqueueResult, error)
	Budgets(ctx context.Context, c queue.Caller) ([]queue.Budget, error)
	// SetBudget makes the budget or changes it, and answers what it is then.
	SetBudget(ctx context.Context, c queue.Caller, in queue.Budget) (queue.Budget, error)
	DeleteBudget(ctx context.Context, c queue.Caller, scope, target string) error
	Policies(ctx context.Context, c queue.Caller) ([]queue.Policy, error)
	// SetPolicy makes the policy or changes it, and answers what it is then.
	SetPolicy(ctx context.Context, c queue.Caller, in queue.Policy) (queue.Policy, error)
	DeletePolicy(ctx context.Context, c queue.Caller, id job.PolicyID) error
	UsageSummary(ctx context.Context, c queue.Caller, in queue.UsageQuery) (queue.UsageSummary, error)
}

// Grouping is about jobs that belong together.
type Grouping interface {
	// EnqueueAsBatch is EnqueueBatch for jobs that are one batch.
	EnqueueAsBatch(ctx context.Context, c queue.Caller, in []queue.EnqueueInput, o queue.BatchOptions) (queue.BatchEnqueued, error)
	MakeBatch(ctx context.Context, c queue.Caller, o queue.BatchOptions) (queue.Batch, error)
	SealBatch(ctx context.Context, c queue.Caller, id job.BatchID) (queue.Batch, error)
	Batch(ctx context.Context, c queue.Caller, id job.BatchID, page queue.PageInput) (queue.BatchView, error)
	Batches(ctx context.Context, c queue.Caller, page queue.PageInput) (queue.BatchPage, error)
	Chain(ctx context.Context, c queue.Caller, id job.ChainID) (queue.Chain, error)
	Chains(ctx context.Context, c queue.Caller, page queue.PageInput) (queue.ChainPage, error)
}

// Scheduling is about cron schedules.
type Scheduling interface {
	Schedules(ctx context.Context, c queue.Caller, cursor string, limit int) (queue.SchedulePage, error)
	Schedule(ctx context.Context, c queue.Caller, id job.ScheduleID) (queue.Schedule, error)
	CreateSchedule(ctx context.Context, c queue.Caller, in queue.ScheduleInput) (queue.Schedule, error)
	// PutSchedule replaces it; a version that is not 0 must be the one it has.
	PutSchedule(ctx context.Context, c queue.Caller, id job.ScheduleID, version uint64, in queue.ScheduleInput) (queue.Schedule, error)
	DeleteSchedule(ctx context.Context, c queue.Caller, id job.ScheduleID) error
	PauseSchedule(ctx context.Context, c queue.Caller, id job.ScheduleID) error
	ResumeSchedule(ctx context.Context, c queue.Caller, id job.ScheduleID) error
	RunSchedule(ctx context.Context, c queue.Caller, id job.ScheduleID) (queue.EnqueueResult, error)
	// PreviewSchedule answers the next runs of an expression.
	PreviewSchedule(ctx context.Context, cron, timezone string) ([]time.Time, error)
}

// Jobs is every use case of the worker API.
type Jobs interface {
	Producing
	Grouping
	Working
	Inspecting
	Operating
	Governing
	Scheduling
}

// Viewing looks at many jobs at once.
type Viewing interface {
	ListJobs(ctx context.Context, c queue.Caller, in queue.JobFilter) (queue.JobPage, error)
	ErrorGroups(ctx context.Context, c queue.Caller, of string, limit int) (queue.ErrorGroups, error)
	// Jobs leaves out what names no job.
	Jobs(ctx context.Context, c queue.Caller, ids []string) ([]queue.Job, error)
	Timeline(ctx context.Context, c queue.Caller, id job.ID) (queue.Timeline, error)
	Events(c queue.Caller, in queue.EventFilter) (Events, error)
	Recent(ctx context.Context, c queue.Caller, after uint64, limit int) (queue.Recent, error)
	Workers(ctx context.Context, c queue.Caller) ([]queue.Worker, error)
	// Throughput tells when the minutes were true.
	Throughput(ctx context.Context, c queue.Caller) ([]queue.Minute, time.Time, error)
	Why(ctx context.Context, c queue.Caller, id job.ID) (queue.Why, error)
}

// Bulking does one thing to many jobs.
type Bulking interface {
	Do(ctx context.Context, c queue.Caller, in queue.BulkInput) (queue.BulkResult, error)
	// Operation answers how far one is; the channel is closed when that is no longer so.
	Operation(c queue.Caller, id string) (queue.BulkOperation, <-chan struct{}, error)
}

// Events reads what happens in a namespace, in order; it is for one goroutine.
type Events interface {
	// Next waits for events. queue.ErrEventsLost tells that some are no longer kept.
	Next(ctx context.Context) ([]queue.NamespaceEvent, error)
	// GoOnFromNow passes over everything so far.
	GoOnFromNow() error
	// Seq is the number of the last event that was read or passed over.
	Seq() uint64
	Close()
}

// Placement says who serves a namespace at this moment.
type Placement struct {
	// Local is nil when another node leads the namespace's shard.
	Local Jobs
	// Views and Bulk are set where Local is.
	Views Viewing
	Bulk  Bulking
	// LeaderURL is the leader's API base URL; empty when Local is set or when no
	// leader is known.
	LeaderURL string
	// Silent: this node cannot know who leads, because its disk stalls, for example. It
	// holds no call for a leader; another node can carry it.
	Silent bool
	// Index is the applied index of the shard on this node, for X-Corvo-Index.
	// 0 leaves the header out.
	Index uint64
}

// Router finds who serves a namespace.
type Router interface {
	// Route answers from memory. An unknown namespace is a NotFound fault.
	Route(ns job.Namespace) (Placement, error)
	// WaitLeader returns as soon as the shard of ns has a leader, here or
	// elsewhere. When ctx ends first it returns what is known, without an error.
	WaitLeader(ctx context.Context, ns job.Namespace) (Placement, error)
}

// Authenticator proves who calls. It answers faults (Unauthorized, Forbidden,
// Unavailable) and fails closed.
type Authenticator interface {
	Authenticate(r *http.Request) (*Principal, error)
}

// Principal is an authenticated caller.
type Principal struct {
	// Identity is what a node forwards, signed again, to the leader. Its Roles
	// decide what the caller may do.
	Identity identity.Identity
	// Caller is Identity in the words of the use cases.
	Caller queue.Caller
	// Forwarded: a node sent this on; it must not be forwarded again.
	Forwarded bool
	// Recheck asks again, while a stream is open, whether the credential still
	// holds. Nil when somebody in front watches that (a proxy ends its streams).
	Recheck func() error
}

// May reports whether the caller's roles allow a.
func (p *Principal) May(a identity.Action) bool { return identity.Allows(p.Identity.Roles, a) }

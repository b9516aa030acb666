package wire

// State is where a job stands.
type State string

// States of a job, in the order in which it meets them.
const (
	Scheduled  State = "scheduled"  // Starts at a set time.
	Pending    State = "pending"    // Ready, waiting for a worker.
	Active     State = "active"     // Leased by a worker.
	Cancelling State = "cancelling" // Cancelled while active; its worker has been asked to stop.
	Retrying   State = "retrying"   // The last attempt failed; the next one starts at a set time.
	Held       State = "held"       // Waiting for approval.
	Completed  State = "completed"
	Dead       State = "dead"      // Failed for good.
	Cancelled  State = "cancelled" // Will not run.
)

// States lists them.
func States() []State {
	return []State{Scheduled, Pending, Active, Cancelling, Retrying, Held, Completed, Dead, Cancelled}
}

// Ended reports whether the job will not change any more, unless somebody retries it.
func (s State) Ended() bool { return s == Completed || s == Dead || s == Cancelled }

// EventType is what happened to a job or a queue.
type EventType string

// Types of the events of a namespace. EventGap and EventEnd are about the stream itself.
const (
	EventEnqueued        EventType = "enqueued"
	EventScheduled       EventType = "scheduled"
	EventPromoted        EventType = "promoted" // Its time came, or somebody did not wait for it.
	EventStarted         EventType = "started"
	EventProgress        EventType = "progress"
	EventCompleted       EventType = "completed"
	EventFailed          EventType = "failed"
	EventRetrying        EventType = "retrying"
	EventReleased        EventType = "released" // Given back without counting the attempt.
	EventLeaseExpired    EventType = "lease_expired"
	EventCancelRequested EventType = "cancel_requested"
	EventCancelled       EventType = "cancelled"
	EventExpired         EventType = "expired"
	EventDead            EventType = "dead"
	EventRetried         EventType = "retried" // By somebody, after its end.
	EventDeleted         EventType = "deleted"
	EventMoved           EventType = "moved"
	EventPriorityChanged EventType = "priority_changed"
	EventUnblocked       EventType = "unblocked" // What it depended on has ended.
	EventHeld            EventType = "held"
	EventApproved        EventType = "approved"
	EventRejected        EventType = "rejected"
	EventContinued       EventType = "continued" // The next iteration of an agent job.
	EventBudgetExceeded  EventType = "budget_exceeded"
	EventQueueUpdated    EventType = "queue.updated"
	EventQueuePaused     EventType = "queue.paused"
	EventQueueResumed    EventType = "queue.resumed"
	EventQueueDraining   EventType = "queue.draining"
	EventQueueCleared    EventType = "queue.cleared"
	EventQueueDeleted    EventType = "queue.deleted"

	EventGap EventType = "gap" // Events in between are no longer kept.
	EventEnd EventType = "end" // The last of a stream, with the reason.
)

// EventTypes lists those that can be asked for: all but EventGap and EventEnd.
func EventTypes() []EventType {
	return []EventType{
		EventEnqueued, EventScheduled, EventPromoted, EventStarted, EventProgress, EventCompleted, EventFailed, EventRetrying, EventReleased,
		EventLeaseExpired, EventCancelRequested, EventCancelled, EventExpired, EventDead, EventRetried, EventDeleted, EventMoved,
		EventPriorityChanged, EventUnblocked, EventHeld, EventApproved, EventRejected, EventContinued, EventBudgetExceeded,
		EventQueueUpdated, EventQueuePaused, EventQueueResumed, EventQueueDraining, EventQueueCleared, EventQueueDeleted,
	}
}

// Priority is how urgent a job is. Jobs tell it as a number, its place in Priorities.
type Priority string

// Priorities of a job.
const (
	Critical Priority = "critical"
	High     Priority = "high"
	Normal   Priority = "normal"
)

// Priorities lists them, the most urgent first.
func Priorities() []Priority { return []Priority{Critical, High, Normal} }

// Backoff is how the delay before the next attempt grows.
type Backoff string

// Backoffs of a retry.
const (
	BackoffNone        Backoff = "none"
	BackoffFixed       Backoff = "fixed"
	BackoffLinear      Backoff = "linear"
	BackoffExponential Backoff = "exponential"
)

// Backoffs lists them.
func Backoffs() []Backoff {
	return []Backoff{BackoffNone, BackoffFixed, BackoffLinear, BackoffExponential}
}

// DeadReason is why a job is dead.
type DeadReason string

// Reasons of a death.
const (
	DeadMaxRetries       DeadReason = "max_retries"
	DeadCrashLoop        DeadReason = "crash_loop"
	DeadTerminal         DeadReason = "terminal" // Its worker said not to try again.
	DeadExpired          DeadReason = "expired"
	DeadRejected         DeadReason = "rejected"
	DeadDependencyFailed DeadReason = "dependency_failed"
	DeadBudgetExceeded   DeadReason = "budget_exceeded"
)

// DeadReasons lists them.
func DeadReasons() []DeadReason {
	return []DeadReason{DeadMaxRetries, DeadCrashLoop, DeadTerminal, DeadExpired, DeadRejected, DeadDependencyFailed, DeadBudgetExceeded}
}

// DependencyPolicy is what happens to a job when one that it depends on does not complete.
type DependencyPolicy string

// Policies of a dependency.
const (
	DependencyFail   DependencyPolicy = "fail"
	DependencyRun    DependencyPolicy = "run"
	DependencyCancel DependencyPolicy = "cancel"
)

// DependencyPolicies lists them, the default first.
func DependencyPolicies() []DependencyPolicy {
	return []DependencyPolicy{DependencyFail, DependencyRun, DependencyCancel}
}

// Decision is what somebody decided about a held job.
type Decision string

// Decisions about a hold.
const (
	Approved Decision = "approved"
	Rejected Decision = "rejected"
)

// Decisions lists them.
func Decisions() []Decision { return []Decision{Approved, Rejected} }

// EnqueueStatus is what became of an enqueue.
type EnqueueStatus string

// Outcomes of an enqueue: the state of the new job, or duplicate.
const (
	EnqueuePending   EnqueueStatus = "pending"
	EnqueueScheduled EnqueueStatus = "scheduled"
	EnqueueHeld      EnqueueStatus = "held"      // For an approval policy.
	EnqueueDuplicate EnqueueStatus = "duplicate" // The unique key is taken: the answer names its holder.
)

// EnqueueStatuses lists them.
func EnqueueStatuses() []EnqueueStatus {
	return []EnqueueStatus{EnqueuePending, EnqueueScheduled, EnqueueHeld, EnqueueDuplicate}
}

// HeartbeatStatus tells a worker whether to go on with a job.
type HeartbeatStatus string

// Answers to a heartbeat.
const (
	HeartbeatOK     HeartbeatStatus = "ok"
	HeartbeatCancel HeartbeatStatus = "cancel" // Stop; somebody cancelled the job, or a budget is exceeded.
	HeartbeatLost   HeartbeatStatus = "lost"   // Stop; the lease is gone.
)

// HeartbeatStatuses lists them.
func HeartbeatStatuses() []HeartbeatStatus {
	return []HeartbeatStatus{HeartbeatOK, HeartbeatCancel, HeartbeatLost}
}

// AgentStatus is how an iteration of an agent job ended.
type AgentStatus string

// Ends of an iteration.
const (
	AgentContinue AgentStatus = "continue" // One more iteration.
	AgentDone     AgentStatus = "done"
	AgentHold     AgentStatus = "hold" // For approval.
)

// AgentStatuses lists them.
func AgentStatuses() []AgentStatus { return []AgentStatus{AgentContinue, AgentDone, AgentHold} }

// StepStatus is what an ack says about the chain of its job.
type StepStatus string

// What comes after a step.
const (
	StepContinue StepStatus = "continue" // The next step.
	StepExit     StepStatus = "exit"     // The remaining steps are skipped.
)

// StepStatuses lists them.
func StepStatuses() []StepStatus { return []StepStatus{StepContinue, StepExit} }

// Numbers of the jobs of a chain that are no steps.
const (
	StepOnExit    = -1
	StepOnFailure = -2
)

// ChainStatus is how far a chain has come.
type ChainStatus string

// Statuses of a chain.
const (
	ChainRunning   ChainStatus = "running"
	ChainCompleted ChainStatus = "completed"
	ChainExited    ChainStatus = "exited"
	ChainFailed    ChainStatus = "failed"
	ChainCancelled ChainStatus = "cancelled"
)

// ChainStatuses lists them.
func ChainStatuses() []ChainStatus {
	return []ChainStatus{ChainRunning, ChainCompleted, ChainExited, ChainFailed, ChainCancelled}
}

// BatchStatus is how far a batch has come.
type BatchStatus string

// Statuses of a batch.
const (
	BatchOpen     BatchStatus = "open"     // Jobs can join.
	BatchSealed   BatchStatus = "sealed"   // Some of its jobs have not ended.
	BatchFinished BatchStatus = "finished" // Its callback, if there is one, is enqueued.
)

// BatchStatuses lists them.
func BatchStatuses() []BatchStatus { return []BatchStatus{BatchOpen, BatchSealed, BatchFinished} }

// BatchOutcome is as what a batch counts a job that has ended.
type BatchOutcome string

// Outcomes of a job in a batch.
const (
	OutcomeCompleted BatchOutcome = "completed"
	OutcomeDead      BatchOutcome = "dead"
	OutcomeCancelled BatchOutcome = "cancelled"
	OutcomeDeleted   BatchOutcome = "deleted"
)

// BatchOutcomes lists them.
func BatchOutcomes() []BatchOutcome {
	return []BatchOutcome{OutcomeCompleted, OutcomeDead, OutcomeCancelled, OutcomeDeleted}
}

// Overlap is what a schedule does while its previous job has not ended.
type Overlap string

// Overlaps of a schedule.
const (
	OverlapAllow  Overlap = "allow"
	OverlapSkip   Overlap = "skip"
	OverlapCancel Overlap = "cancel" // The previous job.
)

// Overlaps lists them, the default first.
func Overlaps() []Overlap { return []Overlap{OverlapAllow, OverlapSkip, OverlapCancel} }

// CatchUp is which missed ticks a schedule runs.
type CatchUp string

// What is caught up with.
const (
	CatchUpOnce CatchUp = "once" // The latest.
	CatchUpSkip CatchUp = "skip"
	CatchUpAll  CatchUp = "all"
)

// CatchUps lists them, the default first.
func CatchUps() []CatchUp { return []CatchUp{CatchUpOnce, CatchUpSkip, CatchUpAll} }

// BudgetScope is what a budget is for.
type BudgetScope string

// Scopes of a budget.
const (
	BudgetGlobal BudgetScope = "global" // The namespace.
	BudgetQueue  BudgetScope = "queue"
	BudgetTag    BudgetScope = "tag"
)

// BudgetScopes lists them.
func BudgetScopes() []BudgetScope { return []BudgetScope{BudgetGlobal, BudgetQueue, BudgetTag} }

// OnExceed is what happens when a budget is spent.
type OnExceed string

// What a spent budget does.
const (
	ExceedHold      OnExceed = "hold"   // No jobs start.
	ExceedReject    OnExceed = "reject" // New jobs are refused, too.
	ExceedAlertOnly OnExceed = "alert_only"
)

// OnExceeds lists them, the default first.
func OnExceeds() []OnExceed { return []OnExceed{ExceedHold, ExceedReject, ExceedAlertOnly} }

// PolicyMode is how the conditions of an approval policy are combined.
type PolicyMode string

// Modes of a policy.
const (
	PolicyAny PolicyMode = "any"
	PolicyAll PolicyMode = "all"
)

// PolicyModes lists them, the default first.
func PolicyModes() []PolicyMode { return []PolicyMode{PolicyAny, PolicyAll} }

// OnExpire is what happens when nobody has decided in time.
type OnExpire string

// Ends of an undecided hold.
const (
	ExpireReject  OnExpire = "reject"
	ExpireApprove OnExpire = "approve"
)

// OnExpires lists them, the default first.
func OnExpires() []OnExpire { return []OnExpire{ExpireReject, ExpireApprove} }

// UsageKind is how a usage report counts.
type UsageKind string

// Kinds of a report.
const (
	UsageTotal UsageKind = "total" // From the start of the attempt; it replaces earlier ones for the same model.
	UsageDelta UsageKind = "delta" // It is added.
)

// UsageKinds lists them, the default first.
func UsageKinds() []UsageKind { return []UsageKind{UsageTotal, UsageDelta} }

// BulkAction is what a bulk operation does to each job.
type BulkAction string

// Actions on many jobs.
const (
	BulkRetry          BulkAction = "retry"
	BulkDelete         BulkAction = "delete"
	BulkCancel         BulkAction = "cancel"
	BulkMove           BulkAction = "move"
	BulkRequeue        BulkAction = "requeue"
	BulkChangePriority BulkAction = "change_priority"
	BulkHold           BulkAction = "hold"
	BulkApprove        BulkAction = "approve"
	BulkReject         BulkAction = "reject"
)

// BulkActions lists them.
func BulkActions() []BulkAction {
	return []BulkAction{BulkRetry, BulkDelete, BulkCancel, BulkMove, BulkRequeue, BulkChangePriority, BulkHold, BulkApprove, BulkReject}
}

// BulkStatus is how far a bulk operation is.
type BulkStatus string

// Statuses of a bulk operation.
const (
	BulkQueued    BulkStatus = "queued"
	BulkRunning   BulkStatus = "running"
	BulkCompleted BulkStatus = "completed"
	BulkFailed    BulkStatus = "failed"
)

// BulkStatuses lists them.
func BulkStatuses() []BulkStatus {
	return []BulkStatus{BulkQueued, BulkRunning, BulkCompleted, BulkFailed}
}

// Ended reports whether the operation is over.
func (s BulkStatus) Ended() bool { return s == BulkCompleted || s == BulkFailed }

// WhyCode is what stands in a job's way.
type WhyCode string

// Reasons why a job does not run, or that it does.
const (
	WhyFinished         WhyCode = "finished"
	WhyRunning          WhyCode = "running"
	WhyCancelling       WhyCode = "cancelling"
	WhyDispatchHeld     WhyCode = "dispatch_held"
	WhyQueuePaused      WhyCode = "queue_paused"
	WhyQueueDraining    WhyCode = "queue_draining"
	WhyThrottled        WhyCode = "throttled"
	WhyAtConcurrency    WhyCode = "at_concurrency"
	WhyWaitingForOthers WhyCode = "waiting_for_dependencies"
	WhyHeld             WhyCode = "held"
	WhyBudgetSpent      WhyCode = "budget_spent"
	WhyBackingOff       WhyCode = "backing_off"
	WhyScheduled        WhyCode = "scheduled"
	WhyBehindOtherJobs  WhyCode = "behind_other_jobs"
	WhyNoWorker         WhyCode = "no_worker"
	WhyRunsNext         WhyCode = "runs_next"
)

// WhyCodes lists them.
func WhyCodes() []WhyCode {
	return []WhyCode{
		WhyFinished, WhyRunning, WhyCancelling, WhyDispatchHeld, WhyQueuePaused, WhyQueueDraining, WhyThrottled, WhyAtConcurrency, WhyWaitingForOthers,
		WhyHeld, WhyBudgetSpent, WhyBackingOff, WhyScheduled, WhyBehindOtherJobs, WhyNoWorker, WhyRunsNext,
	}
}

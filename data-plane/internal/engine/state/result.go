package state

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// Refusal says why a command changed nothing. It is a value, the same on every
// replica.
type Refusal uint8

const (
	Accepted      Refusal = iota
	NotFound              // No such job in the namespace.
	NotActive             // No worker holds the job.
	LeaseLost             // The token, or the holder without one, is not the current one.
	WrongState            // The job's state does not allow it.
	NotApprover           // Others were named to decide.
	Draining              // The queue takes no more jobs.
	NotAgent              // The job is no agent job.
	NoDependency          // A job to wait for is not in the namespace; ID names it.
	NoBatch               // No such batch in the namespace.
	BatchClosed           // The batch was sealed.
	TooMany               // More than a limit allows: of jobs that wait for ID, of open batches, budgets or policies.
	Exists                // There is one already.
	BudgetSpent           // A budget takes no more jobs until the UTC day ends.
	Changed               // It is no longer what the caller has seen.
	NamespaceGone         // The namespace was deleted.
)

// Result answers one command. Which fields mean something depends on the command.
type Result struct {
	Refusal   Refusal
	ID        job.ID        // Enqueue: the job that now answers the request.
	State     job.State     // The job's state afterwards (or the one that stood in the way).
	Duplicate bool          // Enqueue: the unique key was held by ID.
	Replayed  bool          // Enqueue: the idempotency key had been used; the first answer again.
	NextAt    int64         // Fail: when the next attempt is due, in calendar time; 0 if none.
	Remaining uint32        // Fail: attempts left.
	Cancel    bool          // Heartbeat: the worker was asked to let go.
	Over      bool          // Heartbeat: because the job costs more than a budget allows.
	Epoch     keys.Position // Heartbeat: the lease it confirmed.
	Lease     time.Duration // Heartbeat: its length.
	Grants    []Grant       // Fetch.
	Skipped   []job.ID      // Fetch: no longer ready.
	Removed   int64         // ClearQueue: how many jobs.
	Requeued  uint32        // Requeue: how many jobs.
	Culprit   uint32        // Atomic: which of its commands it was refused for, from 0.
	Batch     job.BatchID   // Enqueue, MakeBatch, SealBatch.
	Chain     job.ChainID   // Enqueue.
}

// Grant is one lease as apply made it. The body is read outside of apply.
type Grant struct {
	ID            job.ID
	Queue         string
	Attempt       uint32
	MaxRetries    uint32
	Epoch         keys.Position
	Lease         time.Duration
	HasCheckpoint bool
	ExpireAt      int64  // 0: never.
	Iteration     uint32 // Of an agent job; 0 for others.
}

// Ready is a job that took a place in the ready order.
type Ready struct {
	NS       job.Namespace
	Queue    string
	Priority job.Priority
	Pos      keys.Position
	ID       job.ID
}

// BudgetOf names a budget of a namespace.
type BudgetOf struct {
	NS job.Namespace
	records.BudgetKey
}

// Applied is what one entry did: the answers, in command order, and what the
// leader's memory has to learn.
type Applied struct {
	Now     stateread.Times // The entry's.
	Results []Result
	Ready   []Ready
	// Unready left the ready order by another way than a fetch.
	Unready []Ready
	// FirstDue are the earliest due rows the entry added, by clock; 0 if none.
	FirstDue stateread.Times
	Queues   []stateread.QueueState
	// Budgets are those that shut other jobs than before.
	Budgets []BudgetOf
	// Ended lists namespaces of which nothing runs any more.
	Ended []job.Namespace
	// Sweep: a deleted queue left something to be swept.
	Sweep bool
}

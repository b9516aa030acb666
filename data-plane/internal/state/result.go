package state

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// Refusal says why a command changed nothing. It is a value, the same on every
// replica.
type Refusal uint8

const (
	Accepted   Refusal = iota
	NotFound           // No such job in the namespace.
	NotActive          // No worker holds the job.
	LeaseLost          // The token, or the holder without one, is not the current one.
	WrongState         // The job's state does not allow it.
)

// Result answers one command. Which fields mean something depends on the command.
type Result struct {
	Refusal   Refusal
	ID        job.ID        // Enqueue: the job that now answers the request.
	State     job.State     // The job's state afterwards (or the one that stood in the way).
	Duplicate bool          // Enqueue: the unique key was held by ID.
	Replayed  bool          // Enqueue: the idempotency key had been used; the first answer again.
	NextAt    int64         // Fail: when the next attempt is due; 0 if none.
	Remaining uint32        // Fail: attempts left.
	Cancel    bool          // Heartbeat: the worker was asked to let go.
	Epoch     keys.Position // Heartbeat: the lease it confirmed.
	Lease     time.Duration // Heartbeat: its length.
	Grants    []Grant       // Fetch.
	Skipped   []job.ID      // Fetch: no longer ready.
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
}

// Ready is a job that took a place in the ready order.
type Ready struct {
	NS       job.Namespace
	Queue    string
	Priority job.Priority
	Pos      keys.Position
	ID       job.ID
}

// QueueState tells that a queue was paused or resumed.
type QueueState struct {
	NS     job.Namespace
	Queue  string
	Paused bool
}

// Applied is what one entry did: the answers, in command order, and what the
// leader's memory has to learn.
type Applied struct {
	Now     int64 // The entry's time.
	Results []Result
	Ready   []Ready
	// Unready left the ready order by another way than a fetch.
	Unready []Ready
	// FirstDue is the earliest due row the entry added; 0 if none.
	FirstDue int64
	Queues   []QueueState
}

package server

import (
	"context"
	"net/http"

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
}

// Operating is what an operator asks.
type Operating interface {
	PauseQueue(ctx context.Context, c queue.Caller, name string) error
	ResumeQueue(ctx context.Context, c queue.Caller, name string) error
	// Cancel answers the state the job is in now: Cancelled or Cancelling.
	Cancel(ctx context.Context, c queue.Caller, id job.ID) (job.State, error)
	Retry(ctx context.Context, c queue.Caller, id job.ID) error
	Delete(ctx context.Context, c queue.Caller, id job.ID) error
}

// Jobs is every use case of the worker API.
type Jobs interface {
	Producing
	Working
	Inspecting
	Operating
}

// Placement says who serves a namespace at this moment.
type Placement struct {
	// Local is nil when another node leads the namespace's shard.
	Local Jobs
	// LeaderURL is the leader's API base URL; empty when Local is set or when no
	// leader is known.
	LeaderURL string
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

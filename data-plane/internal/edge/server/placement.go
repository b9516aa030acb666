package server

import (
	"context"
	"net/http"

	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Events reads what happens in a namespace, in order; it is for one goroutine.
type Events interface {
	// Next waits for events. queue.ErrEventsLost tells that some are no longer kept.
	Next(ctx context.Context) ([]wire.Event, error)
	// GoOnFromNow passes over everything so far.
	GoOnFromNow() error
	// Seq is the number of the last event that was read or passed over.
	Seq() uint64
	Close()
}

// Placement says who serves a namespace at this moment.
type Placement struct {
	// Local is nil when another node leads the namespace's shard.
	Local *queue.Service
	// Views and Bulk are set where Local is.
	Views *queue.Views
	Bulk  *queue.Bulk
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
	// Identity is what a node forwards, signed again, to the leader. Its Grants
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

// May reports whether the caller has a permission somewhere in the namespace.
func (p *Principal) May(what permission.Permission) bool { return p.Identity.Grants.Somewhere(what) }

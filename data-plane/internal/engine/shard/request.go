package shard

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/dispatch"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
)

// Request is one caller's part of an entry: settlements, then a fetch, then the
// rest, in that order within the entry, so that a slot freed by an ack is usable
// by the fetch of the same request.
type Request struct {
	Settle []command.Command
	Renew  []Renewal
	Fetch  *Fetch
	After  []command.Command
}

// Fetch asks for jobs. With Wait the caller is parked until there are some or it
// gives up; a request that waits carries nothing else.
type Fetch struct {
	NS       job.Namespace
	Queues   []string
	Count    int
	Worker   string
	Hostname string
	Peer     uint64
	Lease    time.Duration
	Wait     bool
}

// Renewal keeps a lease without writing anything.
type Renewal struct {
	NS    job.Namespace
	ID    job.ID
	By    command.Holder
	Lease time.Duration // 0: as long as the fetch's.
}

// RenewalResult tells whether the lease stands.
type RenewalResult struct {
	Held   bool
	Cancel bool   // The worker was asked to let go.
	Over   bool   // Because the job costs more than a budget allows.
	Worker string // That holds it, as its fetch said.
}

// Reply answers a Request: one result per command, in order.
type Reply struct {
	Index    uint64 // Of the entry; 0 if nothing had to be written.
	Now      int64  // Calendar time.
	Settled  []state.Result
	Renewals []RenewalResult
	Grants   []state.Grant
	After    []state.Result
	Err      error

	skipped int // Jobs of the fetch that turned out not to be ready.
}

// request is a Request on its way through the loop.
type request struct {
	Request
	ns    job.Namespace
	done  chan Reply // Holds one: the loop never waits for a caller.
	bytes int

	waiter    *dispatch.Waiter // Set from the first parking on: the answer comes from an offer.
	cancelled bool             // The caller gave up before the loop met it.
	// Where the parts stand in the entry being built.
	settleAt, afterAt, fetchAt int
	reply                      Reply
}

// renewed is a lease kept in memory.
type renewed struct {
	epoch keys.Position
	until int64 // In lease time.
}

func newRequest(r Request) *request {
	return &request{Request: r, ns: r.namespace(), done: make(chan Reply, 1), bytes: weight(&r)}
}

// weight is how many bytes a request takes in an entry.
func weight(r *Request) int {
	n := command.Size(r.Settle) + command.Size(r.After)
	if r.Fetch != nil {
		n += namesBytes(r.Fetch.Queues)
	}
	return n
}

// namesBytes is how many bytes names take in an entry.
func namesBytes(names []string) int {
	n := 0
	for _, name := range names {
		n += 1 + len(name)
	}
	return n
}

package shard

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/dispatch"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/state"
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

// weight estimates the encoded size of a request.
func weight(r *Request) int {
	n := 0
	for _, list := range [][]command.Command{r.Settle, r.After} {
		for _, c := range list {
			n += 96
			switch c := c.(type) {
			case *command.Enqueue:
				n += len(c.Payload) + len(c.Checkpoint) + len(c.UniqueKey) + len(c.IdempotencyKey) + len(c.TraceParent)
				for _, t := range c.Tags {
					n += len(t.Key) + len(t.Value)
				}
				n += weightOfTies(c)
			case *command.Ack:
				n += len(c.Result) + len(c.Checkpoint)
				n += len(c.HoldReason) + len(c.ExitReason)
			case *command.Fail:
				n += len(c.Error) + len(c.Backtrace)
			case *command.Heartbeat:
				n += len(c.Progress) + len(c.Checkpoint)
			case *command.Hold:
				n += len(c.Reason)
			case *command.Requeue:
				n += len(c.Jobs) * len(job.ID{})
			case *command.Decide:
				n += len(c.Comment)
			case *command.MakeBatch:
				if c.Callback != nil {
					n += len(c.Callback.Queue) + len(c.Callback.Payload)
				}
			case *command.PutSchedule:
				n += len(c.Schedule.Job.Payload)
			case *command.SweepNamespace:
				n += len(c.Due)*len(job.ID{})*2 + len(c.Feed)*8
			case *command.Sweep:
				n += len(c.Jobs) * len(job.ID{})
				for _, list := range [][]string{c.Unique, c.Idempotency} {
					for _, key := range list {
						n += len(key)
					}
				}
			}
		}
	}
	return n
}

func weightOfTies(m *command.Enqueue) int {
	n := len(m.DependsOn) * len(job.ID{})
	if m.Chain != nil {
		for i := range m.Chain.Steps {
			n += len(m.Chain.Steps[i].Queue) + len(m.Chain.Steps[i].Payload)
		}
		for _, s := range []*command.Step{m.Chain.OnFailure, m.Chain.OnExit} {
			if s != nil {
				n += len(s.Queue) + len(s.Payload)
			}
		}
	}
	return n
}

package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// inOrderLeast is from how many jobs on it pays to read their heads in order: they became
// ready in the order of their ids, more or less.
const inOrderLeast = 8

// FetchBytesMax bounds the payloads and checkpoints that one fetch is granted, unless its first
// job alone has more: clients take no message of any size (those of gRPC 4 MiB, unless they
// are told otherwise), and what never arrives comes to nothing until it is dead. Tags come on top.
const FetchBytesMax = 3 << 20

// fetch leases the jobs the leader chose, if they are still ready and as far as they fit into
// one answer.
func (x *entry) fetch(c *command.Fetch) Result {
	if len(c.Jobs) >= inOrderLeast {
		end, err := x.txn.InOrder()
		if err != nil {
			statedb.Check(err)
		}
		defer end()
	}
	res := Result{Grants: make([]Grant, 0, len(c.Jobs))}
	room := fetchRoom{bounded: x.version >= cellversion.FetchBytes}
	for _, id := range c.Jobs {
		if g, ok := x.grant(c, id, &room); ok {
			res.Grants = append(res.Grants, g)
		} else {
			res.Skipped = append(res.Skipped, id)
		}
	}
	x.raiseFloors(c)
	return res
}

func (x *entry) grant(c *command.Fetch, id job.ID, room *fetchRoom) (Grant, bool) {
	j, ok := x.job(c.NS, id)
	if !ok || j.State != job.Pending || j.Blocked() {
		return Grant{}, false
	}
	if len(c.Queues) > 0 && !slices.Contains(c.Queues, j.Queue) {
		return Grant{}, false // It was moved.
	}
	q := x.queue(c.NS, j.Queue)
	if q.config.Paused || !x.mayStart(q) || x.holdForTag(&j) {
		return Grant{}, false
	}
	if !room.take(x, &j) {
		x.refuse(q)
		return Grant{}, false
	}
	x.leave(&j)
	lease := c.Lease
	if j.Has(records.FlagAgent) {
		lease = x.beginIteration(&j, lease)
	}
	j.Attempt++
	j.Epoch, j.Lease = x.place(), lease
	j.Worker, j.Hostname, j.Peer = c.Worker, c.Hostname, c.Peer
	j.Started = x.now
	j.Flags &^= records.FlagReclaimed
	x.enterFor(&j, job.Active, lease)
	x.started(q)
	x.happened(feed.Started, &j)
	x.put(&j)
	return Grant{
		ID: id, Queue: j.Queue, Attempt: j.Attempt, MaxRetries: j.Retry.MaxRetries,
		Epoch: j.Epoch, Lease: j.Lease, HasCheckpoint: j.HasCheckpoint(), ExpireAt: j.ExpireAt, Iteration: j.Iteration,
	}, true
}

// fetchRoom is what a fetch may still be granted.
type fetchRoom struct {
	bounded bool
	taken   int // Bytes of the jobs that it was granted.
	jobs    int
}

// take reports whether the job fits, and counts it. One from before metering has no size.
func (r *fetchRoom) take(x *entry, j *subject) bool {
	if !r.bounded {
		return true
	}
	size := int(j.Stored)
	if j.HasCheckpoint() {
		size += len(read(x, x.m.space.Job(j.ns, keys.Checkpoint, j.id), "checkpoint", asIs))
	}
	if r.jobs > 0 && r.taken+size > FetchBytesMax {
		return false
	}
	r.taken += size
	r.jobs++
	return true
}

// raiseFloors remembers from where on the ready orders have jobs.
func (x *entry) raiseFloors(c *command.Fetch) {
	for _, f := range c.Floors {
		q := x.queue(c.NS, f.Queue)
		deleted := !q.hasConfig
		if !deleted && int(f.Priority) < job.Priorities && q.counts.Floor[f.Priority].Less(f.Pos) {
			x.touched(q).Floor[f.Priority] = f.Pos
		}
	}
}

package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// inOrderLeast is from how many jobs on it pays to read their heads in order: they became
// ready in the order of their ids, more or less.
const inOrderLeast = 8

// fetch leases the jobs the leader chose, if they are still ready.
func (x *entry) fetch(c *command.Fetch) Result {
	if len(c.Jobs) >= inOrderLeast {
		end, err := x.txn.InOrder()
		if err != nil {
			statedb.Check(err)
		}
		defer end()
	}
	res := Result{Grants: make([]Grant, 0, len(c.Jobs))}
	for _, id := range c.Jobs {
		if g, ok := x.grant(c, id); ok {
			res.Grants = append(res.Grants, g)
		} else {
			res.Skipped = append(res.Skipped, id)
		}
	}
	x.raiseFloors(c)
	return res
}

func (x *entry) grant(c *command.Fetch, id job.ID) (Grant, bool) {
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

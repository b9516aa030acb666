package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// fetch leases the jobs the leader chose, if they are still ready.
func (x *entry) fetch(c *command.Fetch) (Result, error) {
	res := Result{Grants: make([]Grant, 0, len(c.Jobs))}
	for _, id := range c.Jobs {
		g, ok, err := x.grant(c, id)
		if err != nil {
			return Result{}, err
		}
		if ok {
			res.Grants = append(res.Grants, g)
		} else {
			res.Skipped = append(res.Skipped, id)
		}
	}
	return res, x.raiseFloors(c)
}

func (x *entry) grant(c *command.Fetch, id job.ID) (Grant, bool, error) {
	j, ok, err := x.job(c.NS, id)
	if err != nil || !ok || j.State != job.Pending || j.Blocked() {
		return Grant{}, false, err
	}
	if len(c.Queues) > 0 && !slices.Contains(c.Queues, j.Queue) {
		return Grant{}, false, nil // It was moved.
	}
	q, err := x.queue(c.NS, j.Queue)
	if err != nil || q.config.Paused {
		return Grant{}, false, err
	}
	if may, err := x.mayStart(q); err != nil || !may {
		return Grant{}, false, err
	}
	if held, err := x.holdForTag(&j); err != nil || held {
		return Grant{}, false, err
	}
	if err := x.leave(&j); err != nil {
		return Grant{}, false, err
	}
	lease := c.Lease
	if j.Has(records.FlagAgent) {
		if lease, err = x.beginIteration(&j, lease); err != nil {
			return Grant{}, false, err
		}
	}
	j.Attempt++
	j.Epoch, j.Lease = x.place(), lease
	j.Worker, j.Hostname, j.Peer = c.Worker, c.Hostname, c.Peer
	j.Started = x.now
	j.Flags &^= records.FlagReclaimed
	if err := x.enterFor(&j, job.Active, lease); err != nil {
		return Grant{}, false, err
	}
	x.started(q)
	x.happened(feed.Started, &j)
	x.put(&j)
	return Grant{
		ID: id, Queue: j.Queue, Attempt: j.Attempt, MaxRetries: j.Retry.MaxRetries,
		Epoch: j.Epoch, Lease: j.Lease, HasCheckpoint: j.HasCheckpoint(), ExpireAt: j.ExpireAt, Iteration: j.Iteration,
	}, true, nil
}

// raiseFloors remembers from where on the ready orders have jobs.
func (x *entry) raiseFloors(c *command.Fetch) error {
	for _, f := range c.Floors {
		q, err := x.queue(c.NS, f.Queue)
		if err != nil {
			return err
		}
		if !q.hasConfig { // It was deleted.
			continue
		}
		if int(f.Priority) >= job.Priorities || !q.counts.Floor[f.Priority].Less(f.Pos) {
			continue
		}
		x.touched(q).Floor[f.Priority] = f.Pos
	}
	return nil
}

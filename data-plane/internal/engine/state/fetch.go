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
	h, ok, err := x.head(c.NS, id)
	if err != nil || !ok || h.State != job.Pending || h.Blocked() {
		return Grant{}, false, err
	}
	if len(c.Queues) > 0 && !slices.Contains(c.Queues, h.Queue) {
		return Grant{}, false, nil // It was moved.
	}
	q, err := x.queue(c.NS, h.Queue)
	if err != nil || q.config.Paused {
		return Grant{}, false, err
	}
	if may, err := x.mayStart(q); err != nil || !may {
		return Grant{}, false, err
	}
	if held, err := x.holdForTag(c.NS, id, &h); err != nil || held {
		return Grant{}, false, err
	}
	if err := x.leave(c.NS, id, &h); err != nil {
		return Grant{}, false, err
	}
	lease := c.Lease
	if h.Has(records.FlagAgent) {
		if lease, err = x.beginIteration(c.NS, id, &h, lease); err != nil {
			return Grant{}, false, err
		}
	}
	h.Attempt++
	h.Epoch, h.Lease = x.place(), lease
	h.Worker, h.Hostname, h.Peer = c.Worker, c.Hostname, c.Peer
	h.Started = x.now
	h.Flags &^= records.FlagReclaimed
	if err := x.enterFor(c.NS, id, &h, job.Active, lease); err != nil {
		return Grant{}, false, err
	}
	x.started(q)
	h.Note(records.WasStarted, x.now)
	x.event(feed.Started, c.NS, id, &h)
	x.putHead(c.NS, id, &h)
	return Grant{
		ID: id, Queue: h.Queue, Attempt: h.Attempt, MaxRetries: h.Retry.MaxRetries,
		Epoch: h.Epoch, Lease: h.Lease, HasCheckpoint: h.HasCheckpoint(), ExpireAt: h.ExpireAt, Iteration: h.Iteration,
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

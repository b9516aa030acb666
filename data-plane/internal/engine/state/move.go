package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// move puts a job that no worker holds into another queue. It keeps its state, its
// time and its priority, and takes a new place at the end. Its unique key goes along,
// if it is free there. Draining is about producers: who moves a job knows where to.
func (x *entry) move(c *command.Move) (Result, error) {
	j, ok, err := x.job(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	if j.State.Leased() {
		return Result{Refusal: WrongState, State: j.State}, nil
	}
	if j.Queue == c.Queue {
		return Result{State: j.State}, nil
	}
	if owner, free, err := x.moveKey(c, &j); err != nil || !free {
		return Result{Refusal: Exists, ID: owner, State: j.State}, err
	}
	if err := x.replace(&j, c.Queue, j.Priority); err != nil {
		return Result{}, err
	}
	x.happened(feed.Moved, &j)
	x.put(&j)
	return Result{State: j.State}, nil
}

// moveKey takes the unique key of a job along to the queue it is moved to; free is
// false, and owner who has it, if it is taken there. One whose time is over stays
// behind.
func (x *entry) moveKey(c *command.Move, j *subject) (owner job.ID, free bool, err error) {
	if !j.Has(records.FlagUnique) {
		return job.ID{}, true, nil
	}
	body, err := x.body(c.NS, c.ID)
	if err != nil {
		return job.ID{}, false, err
	}
	l, held, err := x.lock(c.NS, keys.Unique, j.Queue, body.UniqueKey)
	if err != nil {
		return job.ID{}, false, err
	}
	if held = held && l.Owner == c.ID; held {
		if there, taken, err := x.lock(c.NS, keys.Unique, c.Queue, body.UniqueKey); err != nil || taken {
			return there.Owner, false, err
		}
	}
	if err := x.dropLock(c.NS, keys.Unique, keys.DueUnique, j.Queue, body.UniqueKey, c.ID); err != nil {
		return job.ID{}, false, err
	}
	if !held {
		j.Flags &^= records.FlagUnique
		return job.ID{}, true, nil
	}
	return job.ID{}, true, x.takeLock(c.NS, keys.Unique, keys.DueUnique, c.Queue, body.UniqueKey, l)
}

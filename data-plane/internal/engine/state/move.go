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
func (x *entry) move(c *command.Move) Result {
	j, ok := x.job(c.NS, c.ID)
	if !ok {
		return Result{Refusal: NotFound}
	}
	if j.State.Leased() {
		return Result{Refusal: WrongState, State: j.State}
	}
	if j.Queue == c.Queue {
		return Result{State: j.State}
	}
	if owner, free := x.moveKey(c, &j); !free {
		return Result{Refusal: Exists, ID: owner, State: j.State}
	}
	x.replace(&j, c.Queue, j.Priority)
	x.happened(feed.Moved, &j)
	x.put(&j)
	return Result{State: j.State}
}

// moveKey takes the unique key of a job along to the queue it is moved to; free is
// false, and owner who has it, if it is taken there. One whose time is over stays
// behind.
func (x *entry) moveKey(c *command.Move, j *subject) (owner job.ID, free bool) {
	if !j.Has(records.FlagUnique) {
		return job.ID{}, true
	}
	body := x.body(c.NS, c.ID)
	l, held := x.lock(c.NS, keys.Unique, j.Queue, body.UniqueKey)
	if held = held && l.Owner == c.ID; held {
		if there, taken := x.lock(c.NS, keys.Unique, c.Queue, body.UniqueKey); taken {
			return there.Owner, false
		}
	}
	x.dropLock(c.NS, keys.Unique, keys.DueUnique, j.Queue, body.UniqueKey, c.ID)
	if !held {
		j.Flags &^= records.FlagUnique
		return job.ID{}, true
	}
	x.takeLock(c.NS, keys.Unique, keys.DueUnique, c.Queue, body.UniqueKey, l)
	return job.ID{}, true
}

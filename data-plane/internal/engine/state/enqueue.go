package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// enqueue adds a job, unless its idempotency key was used before (the first
// answer again) or its unique key is held (the holder is the answer).
func (x *entry) enqueue(c *command.Enqueue) Result { return x.enqueueNew(c, false) }

// enqueueNew is enqueue; a job may have been admitted before the first of its group was made.
func (x *entry) enqueueNew(c *command.Enqueue, admitted bool) Result {
	res, known := x.known(c)
	if res.Replayed {
		return res
	}
	if !known {
		if !admitted {
			if why, of := x.admits(c, nil); why != Accepted {
				return Result{Refusal: why, ID: of}
			}
		}
		res = x.enqueueUnique(c)
	}
	if c.IdempotencyKey == "" {
		return res
	}
	l := records.Lock{Owner: res.ID, By: c.ID, Expires: x.after(int64(c.IdempotencyFor)), State: res.State, Duplicate: res.Duplicate}
	x.takeLock(c.NS, keys.Idempotency, keys.DueIdempotency, c.Queue, c.IdempotencyKey, l)
	return res
}

// known finds the job that is there for the keys of c: no other is made.
func (x *entry) known(c *command.Enqueue) (Result, bool) {
	if c.IdempotencyKey != "" {
		if l, held := x.lock(c.NS, keys.Idempotency, c.Queue, c.IdempotencyKey); held {
			res := Result{ID: l.Owner, State: l.State, Duplicate: l.Duplicate, Replayed: true}
			x.groupsOf(c, &res)
			return res, true
		}
	}
	if c.UniqueKey == "" {
		return Result{}, false
	}
	l, held := x.lock(c.NS, keys.Unique, c.Queue, c.UniqueKey)
	if !held {
		return Result{}, false
	}
	j, _ := x.job(c.NS, l.Owner)
	return Result{ID: l.Owner, State: j.State, Duplicate: true}, true
}

func (x *entry) enqueueUnique(c *command.Enqueue) Result {
	if c.UniqueKey != "" {
		l := records.Lock{Owner: c.ID, By: c.ID, Expires: x.after(int64(c.UniqueFor))}
		x.takeLock(c.NS, keys.Unique, keys.DueUnique, c.Queue, c.UniqueKey, l)
	}
	return x.create(c)
}

// groupsOf completes a repeated answer with the batch and the chain that the first one
// named, as long as the job is there.
func (x *entry) groupsOf(c *command.Enqueue, res *Result) {
	if c.Batch.IsZero() && c.Chain == nil {
		return
	}
	if _, there := x.job(c.NS, res.ID); there {
		body := x.body(c.NS, res.ID)
		res.Batch, res.Chain = body.Batch, body.Chain
	}
}

package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// enqueue adds a job, unless its idempotency key was used before (the first
// answer again) or its unique key is held (the holder is the answer).
func (x *entry) enqueue(c *command.Enqueue) (Result, error) { return x.enqueueNew(c, false) }

// enqueueNew is enqueue; a job may have been admitted before the first of its group was made.
func (x *entry) enqueueNew(c *command.Enqueue, admitted bool) (Result, error) {
	res, known, err := x.known(c)
	if err != nil || res.Replayed {
		return res, err
	}
	if !known {
		if !admitted {
			why, of, err := x.admits(c, nil)
			if err != nil || why != Accepted {
				return Result{Refusal: why, ID: of}, err
			}
		}
		if res, err = x.enqueueUnique(c); err != nil {
			return Result{}, err
		}
	}
	if c.IdempotencyKey == "" {
		return res, nil
	}
	l := records.Lock{Owner: res.ID, By: c.ID, Expires: x.after(int64(c.IdempotencyFor)), State: res.State, Duplicate: res.Duplicate}
	return res, x.takeLock(c.NS, keys.Idempotency, keys.DueIdempotency, c.Queue, c.IdempotencyKey, l)
}

// known finds the job that is there for the keys of c: no other is made.
func (x *entry) known(c *command.Enqueue) (Result, bool, error) {
	if c.IdempotencyKey != "" {
		l, held, err := x.lock(c.NS, keys.Idempotency, c.Queue, c.IdempotencyKey)
		if err != nil || held {
			res := Result{ID: l.Owner, State: l.State, Duplicate: l.Duplicate, Replayed: held}
			if held {
				err = x.groupsOf(c, &res)
			}
			return res, held, err
		}
	}
	if c.UniqueKey == "" {
		return Result{}, false, nil
	}
	l, held, err := x.lock(c.NS, keys.Unique, c.Queue, c.UniqueKey)
	if err != nil || !held {
		return Result{}, false, err
	}
	j, _, err := x.job(c.NS, l.Owner)
	return Result{ID: l.Owner, State: j.State, Duplicate: true}, true, err
}

func (x *entry) enqueueUnique(c *command.Enqueue) (Result, error) {
	if c.UniqueKey != "" {
		l := records.Lock{Owner: c.ID, By: c.ID, Expires: x.after(int64(c.UniqueFor))}
		if err := x.takeLock(c.NS, keys.Unique, keys.DueUnique, c.Queue, c.UniqueKey, l); err != nil {
			return Result{}, err
		}
	}
	return x.create(c)
}

// groupsOf completes a repeated answer with the batch and the chain that the first one
// named, as long as the job is there.
func (x *entry) groupsOf(c *command.Enqueue, res *Result) error {
	if c.Batch.IsZero() && c.Chain == nil {
		return nil
	}
	_, there, err := x.job(c.NS, res.ID)
	if err != nil || !there {
		return err
	}
	body, err := x.body(c.NS, res.ID)
	res.Batch, res.Chain = body.Batch, body.Chain
	return err
}

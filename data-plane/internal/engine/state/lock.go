package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// lock reads a lock that is still in force.
func (x *entry) lock(ns job.Namespace, family byte, queue, key string) (records.Lock, bool, error) {
	l, ok, err := x.anyLock(ns, family, queue, key)
	if err != nil || !ok {
		return records.Lock{}, false, err
	}
	if l.Expires <= x.now {
		return records.Lock{}, false, nil
	}
	held, err := x.isHeld(ns, family, queue, &l)
	return l, held, err
}

// isHeld reports whether a lock outlived what passed of its queue: an idempotency
// record outlives a clearing, a unique lock does if its owner does.
func (x *entry) isHeld(ns job.Namespace, family byte, queue string, l *records.Lock) (bool, error) {
	q, err := x.queue(ns, queue)
	if err != nil || l.Gen == q.gen || !q.generation().Keeps(l.Gen) || family == keys.Idempotency {
		return err == nil && q.generation().Keeps(l.Gen), err
	}
	_, there, err := x.job(ns, l.Owner)
	return there, err
}

// anyLock reads a lock, in force or not.
func (x *entry) anyLock(ns job.Namespace, family byte, queue, key string) (records.Lock, bool, error) {
	return stateread.Get(x.txn, x.m.space.Lock(ns, family, queue, key), records.DecodeLock)
}

// takeLock writes a lock over whatever expired one stood there, and the due row
// that will remove it.
func (x *entry) takeLock(ns job.Namespace, family byte, kind keys.DueKind, queue, key string, l records.Lock) error {
	if err := x.dropLock(ns, family, kind, queue, key, job.ID{}); err != nil {
		return err
	}
	q, err := x.queue(ns, queue)
	if err != nil {
		return err
	}
	l.Gen = q.gen
	x.txn.Set(x.m.space.Lock(ns, family, queue, key), l.Encode())
	x.addDue(keys.Due{At: l.Expires, Kind: kind, NS: ns, ID: l.By}, records.EncodeLockName(queue, key))
	return nil
}

// dropLock removes a lock and its due row; with an owner, only if it is the
// owner's.
func (x *entry) dropLock(ns job.Namespace, family byte, kind keys.DueKind, queue, key string, owner job.ID) error {
	k := x.m.space.Lock(ns, family, queue, key)
	l, there, err := x.anyLock(ns, family, queue, key)
	if err != nil {
		return fmt.Errorf("lock %q of queue %q: %w", key, queue, err)
	}
	if !there || !owner.IsZero() && l.Owner != owner {
		return nil
	}
	x.txn.Delete(k)
	x.txn.Delete(x.m.space.Due(keys.Due{At: l.Expires, Kind: kind, NS: ns, ID: l.By}))
	return nil
}

// fireLock removes a lock that ran out, if it is still the one of the due row.
func (x *entry) fireLock(d keys.Due, family byte) (Result, error) {
	k := x.m.space.Due(d)
	v, err := x.txn.Get(k)
	if errors.Is(err, statedb.ErrNotFound) {
		return Result{Refusal: WrongState}, nil
	}
	if err != nil {
		return Result{}, err
	}
	queue, key, err := records.DecodeLockName(v)
	if err != nil {
		return Result{}, err
	}
	x.txn.Delete(k)
	lockKey := x.m.space.Lock(d.NS, family, queue, key)
	l, there, err := stateread.Get(x.txn, lockKey, records.DecodeLock)
	if err != nil {
		return Result{}, err
	}
	if there && l.By == d.ID && l.Expires == d.At {
		x.txn.Delete(lockKey)
	}
	return Result{}, nil
}

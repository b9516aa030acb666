package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// lock reads a lock that is still in force.
func (x *entry) lock(ns job.Namespace, family byte, queue, key string) (records.Lock, bool) {
	l, ok := x.anyLock(ns, family, queue, key)
	if !ok || l.Expires <= x.now {
		return records.Lock{}, false
	}
	return l, x.isHeld(ns, family, queue, &l)
}

// isHeld reports whether a lock outlived what passed of its queue: an idempotency
// record outlives a clearing, a unique lock does if its owner does.
func (x *entry) isHeld(ns job.Namespace, family byte, queue string, l *records.Lock) bool {
	q := x.queue(ns, queue)
	if l.Gen == q.gen || !q.generation().Keeps(l.Gen) || family == keys.Idempotency {
		return q.generation().Keeps(l.Gen)
	}
	_, there := x.job(ns, l.Owner)
	return there
}

// anyLock reads a lock, in force or not.
func (x *entry) anyLock(ns job.Namespace, family byte, queue, key string) (records.Lock, bool) {
	return find(x, x.m.space.Lock(ns, family, queue, key), "lock", records.DecodeLock)
}

// takeLock writes a lock over whatever expired one stood there, and the due row
// that will remove it.
func (x *entry) takeLock(ns job.Namespace, family byte, kind keys.DueKind, queue, key string, l records.Lock) {
	x.dropLock(ns, family, kind, queue, key, job.ID{})
	l.Gen = x.queue(ns, queue).gen
	x.txn.Set(x.m.space.Lock(ns, family, queue, key), l.Encode())
	x.addDue(keys.Due{At: l.Expires, Kind: kind, NS: ns, ID: l.By}, records.EncodeLockName(queue, key))
}

// dropLock removes a lock and its due row; with an owner, only if it is the
// owner's.
func (x *entry) dropLock(ns job.Namespace, family byte, kind keys.DueKind, queue, key string, owner job.ID) {
	k := x.m.space.Lock(ns, family, queue, key)
	l, there := x.anyLock(ns, family, queue, key)
	if !there || !owner.IsZero() && l.Owner != owner {
		return
	}
	x.txn.Delete(k)
	x.txn.Delete(x.m.space.Due(keys.Due{At: l.Expires, Kind: kind, NS: ns, ID: l.By}))
}

// fireLock removes a lock that ran out, if it is still the one of the due row.
func (x *entry) fireLock(d keys.Due, family byte) Result {
	k := x.m.space.Due(d)
	v, waits := find(x, k, "name of a lock", asIs)
	if !waits {
		return Result{Refusal: WrongState}
	}
	queue, key, err := records.DecodeLockName(v)
	statedb.Check(err)
	x.txn.Delete(k)
	lockKey := x.m.space.Lock(d.NS, family, queue, key)
	l, there := find(x, lockKey, "lock", records.DecodeLock)
	if there && l.By == d.ID && l.Expires == d.At {
		x.txn.Delete(lockKey)
	}
	return Result{}
}

package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// storeCheckpoint replaces the job's checkpoint; nil leaves it.
func (x *entry) storeCheckpoint(ns job.Namespace, id job.ID, h *records.Head, v []byte) {
	if v != nil {
		x.txn.Set(x.m.space.Job(ns, keys.Checkpoint, id), v)
		h.Flags |= records.FlagCheckpoint
	}
}

func (x *entry) body(ns job.Namespace, id job.ID) (records.Body, error) {
	v, err := x.txn.Get(x.m.space.Job(ns, keys.Body, id))
	if err != nil {
		return records.Body{}, fmt.Errorf("body of job %s: %w", id, err)
	}
	return records.DecodeBody(v)
}

type jobKey struct {
	ns job.Namespace
	id job.ID
}

// head reads the head of a job; ok is false if there is none, or if the job was
// deleted with its queue.
func (x *entry) head(ns job.Namespace, id job.ID) (h records.Head, ok bool, err error) {
	h, ok, err = x.anyHead(ns, id)
	if err != nil || !ok {
		return h, ok, err
	}
	q, err := x.queue(ns, h.Queue)
	if err != nil || !q.generation().Has(h.Gen, h.State.Leased()) {
		return records.Head{}, false, err
	}
	return h, true, nil
}

// anyHead is head without a look at the queue.
func (x *entry) anyHead(ns job.Namespace, id job.ID) (h records.Head, ok bool, err error) {
	if h, ok := x.m.leased[jobKey{ns, id}]; ok {
		return h, true, nil
	}
	v, err := x.txn.Get(x.m.space.Job(ns, keys.Head, id))
	if errors.Is(err, statedb.ErrNotFound) {
		return records.Head{}, false, nil
	}
	if err != nil {
		return records.Head{}, false, err
	}
	h, err = records.DecodeHead(v)
	if err != nil {
		return records.Head{}, false, fmt.Errorf("job %s: %w", id, err)
	}
	return h, true, nil
}

func (x *entry) putHead(ns job.Namespace, id job.ID, h *records.Head) {
	assertHead(id, h)
	if k := (jobKey{ns, id}); h.State.Leased() {
		x.m.leased[k] = *h
	} else {
		delete(x.m.leased, k)
	}
	x.txn.Set(x.m.space.Job(ns, keys.Head, id), h.Encode())
}

// assertHead checks the invariants of Head before it is written.
func assertHead(id job.ID, h *records.Head) {
	if h.Pos.IsZero() == (h.State == job.Pending && !h.Blocked()) {
		panic(fmt.Sprintf("state: job %s is %s with ready position %v", id, h.State, h.Pos))
	}
	timed := h.State == job.Scheduled || h.State == job.Retrying || h.State.Leased()
	if timed != (h.Due != 0) && h.State != job.Held { // A hold may have an end.
		panic(fmt.Sprintf("state: job %s is %s with due time %d", id, h.State, h.Due))
	}
}

package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// storeCheckpoint replaces the job's checkpoint; nil leaves it.
func (x *entry) storeCheckpoint(j *subject, v []byte) {
	if v != nil {
		x.txn.Set(x.m.space.Job(j.ns, keys.Checkpoint, j.id), v)
		j.Flags |= records.FlagCheckpoint
	}
}

func (x *entry) body(ns job.Namespace, id job.ID) records.Body {
	return read(x, x.m.space.Job(ns, keys.Body, id), "body", records.DecodeBody)
}

type jobKey struct {
	ns job.Namespace
	id job.ID
}

// subject is a job under change: its head as it is to be written, and whose that is.
type subject struct {
	records.Head
	ns job.Namespace
	id job.ID
	// left is the state that the job left and no event has told yet.
	left job.State
}

// due is a row by which something happens to the job at a time.
func (j *subject) due(at int64, kind keys.DueKind) keys.Due {
	return keys.Due{At: at, Kind: kind, NS: j.ns, ID: j.id}
}

// job reads the head of a job; ok is false if there is none, or if the job was
// deleted with its queue.
func (x *entry) job(ns job.Namespace, id job.ID) (j subject, ok bool) {
	if j, ok = x.anyJob(ns, id); !ok || !x.queue(ns, j.Queue).generation().Has(j.Gen, j.State.Leased()) {
		return subject{}, false
	}
	return j, true
}

// anyJob is job without a look at the queue.
func (x *entry) anyJob(ns job.Namespace, id job.ID) (j subject, ok bool) {
	j = subject{ns: ns, id: id}
	if j.Head, ok = x.m.leased[jobKey{ns, id}]; ok {
		return j, true
	}
	if j.Head, ok = find(x, x.m.space.Job(ns, keys.Head, id), "head", records.DecodeHead); !ok {
		return subject{}, false
	}
	return j, true
}

// put writes the head of a job.
func (x *entry) put(j *subject) {
	j.assert()
	if k := (jobKey{j.ns, j.id}); j.State.Leased() {
		x.m.leased[k] = j.Head
	} else {
		delete(x.m.leased, k)
	}
	x.txn.Set(x.m.space.Job(j.ns, keys.Head, j.id), j.Encode())
}

// assert checks the invariants of a head before it is written.
func (j *subject) assert() {
	if j.Pos.IsZero() == (j.State == job.Pending && !j.Blocked()) {
		panic(fmt.Sprintf("state: job %s is %s with ready position %v", j.id, j.State, j.Pos))
	}
	timed := j.State == job.Scheduled || j.State == job.Retrying || j.State.Leased()
	if timed != (j.Due != 0) && j.State != job.Held { // A hold may have an end.
		panic(fmt.Sprintf("state: job %s is %s with due time %d", j.id, j.State, j.Due))
	}
}

package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// OpenBatchesMax bounds the batches of a namespace that jobs may still join: somebody
// may forget to seal them.
const OpenBatchesMax = 10_000

// batch reads a batch; ok is false if there is none.
func (x *entry) batch(ns job.Namespace, id job.BatchID) (b records.Batch, ok bool) {
	return find(x, x.m.space.Batch(ns, id), "batch", records.DecodeBatch)
}

// batchThatIs reads the batch of a job: it is there.
func (x *entry) batchThatIs(ns job.Namespace, id job.BatchID) records.Batch {
	return read(x, x.m.space.Batch(ns, id), "batch", records.DecodeBatch)
}

func (x *entry) putBatch(ns job.Namespace, id job.BatchID, b *records.Batch) {
	x.txn.Set(x.m.space.Batch(ns, id), b.Encode())
}

// joinable reports why no job may join a batch from outside, if that is so.
func (x *entry) joinable(ns job.Namespace, id job.BatchID) Refusal {
	b, ok := x.batch(ns, id)
	switch {
	case !ok:
		return NoBatch
	case b.Sealed:
		return BatchClosed
	default:
		return Accepted
	}
}

// stillJoinable reports whether a job that follows on a member joins its batch: until
// the batch has ended, sealed or not.
func (x *entry) stillJoinable(ns job.Namespace, id job.BatchID) bool {
	if id.IsZero() {
		return false
	}
	b, ok := x.batch(ns, id)
	return ok && !b.Fired()
}

// joinBatch adds a member that was just made.
func (x *entry) joinBatch(ns job.Namespace, id job.BatchID, member job.ID) {
	b := x.batchThatIs(ns, id)
	b.Total++
	b.Open++
	x.txn.Set(x.m.space.Member(ns, id, member), records.EncodeOutcome(records.NoOutcome))
	x.putBatch(ns, id, &b)
}

// countMember writes down how a member ended, and ends the batch with the last one; one
// that has fired, and may have been deleted since, counts nothing any more. No
// member ends twice unless it was retried, which reopens it: what is deleted or swept
// after its end is not delivered again.
func (x *entry) countMember(d *delivery) {
	id := d.body.Batch
	b, _, ok := x.member(d.ns, id, d.id)
	if !ok || b.Fired() {
		return
	}
	b.Open--
	b.Counts[d.outcome]++
	x.txn.Set(x.m.space.Member(d.ns, id, d.id), records.EncodeOutcome(d.outcome))
	x.fireBatch(d.ns, id, &b)
	x.putBatch(d.ns, id, &b)
}

// reopenMember takes back how a member ended, unless the batch has told it already.
func (x *entry) reopenMember(ns job.Namespace, member job.ID, id job.BatchID) {
	b, was, ok := x.member(ns, id, member)
	if !ok || b.Fired() || was == records.NoOutcome {
		return
	}
	b.Open++
	b.Counts[was]--
	x.txn.Set(x.m.space.Member(ns, id, member), records.EncodeOutcome(records.NoOutcome))
	x.putBatch(ns, id, &b)
}

// member reads a batch and how one of its members ended; ok is false if the batch was
// deleted, long after it fired.
func (x *entry) member(ns job.Namespace, id job.BatchID, member job.ID) (b records.Batch, was records.Outcome, ok bool) {
	if was, ok = find(x, x.m.space.Member(ns, id, member), "member of a batch", records.DecodeOutcome); ok {
		b = x.batchThatIs(ns, id)
	}
	return b, was, ok
}

// fireBatch ends a batch that nothing joins and of which nothing is open. Its callback
// is enqueued once: a batch that has fired never comes here again.
func (x *entry) fireBatch(ns job.Namespace, id job.BatchID, b *records.Batch) {
	if !b.Sealed || b.Open > 0 || b.Fired() {
		return
	}
	b.FinishedAt = x.now
	if b.Callback == "" {
		return
	}
	own := x.takeCallback(ns, id)
	b.CallbackID = job.Derived(x.now, id, 0)
	base := []member{textMember("batch_id", id.String()), countMember("total", b.Total)}
	for o := records.OutcomeCompleted; o < records.OutcomesEnd; o++ {
		base = append(base, countMember(o.String(), b.Counts[o]))
	}
	x.create(&command.Enqueue{
		NS: ns, ID: b.CallbackID, Queue: b.Callback, Payload: overlay(base, own), Priority: job.Normal,
	})
}

// takeCallback reads what the callback of a batch is to carry, and removes it.
func (x *entry) takeCallback(ns job.Namespace, id job.BatchID) []byte {
	k := x.m.space.Callback(ns, id)
	payload := read(x, k, "callback", records.DecodeCallback)
	x.txn.Delete(k)
	return payload
}

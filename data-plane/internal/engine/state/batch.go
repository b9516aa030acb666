package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// OpenBatchesMax bounds the batches of a namespace that jobs may still join: somebody
// may forget to seal them.
const OpenBatchesMax = 10_000

// batch reads a batch; ok is false if there is none.
func (x *entry) batch(ns job.Namespace, id job.BatchID) (b records.Batch, ok bool, err error) {
	return stateread.Get(x.txn, x.m.space.Batch(ns, id), records.DecodeBatch)
}

func (x *entry) putBatch(ns job.Namespace, id job.BatchID, b *records.Batch) {
	x.txn.Set(x.m.space.Batch(ns, id), b.Encode())
}

// joinable reports why no job may join a batch from outside, if that is so.
func (x *entry) joinable(ns job.Namespace, id job.BatchID) (Refusal, error) {
	b, ok, err := x.batch(ns, id)
	switch {
	case err != nil:
		return Accepted, err
	case !ok:
		return NoBatch, nil
	case b.Sealed:
		return BatchClosed, nil
	default:
		return Accepted, nil
	}
}

// stillJoinable reports whether a job that follows on a member joins its batch: until
// the batch has ended, sealed or not.
func (x *entry) stillJoinable(ns job.Namespace, id job.BatchID) (bool, error) {
	if id.IsZero() {
		return false, nil
	}
	b, ok, err := x.batch(ns, id)
	return ok && !b.Fired(), err
}

// joinBatch adds a member that was just made.
func (x *entry) joinBatch(ns job.Namespace, id job.BatchID, member job.ID) error {
	b, ok, err := x.batch(ns, id)
	if err != nil || !ok {
		return errors.Join(err, fmt.Errorf("job %s joins %s, which is there: %v", member, id, ok))
	}
	b.Total++
	b.Open++
	x.txn.Set(x.m.space.Member(ns, id, member), records.EncodeOutcome(records.NoOutcome))
	x.putBatch(ns, id, &b)
	return nil
}

// countMember writes down how a member ended, and ends the batch with the last one. No
// member ends twice unless it was retried, which reopens it: what is deleted or swept
// after its end is not delivered again.
func (x *entry) countMember(d *delivery) error {
	id := d.body.Batch
	b, _, err := x.member(d.ns, id, d.id)
	if err != nil || b.Fired() {
		return err
	}
	b.Open--
	b.Counts[d.outcome]++
	x.txn.Set(x.m.space.Member(d.ns, id, d.id), records.EncodeOutcome(d.outcome))
	if err := x.fireBatch(d.ns, id, &b); err != nil {
		return err
	}
	x.putBatch(d.ns, id, &b)
	return nil
}

// reopenMember takes back how a member ended, unless the batch has told it already.
func (x *entry) reopenMember(ns job.Namespace, member job.ID, id job.BatchID) error {
	b, was, err := x.member(ns, id, member)
	if err != nil || b.Fired() || was == records.NoOutcome {
		return err
	}
	b.Open++
	b.Counts[was]--
	x.txn.Set(x.m.space.Member(ns, id, member), records.EncodeOutcome(records.NoOutcome))
	x.putBatch(ns, id, &b)
	return nil
}

// member reads a batch and how one of its members ended.
func (x *entry) member(ns job.Namespace, id job.BatchID, member job.ID) (records.Batch, records.Outcome, error) {
	b, ok, err := x.batch(ns, id)
	if err != nil || !ok {
		return records.Batch{}, records.NoOutcome, errors.Join(err, fmt.Errorf("%s of member %s is there: %v", id, member, ok))
	}
	v, err := x.txn.Get(x.m.space.Member(ns, id, member))
	if err != nil {
		return records.Batch{}, records.NoOutcome, fmt.Errorf("member %s of %s: %w", member, id, err)
	}
	o, err := records.DecodeOutcome(v)
	return b, o, err
}

// fireBatch ends a batch that nothing joins and of which nothing is open. Its callback
// is enqueued once: a batch that has fired never comes here again.
func (x *entry) fireBatch(ns job.Namespace, id job.BatchID, b *records.Batch) error {
	if !b.Sealed || b.Open > 0 || b.Fired() {
		return nil
	}
	b.FinishedAt = x.now
	if b.Callback == "" {
		return nil
	}
	own, err := x.takeCallback(ns, id)
	if err != nil {
		return err
	}
	b.CallbackID = job.Derived(x.now, id, 0)
	base := []member{textMember("batch_id", id.String()), countMember("total", b.Total)}
	for o := records.OutcomeCompleted; o < records.OutcomesEnd; o++ {
		base = append(base, countMember(o.String(), b.Counts[o]))
	}
	_, err = x.create(&command.Enqueue{
		NS: ns, ID: b.CallbackID, Queue: b.Callback, Payload: overlay(base, own), Priority: job.Normal,
	})
	return err
}

// takeCallback reads what the callback of a batch is to carry, and removes it.
func (x *entry) takeCallback(ns job.Namespace, id job.BatchID) ([]byte, error) {
	k := x.m.space.Callback(ns, id)
	v, err := x.txn.Get(k)
	if err != nil {
		return nil, fmt.Errorf("callback of %s: %w", id, err)
	}
	x.txn.Delete(k)
	return records.DecodeCallback(v)
}

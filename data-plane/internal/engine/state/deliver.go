package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// What the end of a job does to other jobs. Every ending and every removal of a job
// calls deliver, and nothing else makes follow-up jobs: a namespace spread over
// several shards could come later by changing this file alone (law 6).

// delivery is an ending that others are still to learn of.
type delivery struct {
	subject
	body    records.Body // Only of jobs that follow-ups, a batch or a chain need it of.
	outcome records.Outcome
	ending
}

// deliver notes that a job ended or is removed. What that does to others is done
// when its command is: a job is written, and told to the feed, before what follows
// on it. Of nearly all jobs nothing follows, and nothing is read for them.
func (x *entry) deliver(j *subject, o records.Outcome, how ending) {
	d := delivery{subject: *j, outcome: o, ending: how}
	if d.failure == "" {
		d.failure = j.Reason.String()
	}
	if j.Has(records.FlagChain | records.FlagBatch) {
		d.body = x.body(j.ns, j.id)
	} else if !j.Has(records.FlagDependents) {
		return
	}
	x.ended = append(x.ended, d)
}

// carryOut does what was noted. A chain comes before the batch: a next step joins the
// batch of its job before that job is counted, so that the batch does not end between
// two steps.
func (x *entry) carryOut() {
	for i := 0; i < len(x.ended); i++ {
		d := x.ended[i]
		if d.Has(records.FlagChain) {
			x.advance(&d)
		}
		if d.Has(records.FlagBatch) {
			x.countMember(&d)
		}
		if d.Has(records.FlagDependents) {
			x.addDue(keys.Due{At: x.now, Kind: keys.DueDeliver, NS: d.ns, ID: d.id}, records.EncodeOutcome(d.outcome))
		}
	}
	x.ended = x.ended[:0]
}

// revived tells the batch, the chain and the dependents of a job that its end did not
// last. It is called before the head forgets when that was.
func (x *entry) revived(j *subject) {
	if j.Has(records.FlagDependents) { // They learn of its next end instead.
		x.txn.Delete(x.m.space.Due(j.due(j.Finished, keys.DueDeliver)))
	}
	if !j.Has(records.FlagChain | records.FlagBatch) {
		return
	}
	body := x.body(j.ns, j.id)
	if j.Has(records.FlagChain) {
		x.resumeChain(j.ns, j.id, &body)
	}
	if j.Has(records.FlagBatch) {
		x.reopenMember(j.ns, j.id, body.Batch)
	}
}

// follow enqueues the job that the end of another one calls for. It inherits what the
// other one was given, its time to live anew, and takes the ordinary way in.
func (x *entry) follow(d *delivery, id job.ID, s *command.Step, payload []byte, place chainPlace) {
	c := &command.Enqueue{
		NS: d.ns, ID: id, Queue: s.Queue, Payload: payload, Priority: d.Priority, Retry: d.Retry,
		Tags: d.body.Tags, TraceParent: d.body.TraceParent, Parent: d.id, Agent: d.body.Agent,
	}
	if d.body.ExpireAt != 0 {
		c.ExpireAt = x.after(d.body.ExpireAt - d.body.CreatedAt)
	}
	open := x.stillJoinable(d.ns, d.body.Batch)
	if open {
		c.Batch = d.body.Batch
	}
	_ = x.createAt(c, place)
}

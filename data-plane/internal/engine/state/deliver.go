package state

import (
	"fmt"

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
func (x *entry) deliver(j *subject, o records.Outcome, how ending) error {
	d := delivery{subject: *j, outcome: o, ending: how}
	if d.failure == "" {
		d.failure = j.Reason.String()
	}
	if j.Has(records.FlagChain | records.FlagBatch) {
		var err error
		if d.body, err = x.body(j.ns, j.id); err != nil {
			return err
		}
	} else if !j.Has(records.FlagDependents) {
		return nil
	}
	x.ended = append(x.ended, d)
	return nil
}

// carryOut does what was noted. A chain comes before the batch: a next step joins the
// batch of its job before that job is counted, so that the batch does not end between
// two steps.
func (x *entry) carryOut() error {
	for i := 0; i < len(x.ended); i++ {
		d := x.ended[i]
		if d.Has(records.FlagChain) {
			if err := x.advance(&d); err != nil {
				return fmt.Errorf("chain of job %s: %w", d.id, err)
			}
		}
		if d.Has(records.FlagBatch) {
			if err := x.countMember(&d); err != nil {
				return fmt.Errorf("batch of job %s: %w", d.id, err)
			}
		}
		if d.Has(records.FlagDependents) {
			x.addDue(keys.Due{At: x.now, Kind: keys.DueDeliver, NS: d.ns, ID: d.id}, records.EncodeOutcome(d.outcome))
		}
	}
	x.ended = x.ended[:0]
	return nil
}

// revived tells the batch, the chain and the dependents of a job that its end did not
// last. It is called before the head forgets when that was.
func (x *entry) revived(j *subject) error {
	if j.Has(records.FlagDependents) { // They learn of its next end instead.
		x.txn.Delete(x.m.space.Due(j.due(j.Finished, keys.DueDeliver)))
	}
	if !j.Has(records.FlagChain | records.FlagBatch) {
		return nil
	}
	body, err := x.body(j.ns, j.id)
	if err != nil {
		return err
	}
	if j.Has(records.FlagChain) {
		if err := x.resumeChain(j.ns, j.id, &body); err != nil {
			return err
		}
	}
	if j.Has(records.FlagBatch) {
		return x.reopenMember(j.ns, j.id, body.Batch)
	}
	return nil
}

// follow enqueues the job that the end of another one calls for. It inherits what the
// other one was given, its time to live anew, and takes the ordinary way in.
func (x *entry) follow(d *delivery, id job.ID, s *command.Step, payload []byte, place chainPlace) error {
	c := &command.Enqueue{
		NS: d.ns, ID: id, Queue: s.Queue, Payload: payload, Priority: d.Priority, Retry: d.Retry,
		Tags: d.body.Tags, TraceParent: d.body.TraceParent, Parent: d.id, Agent: d.body.Agent,
	}
	if d.body.ExpireAt != 0 {
		c.ExpireAt = x.after(d.body.ExpireAt - d.body.CreatedAt)
	}
	open, err := x.stillJoinable(d.ns, d.body.Batch)
	if err != nil {
		return err
	}
	if open {
		c.Batch = d.body.Batch
	}
	_, err = x.createAt(c, place)
	return err
}

package state

import (
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// leavingReady tells the leader's memory that a pending job goes by another way
// than a fetch.
func (x *entry) leavingReady(j *subject) {
	if !j.Pos.IsZero() {
		x.out.Unready = append(x.out.Unready, Ready{NS: j.ns, Queue: j.Queue, Priority: j.Priority, Pos: j.Pos, ID: j.id})
	}
}

// tellDead is the last event of a job that may have died.
func (x *entry) tellDead(j *subject) {
	if j.State == job.Dead {
		x.event(feed.Dead, j)
	}
}

// replace gives a job its place in another order, in the state and at the time it has.
func (x *entry) replace(j *subject, queue string, p job.Priority) {
	state, due := j.State, j.Due
	x.leavingReady(j)
	x.leave(j)
	to := x.queue(j.ns, queue)
	j.Queue, j.Priority, j.Gen = queue, p, to.gen
	switch {
	case state == job.Pending && !j.Blocked():
		x.enterReady(j)
	case due != 0:
		x.enterTimed(j, state, due)
	default:
		x.enter(j, state)
	}
	j.left = 0 // The state is what it was.
}

// Every change of a job's state goes through leave and one of the enter
// functions: they keep the ready order, the due rows, the counters and the locks
// in step with the head. Nothing else writes those keys.

// leave takes the job out of what its current state put it in.
func (x *entry) leave(j *subject) {
	q := x.queue(j.ns, j.Queue)
	j.left = j.State
	j.Gen = q.gen
	c := x.touched(q)
	c.Jobs[j.State]--
	if c.Jobs[j.State] < 0 {
		panic(fmt.Sprintf("state: queue %q of %s has %d jobs %s", j.Queue, j.ns, c.Jobs[j.State], j.State))
	}
	if !j.Pos.IsZero() {
		x.txn.Delete(x.m.space.Ready(j.ns, j.Queue, j.Priority, j.Pos))
		j.Pos = keys.Position{}
	}
	if j.Due != 0 {
		x.txn.Delete(x.m.space.Due(j.due(j.Due, dueKind(j.State))))
		j.Due = 0
	}
}

// enter counts the job in its new state. What its worker was to let go for ends with
// the state cancelling.
func (x *entry) enter(j *subject, s job.State) {
	q := x.queue(j.ns, j.Queue)
	if s != job.Cancelling {
		j.Flags &^= records.FlagHoldNext | records.FlagExpired | records.FlagDeadNext
	}
	j.State = s
	x.touched(q).Jobs[s]++
}

func dueKind(s job.State) keys.DueKind {
	switch s {
	case job.Scheduled:
		return keys.DueScheduled
	case job.Retrying:
		return keys.DueRetry
	case job.Active, job.Cancelling:
		return keys.DueLease
	case job.Held:
		return keys.DueHold
	default:
		panic(fmt.Sprintf("state: a job that is %s has no due row", s))
	}
}

// enterPending makes the job pending: ready, or blocked while it waits for others.
func (x *entry) enterPending(j *subject) {
	if j.Has(records.FlagBlocked) {
		x.enter(j, job.Pending)
		return
	}
	x.enterReady(j)
}

// enterReady puts the job at the end of its ready order.
func (x *entry) enterReady(j *subject) {
	j.Pos = x.place()
	id := j.id // The whole subject would be kept with the row.
	x.txn.SetNew(x.m.space.Ready(j.ns, j.Queue, j.Priority, j.Pos), id[:])
	x.out.Ready = append(x.out.Ready, Ready{NS: j.ns, Queue: j.Queue, Priority: j.Priority, Pos: j.Pos, ID: j.id})
	x.enter(j, job.Pending)
}

// enterTimed puts the job into a state that something ends at a time.
func (x *entry) enterTimed(j *subject, s job.State, at int64) {
	j.Due = at
	x.addDue(j.due(at, dueKind(s)), nil)
	x.enter(j, s)
}

// enterFor puts the job into a state that ends after a duration, which lease time
// measures.
func (x *entry) enterFor(j *subject, s job.State, d time.Duration) {
	j.Shift = x.now - x.lease
	x.enterTimed(j, s, records.SaturatingAdd(x.lease, int64(d)))
}

// ending is what others learn of a job's end besides its state.
type ending struct {
	exit    bool   // Its worker wants no more steps of the chain,
	reason  string // for this.
	failure string // The error that a job died of; "": what its head says.
}

// end ends the job: it keeps no lease, frees its unique key (R-C4), waits for nothing any
// more, and others learn of it. Every terminal transition comes through here.
func (x *entry) end(j *subject, s job.State, how ending) {
	if !s.Terminal() {
		panic(fmt.Sprintf("state: %s is not terminal", s))
	}
	j.Finished = x.now
	x.dropExpiry(j)
	if j.Has(records.FlagUnique) {
		x.releaseUnique(j)
	}
	x.dropWaits(j)
	x.meterEnd(j)
	x.enter(j, s)
	x.deliver(j, records.OutcomeOf(s), how)
}

// releaseUnique frees the job's unique key if the job still owns it.
func (x *entry) releaseUnique(j *subject) {
	body := x.body(j.ns, j.id)
	j.Flags &^= records.FlagUnique
	x.dropLock(j.ns, keys.Unique, keys.DueUnique, j.Queue, body.UniqueKey, j.id)
}

// endDead ends a job for a reason; failure is the error of its last attempt, if it died of one.
func (x *entry) endDead(j *subject, why records.DeadReason, failure string) {
	j.Reason = why
	j.Note(feed.Dead, x.now)
	x.end(j, job.Dead, ending{failure: failure})
}

func (x *entry) endCancelled(j *subject) {
	x.end(j, job.Cancelled, ending{})
	x.happened(feed.Cancelled, j)
}

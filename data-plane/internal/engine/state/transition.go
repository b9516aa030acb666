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
func (x *entry) leavingReady(ns job.Namespace, id job.ID, h *records.Head) {
	if !h.Pos.IsZero() {
		x.out.Unready = append(x.out.Unready, Ready{NS: ns, Queue: h.Queue, Priority: h.Priority, Pos: h.Pos, ID: id})
	}
}

// tellDead is the last event of a job that may have died.
func (x *entry) tellDead(ns job.Namespace, id job.ID, h *records.Head) {
	if h.State == job.Dead {
		x.event(feed.Dead, ns, id, h)
	}
}

// replace gives a job its place in another order, in the state and at the time it has.
func (x *entry) replace(ns job.Namespace, id job.ID, h *records.Head, queue string, p job.Priority) error {
	state, due := h.State, h.Due
	x.leavingReady(ns, id, h)
	if err := x.leave(ns, id, h); err != nil {
		return err
	}
	to, err := x.queue(ns, queue)
	if err != nil {
		return err
	}
	h.Queue, h.Priority, h.Gen = queue, p, to.gen
	switch {
	case state == job.Pending && !h.Blocked():
		err = x.enterReady(ns, id, h)
	case due != 0:
		err = x.enterTimed(ns, id, h, state, due)
	default:
		err = x.enter(ns, h, state)
	}
	x.left, x.leftID = 0, job.ID{} // The state is what it was.
	return err
}

// Every change of a job's state goes through leave and one of the enter
// functions: they keep the ready order, the due rows, the counters and the locks
// in step with the head. Nothing else writes those keys.

// leave takes the job out of what its current state put it in.
func (x *entry) leave(ns job.Namespace, id job.ID, h *records.Head) error {
	q, err := x.queue(ns, h.Queue)
	if err != nil {
		return err
	}
	x.left, x.leftID = h.State, id
	h.Gen = q.gen
	c := x.touched(q)
	c.Jobs[h.State]--
	if c.Jobs[h.State] < 0 {
		panic(fmt.Sprintf("state: queue %q of %s has %d jobs %s", h.Queue, ns, c.Jobs[h.State], h.State))
	}
	if !h.Pos.IsZero() {
		x.txn.Delete(x.m.space.Ready(ns, h.Queue, h.Priority, h.Pos))
		h.Pos = keys.Position{}
	}
	if h.Due != 0 {
		x.txn.Delete(x.m.space.Due(keys.Due{At: h.Due, Kind: dueKind(h.State), NS: ns, ID: id}))
		h.Due = 0
	}
	return nil
}

// enter counts the job in its new state. What its worker was to let go for ends with
// the state cancelling.
func (x *entry) enter(ns job.Namespace, h *records.Head, s job.State) error {
	q, err := x.queue(ns, h.Queue)
	if err != nil {
		return err
	}
	if s != job.Cancelling {
		h.Flags &^= records.FlagHoldNext | records.FlagExpired | records.FlagDeadNext
	}
	h.State = s
	x.touched(q).Jobs[s]++
	return nil
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
func (x *entry) enterPending(ns job.Namespace, id job.ID, h *records.Head) error {
	if h.Has(records.FlagBlocked) {
		return x.enter(ns, h, job.Pending)
	}
	return x.enterReady(ns, id, h)
}

// enterReady puts the job at the end of its ready order.
func (x *entry) enterReady(ns job.Namespace, id job.ID, h *records.Head) error {
	h.Pos = x.place()
	x.txn.SetNew(x.m.space.Ready(ns, h.Queue, h.Priority, h.Pos), id[:])
	x.out.Ready = append(x.out.Ready, Ready{NS: ns, Queue: h.Queue, Priority: h.Priority, Pos: h.Pos, ID: id})
	return x.enter(ns, h, job.Pending)
}

// enterTimed puts the job into a state that something ends at a time.
func (x *entry) enterTimed(ns job.Namespace, id job.ID, h *records.Head, s job.State, at int64) error {
	h.Due = at
	x.addDue(keys.Due{At: at, Kind: dueKind(s), NS: ns, ID: id}, nil)
	return x.enter(ns, h, s)
}

// enterFor puts the job into a state that ends after a duration, which lease time
// measures.
func (x *entry) enterFor(ns job.Namespace, id job.ID, h *records.Head, s job.State, d time.Duration) error {
	h.Shift = x.now - x.lease
	return x.enterTimed(ns, id, h, s, records.SaturatingAdd(x.lease, int64(d)))
}

// ending is what others learn of a job's end besides its state.
type ending struct {
	exit    bool   // Its worker wants no more steps of the chain,
	reason  string // for this.
	failure string // The error that a job died of; "": what its head says.
}

// end ends the job: it keeps no lease, frees its unique key (R-C4), waits for nothing any
// more, and others learn of it. Every terminal transition comes through here.
func (x *entry) end(ns job.Namespace, id job.ID, h *records.Head, s job.State, how ending) error {
	if !s.Terminal() {
		panic(fmt.Sprintf("state: %s is not terminal", s))
	}
	h.Finished = x.now
	x.dropExpiry(ns, id, h)
	if h.Has(records.FlagUnique) {
		if err := x.releaseUnique(ns, id, h); err != nil {
			return err
		}
	}
	x.dropWaits(ns, id, h)
	if err := x.enter(ns, h, s); err != nil {
		return err
	}
	return x.deliver(ns, id, h, records.OutcomeOf(s), how)
}

// releaseUnique frees the job's unique key if the job still owns it.
func (x *entry) releaseUnique(ns job.Namespace, id job.ID, h *records.Head) error {
	body, err := x.body(ns, id)
	if err != nil {
		return err
	}
	h.Flags &^= records.FlagUnique
	return x.dropLock(ns, keys.Unique, keys.DueUnique, h.Queue, body.UniqueKey, id)
}

// endDead ends a job for a reason; failure is the error of its last attempt, if it died of one.
func (x *entry) endDead(ns job.Namespace, id job.ID, h *records.Head, why records.DeadReason, failure string) error {
	h.Reason = why
	h.Note(records.WasDead, x.now)
	return x.end(ns, id, h, job.Dead, ending{failure: failure})
}

func (x *entry) endCancelled(ns job.Namespace, id job.ID, h *records.Head) error {
	if err := x.end(ns, id, h, job.Cancelled, ending{}); err != nil {
		return err
	}
	h.Note(records.WasCancelled, x.now)
	x.event(feed.Cancelled, ns, id, h)
	return nil
}

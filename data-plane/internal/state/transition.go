package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// Every change of a job's state goes through leave and one of the enter
// functions: they keep the ready order, the due rows, the counters and the locks
// in step with the head. Nothing else writes those keys.

// leave takes the job out of what its current state put it in.
func (x *entry) leave(ns job.Namespace, id job.ID, h *Head) error {
	q, err := x.queue(ns, h.Queue)
	if err != nil {
		return err
	}
	c := x.touched(q)
	c.Jobs[h.State]--
	if c.Jobs[h.State] < 0 {
		panic(fmt.Sprintf("state: queue %q of %s has %d jobs %s", h.Queue, ns, c.Jobs[h.State], h.State))
	}
	if h.State == job.Pending {
		x.txn.Delete(x.m.space.Ready(ns, h.Queue, h.Priority, h.Pos))
		h.Pos = keys.Position{}
	}
	if h.Due != 0 {
		x.txn.Delete(x.m.space.Due(keys.Due{At: h.Due, Kind: dueKind(h.State), NS: ns, ID: id}))
		h.Due = 0
	}
	return nil
}

// enter counts the job in its new state.
func (x *entry) enter(ns job.Namespace, h *Head, s job.State) error {
	q, err := x.queue(ns, h.Queue)
	if err != nil {
		return err
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
	default:
		panic(fmt.Sprintf("state: a job that is %s has no due row", s))
	}
}

// enterReady puts the job at the end of its ready order.
func (x *entry) enterReady(ns job.Namespace, id job.ID, h *Head) error {
	h.Pos = x.place()
	x.txn.SetNew(x.m.space.Ready(ns, h.Queue, h.Priority, h.Pos), id[:])
	x.out.Ready = append(x.out.Ready, Ready{NS: ns, Queue: h.Queue, Priority: h.Priority, Pos: h.Pos, ID: id})
	return x.enter(ns, h, job.Pending)
}

// enterTimed puts the job into a state that something ends at a time.
func (x *entry) enterTimed(ns job.Namespace, id job.ID, h *Head, s job.State, at int64) error {
	h.Due = at
	x.addDue(keys.Due{At: at, Kind: dueKind(s), NS: ns, ID: id}, nil)
	return x.enter(ns, h, s)
}

func (x *entry) addDue(d keys.Due, value []byte) {
	x.txn.Set(x.m.space.Due(d), value)
	if x.out.FirstDue == 0 || d.At < x.out.FirstDue {
		x.out.FirstDue = d.At
	}
}

// enterTerminal ends the job: it keeps no lease and frees its unique key (R-C4).
// Every terminal transition comes through here.
func (x *entry) enterTerminal(ns job.Namespace, id job.ID, h *Head, s job.State) error {
	if !s.Terminal() {
		panic(fmt.Sprintf("state: %s is not terminal", s))
	}
	h.Finished = x.now
	if h.has(flagUnique) {
		if err := x.releaseUnique(ns, id, h); err != nil {
			return err
		}
	}
	return x.enter(ns, h, s)
}

// releaseUnique frees the job's unique key if the job still owns it.
func (x *entry) releaseUnique(ns job.Namespace, id job.ID, h *Head) error {
	body, err := x.body(ns, id)
	if err != nil {
		return err
	}
	h.flags &^= flagUnique
	return x.dropLock(ns, keys.Unique, keys.DueUnique, h.Queue, body.UniqueKey, id)
}

package state

import (
	"fmt"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// A job that waits for others has a record of those still open (Waits), and a row at
// each of them (Dependent). The rows of a job are numbered, and a record (Waiters) says
// which numbers are there: however many wait for a job, one more costs the same. While
// a job waits it has FlagBlocked, and when it is pending it stands in no ready order: it
// costs fetches nothing.

const (
	// DependentsMax bounds the jobs that wait for one.
	DependentsMax = 10_000
)

// waits reads which jobs one waits for; none if there is no record.
func (x *entry) waits(ns job.Namespace, id job.ID) []job.ID {
	return statedb.Must(stateread.ReadWaits(x.txn, x.m.space, ns, id))
}

// waiters reads what waits for a job; nothing does if there is no record.
func (x *entry) waiters(ns job.Namespace, on job.ID) records.Waiters {
	return statedb.Must(stateread.ReadWaiters(x.txn, x.m.space, ns, on))
}

func (x *entry) putWaiters(ns job.Namespace, on job.ID, w records.Waiters) {
	k := x.m.space.Job(ns, keys.Waiters, on)
	if w.Count() == 0 {
		x.txn.Delete(k)
		return
	}
	x.txn.Set(k, w.Encode())
}

// dependable reports why a job of a list can not be waited for, and which.
func (x *entry) dependable(ns job.Namespace, on []job.ID) (Refusal, job.ID) {
	for _, id := range on {
		j, ok := x.job(ns, id)
		if !ok {
			return NoDependency, id
		}
		if !j.Has(records.FlagDependents) || j.State.Terminal() {
			continue
		}
		if x.waiters(ns, id).Count() >= DependentsMax {
			return TooMany, id
		}
	}
	return Accepted, job.ID{}
}

// block lets a new job wait for others that have not ended. It reports whether one has
// ended in another way than the job allows: then the job is to end as well.
func (x *entry) block(c *command.Enqueue, j *subject) (failed bool) {
	var open []job.ID
	for _, on := range c.DependsOn {
		dep, there := x.job(c.NS, on)
		switch {
		case there && !dep.State.Terminal():
			open = append(open, on)
		case !there || dep.State != job.Completed:
			failed = failed || c.OnDependency != command.DependencyRun
		}
	}
	if failed {
		j.Flags |= records.FlagBlocked // Until it ends, which is next.
		return true
	}
	for _, on := range open {
		x.addDependent(c.NS, on, c.ID)
	}
	if len(open) > 0 {
		x.txn.Set(x.m.space.Job(c.NS, keys.Waits, c.ID), records.EncodeIDs(open))
		j.Flags |= records.FlagBlocked
	}
	return false
}

func (x *entry) addDependent(ns job.Namespace, on, waiter job.ID) {
	w := x.waiters(ns, on)
	x.txn.Set(x.m.space.Dependent(ns, on, w.Made), waiter[:])
	w.Made++
	x.putWaiters(ns, on, w)
	j, _ := x.job(ns, on)
	if !j.Has(records.FlagDependents) {
		j.Flags |= records.FlagDependents
		x.put(&j)
	}
}

// dropWaits forgets what the job waits for: it ends, or it is gone.
func (x *entry) dropWaits(j *subject) {
	if j.Has(records.FlagBlocked) {
		j.Flags &^= records.FlagBlocked
		x.txn.Delete(x.m.space.Job(j.ns, keys.Waits, j.id))
	}
}

// fireDeliver tells some of the jobs that wait for one how it ended. A job that was
// retried meanwhile tells them when it ends again.
func (x *entry) fireDeliver(d keys.Due) Result {
	row := x.m.space.Due(d)
	outcome, waits := find(x, row, "outcome", records.DecodeOutcome)
	if !waits {
		return Result{Refusal: WrongState}
	}
	x.txn.Delete(row)
	j, there := x.job(d.NS, d.ID)
	if there {
		outcome = records.OutcomeOf(j.State)
	}
	if outcome == records.NoOutcome {
		return Result{Refusal: WrongState, State: j.State}
	}
	w := x.waiters(d.NS, d.ID)
	for end := w.Told + w.Next(); w.Told < end; w.Told++ {
		x.tellDependent(d, w.Told, outcome)
	}
	x.putWaiters(d.NS, d.ID, w)
	switch {
	case w.Count() > 0: // At the same time, where a retry of the job looks for it.
		x.addDue(d, records.EncodeOutcome(outcome))
	case there:
		j.Flags &^= records.FlagDependents
		x.put(&j)
	}
	return Result{ID: d.ID, State: j.State}
}

// tellDependent tells the job of one row how the one it waits for ended.
func (x *entry) tellDependent(d keys.Due, n uint64, o records.Outcome) {
	row := x.m.space.Dependent(d.NS, d.ID, n)
	v := read(x, row, "dependent", asIs)
	if len(v) != len(job.ID{}) {
		statedb.Check(fmt.Errorf("%w: dependent %d of job %s: %x", records.ErrRecord, n, d.ID, v))
	}
	x.txn.Delete(row)
	x.resolve(d.NS, job.ID(v), d.ID, o)
}

// resolve takes one job off the list of those that another one waits for.
func (x *entry) resolve(ns job.Namespace, id, on job.ID, o records.Outcome) {
	j, ok := x.job(ns, id)
	if !ok || !j.Has(records.FlagBlocked) {
		return
	}
	open := x.waits(ns, id)
	at := slices.Index(open, on)
	if at < 0 {
		return
	}
	policy := command.DependencyRun
	if o != records.OutcomeCompleted {
		body := x.body(ns, id)
		policy = body.OnDependency
	}
	if policy != command.DependencyRun {
		x.endUnmet(&j, policy)
	} else if open = slices.Delete(open, at, at+1); len(open) > 0 {
		x.txn.Set(x.m.space.Job(ns, keys.Waits, id), records.EncodeIDs(open))
		return
	} else {
		x.unblock(&j)
	}
	x.put(&j)
}

// unblock lets a job go on that waits for nothing any more.
func (x *entry) unblock(j *subject) {
	if j.State == job.Pending {
		x.leave(j)
		x.dropWaits(j)
		x.enterPending(j)
	}
	x.dropWaits(j)
	x.happened(feed.Unblocked, j)
}

// endUnmet ends a job that waits for one which ended as the job does not allow.
func (x *entry) endUnmet(j *subject, p command.DependencyPolicy) {
	x.leave(j)
	if p == command.DependencyCancel {
		x.endCancelled(j)
		return
	}
	x.endDead(j, records.DeadDependency, "")
	x.event(feed.Dead, j)
}

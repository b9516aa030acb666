package state

import (
	"errors"
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
func (x *entry) waits(ns job.Namespace, id job.ID) ([]job.ID, error) {
	return stateread.ReadWaits(x.txn, x.m.space, ns, id)
}

// waiters reads what waits for a job; nothing does if there is no record.
func (x *entry) waiters(ns job.Namespace, on job.ID) (records.Waiters, error) {
	return stateread.ReadWaiters(x.txn, x.m.space, ns, on)
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
func (x *entry) dependable(ns job.Namespace, on []job.ID) (Refusal, job.ID, error) {
	for _, id := range on {
		j, ok, err := x.job(ns, id)
		if err != nil {
			return Accepted, id, err
		}
		if !ok {
			return NoDependency, id, nil
		}
		if !j.Has(records.FlagDependents) || j.State.Terminal() {
			continue
		}
		w, err := x.waiters(ns, id)
		if err != nil {
			return Accepted, id, err
		}
		if w.Count() >= DependentsMax {
			return TooMany, id, nil
		}
	}
	return Accepted, job.ID{}, nil
}

// block lets a new job wait for others that have not ended. It reports whether one has
// ended in another way than the job allows: then the job is to end as well.
func (x *entry) block(c *command.Enqueue, j *subject) (failed bool, err error) {
	var open []job.ID
	for _, on := range c.DependsOn {
		dep, there, err := x.job(c.NS, on)
		switch {
		case err != nil:
			return false, err
		case there && !dep.State.Terminal():
			open = append(open, on)
		case !there || dep.State != job.Completed:
			failed = failed || c.OnDependency != command.DependencyRun
		}
	}
	if failed {
		j.Flags |= records.FlagBlocked // Until it ends, which is next.
		return true, nil
	}
	for _, on := range open {
		if err := x.addDependent(c.NS, on, c.ID); err != nil {
			return false, err
		}
	}
	if len(open) > 0 {
		x.txn.Set(x.m.space.Job(c.NS, keys.Waits, c.ID), records.EncodeIDs(open))
		j.Flags |= records.FlagBlocked
	}
	return false, nil
}

func (x *entry) addDependent(ns job.Namespace, on, waiter job.ID) error {
	w, err := x.waiters(ns, on)
	if err != nil {
		return err
	}
	x.txn.Set(x.m.space.Dependent(ns, on, w.Made), waiter[:])
	w.Made++
	x.putWaiters(ns, on, w)
	j, _, err := x.job(ns, on)
	if err == nil && !j.Has(records.FlagDependents) {
		j.Flags |= records.FlagDependents
		x.put(&j)
	}
	return err
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
func (x *entry) fireDeliver(d keys.Due) (Result, error) {
	row := x.m.space.Due(d)
	v, err := x.txn.Get(row)
	if errors.Is(err, statedb.ErrNotFound) {
		return Result{Refusal: WrongState}, nil
	}
	if err != nil {
		return Result{}, err
	}
	outcome, err := records.DecodeOutcome(v)
	if err != nil {
		return Result{}, err
	}
	x.txn.Delete(row)
	j, there, err := x.job(d.NS, d.ID)
	if err != nil {
		return Result{}, err
	}
	if there {
		outcome = records.OutcomeOf(j.State)
	}
	if outcome == records.NoOutcome {
		return Result{Refusal: WrongState, State: j.State}, nil
	}
	w, err := x.waiters(d.NS, d.ID)
	if err != nil {
		return Result{}, err
	}
	for end := w.Told + w.Next(); w.Told < end; w.Told++ {
		if err := x.tellDependent(d, w.Told, outcome); err != nil {
			return Result{}, err
		}
	}
	x.putWaiters(d.NS, d.ID, w)
	switch {
	case w.Count() > 0: // At the same time, where a retry of the job looks for it.
		x.addDue(d, records.EncodeOutcome(outcome))
	case there:
		j.Flags &^= records.FlagDependents
		x.put(&j)
	}
	return Result{ID: d.ID, State: j.State}, nil
}

// tellDependent tells the job of one row how the one it waits for ended.
func (x *entry) tellDependent(d keys.Due, n uint64, o records.Outcome) error {
	row := x.m.space.Dependent(d.NS, d.ID, n)
	v, err := x.txn.Get(row)
	if err != nil || len(v) != len(job.ID{}) {
		return errors.Join(err, fmt.Errorf("%w: dependent %d of job %s: %x", records.ErrRecord, n, d.ID, v))
	}
	x.txn.Delete(row)
	if err := x.resolve(d.NS, job.ID(v), d.ID, o); err != nil {
		return fmt.Errorf("dependent %x: %w", v, err)
	}
	return nil
}

// resolve takes one job off the list of those that another one waits for.
func (x *entry) resolve(ns job.Namespace, id, on job.ID, o records.Outcome) error {
	j, ok, err := x.job(ns, id)
	if err != nil || !ok || !j.Has(records.FlagBlocked) {
		return err
	}
	open, err := x.waits(ns, id)
	if err != nil {
		return err
	}
	at := slices.Index(open, on)
	if at < 0 {
		return nil
	}
	policy := command.DependencyRun
	if o != records.OutcomeCompleted {
		body, err := x.body(ns, id)
		if err != nil {
			return err
		}
		policy = body.OnDependency
	}
	if policy != command.DependencyRun {
		err = x.endUnmet(&j, policy)
	} else if open = slices.Delete(open, at, at+1); len(open) > 0 {
		x.txn.Set(x.m.space.Job(ns, keys.Waits, id), records.EncodeIDs(open))
		return nil
	} else {
		err = x.unblock(&j)
	}
	if err != nil {
		return err
	}
	x.put(&j)
	return nil
}

// unblock lets a job go on that waits for nothing any more.
func (x *entry) unblock(j *subject) error {
	if j.State == job.Pending {
		if err := x.leave(j); err != nil {
			return err
		}
		x.dropWaits(j)
		if err := x.enterPending(j); err != nil {
			return err
		}
	}
	x.dropWaits(j)
	x.happened(feed.Unblocked, j)
	return nil
}

// endUnmet ends a job that waits for one which ended as the job does not allow.
func (x *entry) endUnmet(j *subject, p command.DependencyPolicy) error {
	if err := x.leave(j); err != nil {
		return err
	}
	if p == command.DependencyCancel {
		return x.endCancelled(j)
	}
	if err := x.endDead(j, records.DeadDependency, ""); err != nil {
		return err
	}
	x.event(feed.Dead, j)
	return nil
}

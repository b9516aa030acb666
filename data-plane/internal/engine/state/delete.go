package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// delete removes every trace of a job that no worker holds. Its idempotency
// record stays until it ends: a late repetition must not create the job again.
func (x *entry) delete(c *command.Delete) Result {
	j, ok := x.job(c.NS, c.ID)
	if !ok {
		return Result{Refusal: NotFound}
	}
	if j.State.Leased() {
		return Result{Refusal: WrongState, State: j.State}
	}
	x.remove(&j)
	return Result{}
}

// remove takes a job out of everything, and tells whom it concerns.
func (x *entry) remove(j *subject) {
	x.leavingReady(j)
	x.leave(j)
	x.dropExpiry(j)
	if j.Has(records.FlagUnique) {
		x.releaseUnique(j)
	}
	x.meterRemoved(j)
	if !j.State.Terminal() {
		x.deliver(j, records.OutcomeDeleted, ending{})
	}
	j.State = 0
	x.event(feed.Deleted, j)
	x.removeRecords(j)
}

func (x *entry) removeRecords(j *subject) {
	families := []byte{keys.Body, keys.Head}
	for _, f := range []struct {
		flag   uint32
		family byte
	}{
		{records.FlagResult, keys.Result}, {records.FlagCheckpoint, keys.Checkpoint}, {records.FlagProgress, keys.Progress}, {records.FlagHold, keys.Hold}, {records.FlagUsage, keys.JobUsage},
		{records.FlagBlocked, keys.Waits},
	} {
		if j.Has(f.flag) {
			families = append(families, f.family)
		}
	}
	for _, f := range families {
		x.txn.Delete(x.m.space.Job(j.ns, f, j.id))
	}
	if j.Has(records.FlagErrors) {
		x.txn.DeleteRange(x.m.space.AttemptErrors(j.ns, j.id))
	}
	if j.Has(records.FlagIterations) {
		x.txn.DeleteRange(x.m.space.Iterations(j.ns, j.id))
	}
}

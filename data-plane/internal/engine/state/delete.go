package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// delete removes every trace of a job that no worker holds. Its idempotency
// record stays until it ends: a late repetition must not create the job again.
func (x *entry) delete(c *command.Delete) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	if h.State.Leased() {
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	x.leavingReady(c.NS, c.ID, &h)
	if err := x.leave(c.NS, c.ID, &h); err != nil {
		return Result{}, err
	}
	x.dropExpiry(c.NS, c.ID, &h)
	if h.Has(records.FlagUnique) {
		if err := x.releaseUnique(c.NS, c.ID, &h); err != nil {
			return Result{}, err
		}
	}
	if !h.State.Terminal() {
		if err := x.deliver(c.NS, c.ID, &h, records.OutcomeDeleted, ending{}); err != nil {
			return Result{}, err
		}
	}
	h.State = 0
	x.event(feed.Deleted, c.NS, c.ID, &h)
	return Result{}, x.removeRecords(c.NS, c.ID, &h)
}

func (x *entry) removeRecords(ns job.Namespace, id job.ID, h *records.Head) error {
	families := []byte{keys.Body, keys.Head}
	for _, f := range []struct {
		flag   uint32
		family byte
	}{
		{records.FlagResult, keys.Result}, {records.FlagCheckpoint, keys.Checkpoint}, {records.FlagProgress, keys.Progress}, {records.FlagHold, keys.Hold}, {records.FlagUsage, keys.JobUsage},
		{records.FlagBlocked, keys.Waits},
	} {
		if h.Has(f.flag) {
			families = append(families, f.family)
		}
	}
	for _, f := range families {
		x.txn.Delete(x.m.space.Job(ns, f, id))
	}
	if h.Has(records.FlagErrors) {
		x.txn.DeleteRange(x.m.space.AttemptErrors(ns, id))
	}
	if h.Has(records.FlagIterations) {
		x.txn.DeleteRange(x.m.space.Iterations(ns, id))
	}
	return nil
}

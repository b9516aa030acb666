package queue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// bulk gives the rig its bulk use cases. Operations are worked on only if run is called.
func (r *rig) bulk() (b *Bulk, run func()) {
	b = NewBulk(r.views(), slog.New(slog.DiscardHandler))
	return b, func() {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		r.t.Cleanup(func() { cancel(); <-done })
	}
}

func (r *rig) fill(queue string, n int) {
	r.t.Helper()
	for left := n; left > 0; left -= BatchMax {
		in := make([]EnqueueInput, min(left, BatchMax))
		for i := range in {
			in[i].Queue = queue
		}
		if _, err := r.EnqueueBatch(r.ctx(), r.caller, in); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) do(b *Bulk, in BulkInput) BulkResult {
	r.t.Helper()
	res, err := b.Do(r.ctx(), r.caller, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func (r *rig) ended(b *Bulk, id string) (op wire.BulkOperation) {
	r.t.Helper()
	eventually.True(r.t, patience, "the end of "+id, func() bool {
		var err error
		if op, _, err = b.Operation(r.caller, id); err != nil {
			r.t.Fatal(err)
		}
		return op.Status.Ended()
	})
	return op
}

func (r *rig) counts(queue string) wire.Queue {
	r.t.Helper()
	q, err := r.Queue(r.ctx(), r.caller, queue)
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

// "All" is all: more than a page, and more than a call does itself.
func TestBulk_AFilterThatFindsMoreThanACallDoesIsAnOperationOverAllOfThem(t *testing.T) {
	t.Parallel()
	r := start(t)
	b, run := r.bulk()
	run()
	const many = BulkNowMax + 300
	r.fill("q", many)
	r.enqueue(EnqueueInput{Queue: "other"})
	before := r.shard.Group().AppliedIndex()
	res := r.do(b, BulkInput{Action: "cancel", Filter: &JobFilter{Queue: "q"}})
	if res.Operation == nil || res.Operation.Total != many {
		t.Fatalf("%+v, want an operation over %d", res.Operation, many)
	}
	op := r.ended(b, res.Operation.ID)
	if op.Status != wire.BulkCompleted || op.Affected != many || op.Processed != many || op.Errors != 0 {
		t.Errorf("operation %+v", op)
	}
	if got := r.counts("q"); got.Cancelled != many {
		t.Errorf("counts %v", got)
	}
	if got := r.counts("other"); got.Pending != 1 {
		t.Errorf("the other queue: %v", got)
	}
	// Jobs share entries of the log: 256 each, not one each.
	if entries := r.shard.Group().AppliedIndex() - before; entries > 4*many/bulkGroup {
		t.Errorf("%d entries", entries)
	}
	small := r.do(b, BulkInput{Action: "retry", Filter: &JobFilter{Queue: "q", Limit: 5, Order: "asc"}})
	if small.Operation != nil || small.Affected != 5 {
		t.Errorf("a limit within a call: %+v", small)
	}
}

func TestBulk_OperationsAreBoundedForgottenAndOneAtATime(t *testing.T) {
	t.Parallel()
	r := start(t)
	b, run := r.bulk()
	id := r.enqueue(EnqueueInput{})
	in := BulkInput{Action: "approve", JobIDs: []string{id.String()}, Async: true}
	var first string
	for i := range BulkWaitingMax {
		op := r.do(b, in).Operation
		if op.Status != wire.BulkQueued {
			t.Fatalf("operation %d is %s", i, op.Status)
		}
		if i == 0 {
			first = op.ID
		}
	}
	if _, err := b.Do(r.ctx(), r.caller, in); reason(err) != "TOO_MANY_OPERATIONS" {
		t.Errorf("one too many: %v", err)
	}
	other := r.caller
	other.Namespace = job.Namespace{6}
	if _, _, err := b.Operation(other, first); reason(err) != "NOT_FOUND" {
		t.Errorf("of another namespace: %v", err)
	}
	_, changed, err := b.Operation(r.caller, first)
	if err != nil {
		t.Fatal(err)
	}
	run()
	select { // Every listener has the same channel, and closing it takes nothing from others.
	case <-changed:
	case <-time.After(patience):
		t.Fatal("nothing is told")
	}
	if op := r.ended(b, first); op.Errors != 1 || op.Status != wire.BulkCompleted {
		t.Errorf("the first: %+v", op)
	}
	var last string
	for range bulkKept + 1 {
		last = r.do(b, in).Operation.ID
		if op := r.ended(b, last); op.Errors != 1 || op.Refused[0].Code != wire.CodeConflict {
			t.Errorf("a later one: %+v", op)
		}
	}
	eventually.True(r.t, patience, "the first is forgotten", func() bool {
		_, _, err := b.Operation(r.caller, first)
		return reason(err) == "NOT_FOUND"
	})
	if _, _, err := b.Operation(r.caller, last); err != nil {
		t.Errorf("the last: %v", err)
	}
	eventually.True(r.t, patience, "a namespace that did nothing for long is forgotten", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.forget(time.Now().Add(bulkKeptFor + time.Minute))
		return len(b.lists) == 0
	})
}

// The copy that a filter is answered from may be late; what it found is looked at again.
func TestBulk_AJobThatNoLongerFitsTheFilterIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := start(t)
	b, _ := r.bulk()
	stay, gone, there := r.enqueue(EnqueueInput{}), r.enqueue(EnqueueInput{}), r.enqueue(EnqueueInput{})
	plan, err := BulkInput{Action: "delete", Filter: &JobFilter{Queue: "q", States: []string{"pending"}}}.plan()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Cancel(r.ctx(), r.caller, stay); err != nil {
		t.Fatal(err)
	}
	if err := r.MoveJob(r.ctx(), r.caller, gone, "elsewhere"); err != nil {
		t.Fatal(err)
	}
	run := &bulkRun{bulk: b, caller: r.caller, plan: plan, told: func(*bulkRun) {}}
	if err := run.some(r.ctx(), []job.ID{stay, gone, there}); err != nil {
		t.Fatal(err)
	}
	if run.done.Affected != 1 || run.done.Errors != 0 || run.walked != 3 {
		t.Errorf("%+v", run.done)
	}
	if r.job(stay).State != wire.Cancelled || r.job(gone).State != wire.Pending {
		t.Error("a job that does not fit is gone")
	}
}

// A bound at the epoch, as of a client whose time was never set, is before all jobs, and no missing bound.
func TestBulk_ABoundAtTheEpochIsBeforeAllJobs(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(0, 0).In(time.FixedZone("", -3600)), time.Unix(0, 1)} {
		r := start(t)
		v := r.views()
		b := NewBulk(v, slog.New(slog.DiscardHandler))
		r.fill("q", 3)
		for _, f := range []JobFilter{{CreatedBefore: at}, {CompletedBefore: at}, {StartedBefore: at}, {ScheduledBefore: at}} {
			if page, err := v.List(r.ctx(), r.caller, f); err != nil || len(page.Jobs) > 0 {
				t.Errorf("before %s there are %d jobs: %v", at, len(page.Jobs), err)
			}
		}
		if res, err := b.Do(r.ctx(), r.caller, BulkInput{Filter: &JobFilter{CreatedBefore: at}, Action: wire.BulkDelete}); err != nil || res.Affected > 0 {
			t.Errorf("%d jobs from before %s were deleted: %v", res.Affected, at, err)
		}
	}
}

// Done to what happens to be listed it would look like all.
func TestBulk_AFilterIsRefusedWhileTheListIsLate(t *testing.T) {
	t.Parallel()
	r := start(t)
	v, stop := r.viewsUntil()
	b := NewBulk(v, slog.New(slog.DiscardHandler))
	first := r.enqueue(EnqueueInput{})
	in := BulkInput{Action: "hold", Filter: &JobFilter{Queue: "q"}}
	if res := r.do(b, in); res.Affected != 1 {
		t.Fatalf("%+v", res)
	}
	eventually.True(r.t, patience, "the list has the hold", func() bool {
		page, err := v.list(r.ctx(), r.caller, permission.JobList, JobFilter{States: []string{"held"}})
		return err == nil && len(page.Rows) == 1
	})
	stop()
	b.patience = time.Millisecond
	r.enqueue(EnqueueInput{})
	if _, err := b.Do(r.ctx(), r.caller, in); reason(err) != "LIST_BEHIND" {
		t.Errorf("%v", err)
	}
	if res := r.do(b, BulkInput{Action: "approve", JobIDs: []string{first.String()}}); res.Affected != 1 {
		t.Errorf("by its id: %+v", res)
	}
}

// An operation that waited for another one sees what that did.
func TestBulk_OperationsSeeWhatThoseBeforeThemDid(t *testing.T) {
	t.Parallel()
	r := start(t)
	b, work := r.bulk()
	const many = 3000
	r.fill("q", many)
	var last string
	for i, action := range []wire.BulkAction{"hold", "approve", "cancel", "retry"} {
		states := [][]string{{"pending"}, {"held"}, {"pending"}, {"cancelled"}}[i]
		last = r.do(b, BulkInput{Action: action, Async: true, Filter: &JobFilter{Queue: "q", States: states}}).Operation.ID
	}
	work()
	if op := r.ended(b, last); op.Status != wire.BulkCompleted || op.Affected != many {
		t.Errorf("%+v", op)
	}
}

func TestBulk_WhatIsEnqueuedMeanwhileIsNotMet(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"", "asc"} {
		r := start(t)
		b, _ := r.bulk()
		r.fill("q", 300)
		plan, err := BulkInput{Action: "hold", Filter: &JobFilter{Queue: "q", Order: order}}.plan()
		if err != nil {
			t.Fatal(err)
		}
		run := &bulkRun{bulk: b, caller: r.caller, plan: plan, told: func(run *bulkRun) {
			if run.walked < 2000 { // What would go on for ever.
				r.fill("q", 300)
			}
		}}
		if err := run.all(r.ctx()); err != nil {
			t.Fatal(err)
		}
		if run.done.Affected != 300 {
			t.Errorf("order %q: %d jobs, want 300", order, run.done.Affected)
		}
	}
}

func TestBulk_NamesTheFirstOfManyThatAreLeft(t *testing.T) {
	t.Parallel()
	r := start(t)
	b, _ := r.bulk()
	var ids []string
	for i := range 600 {
		ids = append(ids, fmt.Sprintf("job_%026d", i))
	}
	res := r.do(b, BulkInput{Action: "retry", JobIDs: ids})
	if res.Errors != 600 || len(res.Refused) != BulkRefusedMax || res.Refused[0].JobID != ids[0] || res.Refused[0].Code != wire.CodeNotFound {
		t.Errorf("%d errors, %d named, first %+v", res.Errors, len(res.Refused), res.Refused[0])
	}
}

func TestBulk_AnOperationThatLosesItsShardFailsAndSaysHowFarItGot(t *testing.T) {
	t.Parallel()
	r := start(t)
	b, work := r.bulk()
	r.fill("q", 3*bulkGroup)
	plan, err := BulkInput{Action: "hold", Filter: &JobFilter{Queue: "q"}}.plan()
	if err != nil {
		t.Fatal(err)
	}
	run := &bulkRun{bulk: b, caller: r.caller, plan: plan}
	op, err := b.enlist(run, 3*bulkGroup)
	if err != nil {
		t.Fatal(err)
	}
	told := run.told
	run.told = func(run *bulkRun) {
		told(run)
		if err := r.shard.Group().Shutdown(); err != nil {
			t.Error(err)
		}
	}
	work()
	got := r.ended(b, op.ID)
	if got.Status != wire.BulkFailed || got.Affected != bulkGroup || !strings.HasPrefix(got.Error, "stopped after 256 jobs, 256 of them done: ") {
		t.Errorf("%+v", got)
	}
}

// What was done is said, so that nobody takes a part for nothing.
func TestBulk_AStopInTheMiddleSaysHowFarItGot(t *testing.T) {
	t.Parallel()
	r := start(t)
	b, _ := r.bulk()
	r.fill("q", 2*bulkGroup)
	plan, err := BulkInput{Action: "hold", Filter: &JobFilter{Queue: "q"}}.plan()
	if err != nil {
		t.Fatal(err)
	}
	run := &bulkRun{bulk: b, caller: r.caller, plan: plan, told: func(*bulkRun) {}}
	run.walked, run.done.Affected = bulkGroup, bulkGroup-1
	err = run.stopped(fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "this node is not the leader of the shard"))
	if fault.CodeOf(err) != fault.UnknownOutcome || !strings.Contains(err.Error(), "stopped after 256 jobs, 255 of them done: this node is not the leader of the shard") {
		t.Errorf("%v", err)
	}
}

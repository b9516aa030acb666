package queue

import (
	"context"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// BatchEnqueued is the result of enqueueing jobs as a batch.
type BatchEnqueued struct {
	Batch job.BatchID
	Jobs  []EnqueueResult
}

// Batch is a batch as it is shown.
type Batch struct {
	ID            job.BatchID
	Status        string // open, sealed or finished.
	Total, Open   int64
	Completed     int64
	Dead          int64
	Cancelled     int64
	Deleted       int64
	CallbackQueue string
	CallbackJob   job.ID // Zero: not enqueued, or not yet.
	CreatedAt     time.Time
	FinishedAt    time.Time
}

// Words of a batch's status.
const (
	BatchOpen     = "open"     // Jobs may join.
	BatchSealed   = "sealed"   // Some of its jobs have not ended.
	BatchFinished = "finished" // Its callback, if there is one, is enqueued.
)

// BatchMember is a job of a batch.
type BatchMember struct {
	JobID   job.ID
	Queue   string    // Empty: the job is gone.
	State   job.State // 0: the job is gone.
	Outcome string    // As the batch counts it; empty: it has not ended.
}

// BatchView is a batch with a page of its jobs.
type BatchView struct {
	Batch
	Members []BatchMember
	Cursor  string // "" at the end.
}

// BatchPage is a page of batches, youngest first.
type BatchPage struct {
	Batches []Batch
	Cursor  string // "" at the end.
}

// PageInput asks for a page of a list.
type PageInput struct {
	Limit  int    // 0 is ListDefault.
	Cursor string // Of the page before.
}

// EnqueueAsBatch adds all jobs in one commit, and makes a batch of them.
func (s *Service) EnqueueAsBatch(ctx context.Context, c Caller, in []EnqueueInput, o BatchOptions) (BatchEnqueued, error) {
	if fields := checkAsBatch(c, in, &o); len(fields) > 0 {
		return BatchEnqueued{}, fault.InvalidFields(fields)
	}
	id := job.BatchID(s.ids.next(s.now()))
	jobs := make([]EnqueueInput, len(in))
	for i := range in {
		jobs[i] = in[i]
		jobs[i].BatchID = id.String()
	}
	cmds, err := s.stampEnqueues(c, "jobs", jobs)
	if err != nil {
		return BatchEnqueued{}, err
	}
	group := []command.Command{&command.Together{}, &command.MakeBatch{NS: c.Namespace, ID: id, Callback: o.callback()}}
	group = append(group, cmds[len(cmds)-len(jobs):]...) // Without their own Together command.
	if !o.Open {
		group = append(group, &command.SealBatch{NS: c.Namespace, ID: id})
	}
	group[0] = &command.Together{Count: uint32(len(group) - 1)}
	rep, err := s.do(ctx, c, shard.Request{After: group})
	if err != nil {
		return BatchEnqueued{}, err
	}
	return batchEnqueued(in, rep.After)
}

// checkAsBatch lists what EnqueueAsBatch refuses besides what is wrong with each job.
func checkAsBatch(c Caller, in []EnqueueInput, o *BatchOptions) []fault.Field {
	bad := checker(under("batch", o.check(c)))
	for i := range in {
		if in[i].BatchID != "" {
			bad = append(bad, at("jobs", i, []fault.Field{{Path: "batch_id", Message: "can't be set here: this call creates its own batch"}})...)
		}
	}
	return bad
}

// batchEnqueued reads the results of a group that makes a batch first. For a repeated
// call they name the batch of the first call.
func batchEnqueued(in []EnqueueInput, results []state.Result) (BatchEnqueued, error) {
	group := results[0]
	if group.Refusal != state.Accepted {
		if group.Culprit == 0 {
			return BatchEnqueued{}, makeRefusal(&group)
		}
		group.Culprit--
	}
	jobs, err := enqueueResults("jobs", in, append([]state.Result{group}, results[2:2+len(in)]...))
	return BatchEnqueued{Batch: results[1].Batch, Jobs: jobs}, err
}

// MakeBatch opens a batch that jobs join when they are enqueued.
func (s *Service) MakeBatch(ctx context.Context, c Caller, o BatchOptions) (Batch, error) {
	if fields := o.check(c); len(fields) > 0 {
		return Batch{}, fault.InvalidFields(fields)
	}
	id := job.BatchID(s.ids.next(s.now()))
	res, err := s.one(ctx, &command.MakeBatch{NS: c.Namespace, ID: id, Callback: o.callback()})
	if err == nil {
		err = makeRefusal(&res)
	}
	if err != nil {
		return Batch{}, err
	}
	return s.batch(ctx, c, id)
}

// makeRefusal is not a Conflict when jobs come with the batch; see enqueueRefusal.
func makeRefusal(r *state.Result) error {
	switch r.Refusal {
	case state.Accepted:
		return nil
	case state.TooMany:
		return fault.New(fault.Invalid, "TOO_MANY_BATCHES",
			"this namespace has %d batches that aren't sealed; seal some of them first", state.OpenBatchesMax)
	default:
		return fault.New(fault.Conflict, "CONFLICT", "this batch already exists")
	}
}

// SealBatch closes a batch to more jobs.
func (s *Service) SealBatch(ctx context.Context, c Caller, id job.BatchID) (Batch, error) {
	res, err := s.one(ctx, &command.SealBatch{NS: c.Namespace, ID: id})
	if err != nil {
		return Batch{}, err
	}
	if res.Refusal == state.NotFound {
		return Batch{}, errNoBatch(id)
	}
	return s.batch(ctx, c, id)
}

func errNoBatch(id job.BatchID) error {
	return fault.New(fault.NotFound, "NOT_FOUND", "there is no batch %s in this namespace", id)
}

func (s *Service) batch(ctx context.Context, c Caller, id job.BatchID) (Batch, error) {
	b, err := shard.Read(ctx, s.shard, func(g *statedb.Group) (records.Batch, error) {
		return stateread.ReadBatch(g, c.Namespace, id)
	})
	if errors.Is(err, statedb.ErrNotFound) {
		return Batch{}, errNoBatch(id)
	}
	return viewBatch(id, &b), err
}

// Batch reads a batch and a page of its jobs.
func (s *Service) Batch(ctx context.Context, c Caller, id job.BatchID, page PageInput) (BatchView, error) {
	var after job.ID
	var bad checker
	if page.Cursor != "" {
		var err error
		if after, err = job.ParseID(page.Cursor); err != nil {
			bad.badCursor()
		}
	}
	limit := bad.limit(page.Limit)
	if len(bad) > 0 {
		return BatchView{}, fault.InvalidFields(bad)
	}
	b, err := s.batch(ctx, c, id)
	if err != nil {
		return BatchView{}, err
	}
	return shard.Read(ctx, s.shard, func(g *statedb.Group) (BatchView, error) {
		v := BatchView{Batch: b}
		members, more, err := stateread.ReadMembers(g, c.Namespace, id, after, limit)
		for _, m := range members {
			v.Members = append(v.Members, BatchMember{JobID: m.ID, Queue: m.Queue, State: m.State, Outcome: m.Outcome.String()})
		}
		if more {
			v.Cursor = members[len(members)-1].ID.String()
		}
		return v, err
	})
}

// Batches lists batches, youngest first.
func (s *Service) Batches(ctx context.Context, c Caller, page PageInput) (BatchPage, error) {
	var before job.BatchID
	var bad checker
	if page.Cursor != "" {
		var err error
		if before, err = job.ParseBatchID(page.Cursor); err != nil {
			bad.badCursor()
		}
	}
	limit := bad.limit(page.Limit)
	if len(bad) > 0 {
		return BatchPage{}, fault.InvalidFields(bad)
	}
	return shard.Read(ctx, s.shard, func(g *statedb.Group) (out BatchPage, err error) {
		list, more, err := stateread.ReadBatches(g, c.Namespace, before, limit)
		for i := range list {
			out.Batches = append(out.Batches, viewBatch(list[i].ID, &list[i].Batch))
		}
		if more {
			out.Cursor = list[len(list)-1].ID.String()
		}
		return out, err
	})
}

func (c *checker) badCursor() {
	c.failf("cursor", "is not a cursor of this list; send the previous page's cursor unchanged, or leave it out to start over")
}

// limit checks and defaults the size of a page.
func (c *checker) limit(n int) int {
	if n == 0 {
		return ListDefault
	}
	if n < 1 || n > ListMax {
		c.failf("limit", "must be between 1 and %d", ListMax)
	}
	return n
}

func viewBatch(id job.BatchID, b *records.Batch) Batch {
	v := Batch{
		ID: id, Status: BatchOpen, Total: int64(b.Total), Open: int64(b.Open),
		Completed: int64(b.Counts[records.OutcomeCompleted]), Dead: int64(b.Counts[records.OutcomeDead]),
		Cancelled: int64(b.Counts[records.OutcomeCancelled]), Deleted: int64(b.Counts[records.OutcomeDeleted]),
		CallbackQueue: b.Callback, CallbackJob: b.CallbackID, CreatedAt: when(b.CreatedAt), FinishedAt: when(b.FinishedAt),
	}
	switch {
	case b.Fired():
		v.Status = BatchFinished
	case b.Sealed:
		v.Status = BatchSealed
	}
	return v
}

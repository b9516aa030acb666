package queue

import (
	"cmp"
	"context"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
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
	Batch string
	Jobs  []EnqueueResult
}

// PageInput asks for a page of a list.
type PageInput struct {
	Limit  int    // 0 is ListDefault.
	Cursor string // Of the page before.
}

// EnqueueAsBatch adds all jobs in one commit, and makes a batch of them.
func (s *Service) EnqueueAsBatch(ctx context.Context, c Caller, in []EnqueueInput, o wire.BatchOptions) (BatchEnqueued, error) {
	if fields := checkAsBatch(c, in, &o); len(fields) > 0 {
		return BatchEnqueued{}, fault.InvalidFields(fields)
	}
	if err := c.mayCallBack(o.CallbackQueue); err != nil {
		return BatchEnqueued{}, err
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
	group := []command.Command{&command.Atomic{}, &command.MakeBatch{NS: c.Namespace, ID: id, Callback: callbackOf(&o)}}
	group = append(group, cmds[len(cmds)-len(jobs):]...) // Without their own Atomic command.
	if !o.Open {
		group = append(group, &command.SealBatch{NS: c.Namespace, ID: id})
	}
	group[0] = &command.Atomic{Count: uint32(len(group) - 1)}
	rep, err := s.do(ctx, c, shard.Request{After: group})
	if err != nil {
		return BatchEnqueued{}, err
	}
	return batchEnqueued(in, rep.After)
}

// checkAsBatch lists what EnqueueAsBatch refuses besides what is wrong with each job.
func checkAsBatch(c Caller, in []EnqueueInput, o *wire.BatchOptions) []fault.Field {
	bad := checker(under("batch", checkCallback(c, o)))
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
	return BatchEnqueued{Batch: idOrNone(results[1].Batch), Jobs: jobs}, err
}

// MakeBatch opens a batch that jobs join when they are enqueued.
func (s *Service) MakeBatch(ctx context.Context, c Caller, o wire.BatchOptions) (wire.Batch, error) {
	if err := checkCallback(c, &o).err(); err != nil {
		return wire.Batch{}, err
	}
	if err := c.mayCallBack(o.CallbackQueue); err != nil {
		return wire.Batch{}, err
	}
	id := job.BatchID(s.ids.next(s.now()))
	res, err := s.one(ctx, &command.MakeBatch{NS: c.Namespace, ID: id, Callback: callbackOf(&o)})
	if err == nil {
		err = makeRefusal(&res)
	}
	if err != nil {
		return wire.Batch{}, err
	}
	return readBack(ctx, func(ctx context.Context) (wire.Batch, error) { return s.batch(ctx, c, id) })
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
func (s *Service) SealBatch(ctx context.Context, c Caller, id job.BatchID) (wire.Batch, error) {
	if _, err := s.one(ctx, &command.SealBatch{NS: c.Namespace, ID: id}); err != nil {
		return wire.Batch{}, err
	}
	// If there is none, this says so.
	return readBack(ctx, func(ctx context.Context) (wire.Batch, error) { return s.batch(ctx, c, id) })
}

func errNoBatch(id job.BatchID) error {
	return fault.New(fault.NotFound, "NOT_FOUND", "there is no batch %s in this namespace", id)
}

func (s *Service) batch(ctx context.Context, c Caller, id job.BatchID) (wire.Batch, error) {
	b, err := look(ctx, s.shard, errNoBatch(id), func(g *statedb.Group) (records.Batch, error) {
		return stateread.ReadBatch(g, c.Namespace, id)
	})
	return viewBatch(id, &b), err
}

// Batch reads a batch and a page of its jobs.
func (s *Service) Batch(ctx context.Context, c Caller, id job.BatchID, page PageInput) (wire.BatchPage, error) {
	after, limit, err := readPage(page, job.ParseID)
	if err != nil {
		return wire.BatchPage{}, err
	}
	b, err := s.batch(ctx, c, id)
	if err != nil {
		return wire.BatchPage{}, err
	}
	return shard.Read(ctx, s.shard, func(g *statedb.Group) (wire.BatchPage, error) {
		members, more, err := stateread.ReadMembers(g, c.Namespace, id, after, limit)
		v := wire.BatchPage{Batch: b, HasMore: more, Members: each(members, viewMember)}
		if more {
			v.Cursor = v.Members[len(members)-1].JobID
		}
		return v, err
	})
}

func viewMember(m *stateread.BatchMember) wire.BatchMember {
	return wire.BatchMember{JobID: m.ID.String(), Queue: m.Queue, State: stateOf(m.State), Outcome: wire.BatchOutcome(m.Outcome.String())}
}

// Batches lists batches, youngest first.
func (s *Service) Batches(ctx context.Context, c Caller, page PageInput) (wire.BatchList, error) {
	before, limit, err := readPage(page, job.ParseBatchID)
	if err != nil {
		return wire.BatchList{}, err
	}
	return shard.Read(ctx, s.shard, func(g *statedb.Group) (wire.BatchList, error) {
		list, more, err := stateread.ReadBatches(g, c.Namespace, before, limit)
		out := wire.BatchList{HasMore: more, Batches: each(list, func(b *stateread.IDBatch) wire.Batch { return viewBatch(b.ID, &b.Batch) })}
		if more {
			out.Cursor = out.Batches[len(list)-1].ID
		}
		return out, err
	})
}

// readPage reads where a page begins, in a list that is ordered by ids, and its size.
func readPage[ID any](in PageInput, parse func(string) (ID, error)) (from ID, limit int, err error) {
	var bad checker
	if in.Cursor != "" {
		if from, err = parse(in.Cursor); err != nil {
			bad.failf("cursor", "%s", notACursor)
		}
	}
	limit = cmp.Or(in.Limit, ListDefault)
	bad.size(limit, ListMax)
	return from, limit, bad.err()
}

const notACursor = "is not a cursor of this list; send the previous page's cursor unchanged, or leave it out to start over"

func viewBatch(id job.BatchID, b *records.Batch) wire.Batch {
	v := wire.Batch{
		ID: id.String(), Status: wire.BatchOpen, Total: int64(b.Total), Open: int64(b.Open),
		Completed: int64(b.Counts[records.OutcomeCompleted]), Dead: int64(b.Counts[records.OutcomeDead]),
		Cancelled: int64(b.Counts[records.OutcomeCancelled]), Deleted: int64(b.Counts[records.OutcomeDeleted]),
		CallbackQueue: b.Callback, CallbackJobID: idOrNone(b.CallbackID), CreatedAt: when(b.CreatedAt), FinishedAt: when(b.FinishedAt),
	}
	switch {
	case b.Fired():
		v.Status = wire.BatchFinished
	case b.Sealed:
		v.Status = wire.BatchSealed
	}
	return v
}

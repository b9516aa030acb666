package server

import (
	"context"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// The fake knows one batch and one chain.

var (
	memBatch = queue.Batch{ID: job.BatchID{15: 1}, Status: queue.BatchOpen, Total: 2, Open: 1, Completed: 1, CallbackQueue: "cb", CreatedAt: memClock}
	memChain = queue.ChainSummary{ID: job.ChainID{15: 1}, Status: "running", Steps: 2, Current: 1, CreatedAt: memClock}
)

func (m *memory) EnqueueAsBatch(ctx context.Context, c queue.Caller, in []queue.EnqueueInput, _ queue.BatchOptions) (queue.BatchEnqueued, error) {
	jobs, err := m.EnqueueBatch(ctx, c, in)
	return queue.BatchEnqueued{Batch: memBatch.ID, Jobs: jobs}, err
}

func (m *memory) MakeBatch(context.Context, queue.Caller, queue.BatchOptions) (queue.Batch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return memBatch, m.enter()
}

func (m *memory) SealBatch(context.Context, queue.Caller, job.BatchID) (queue.Batch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sealed := memBatch
	sealed.Status = queue.BatchSealed
	return sealed, m.enter()
}

func (m *memory) Batch(context.Context, queue.Caller, job.BatchID, queue.PageInput) (queue.BatchView, error) {
	return queue.BatchView{Batch: memBatch, Members: []queue.BatchMember{
		{JobID: jobNumber(1), Queue: "q", State: job.Completed, Outcome: "completed"}, {JobID: jobNumber(2)},
	}}, nil
}

func (m *memory) Batches(context.Context, queue.Caller, queue.PageInput) (queue.BatchPage, error) {
	return queue.BatchPage{Batches: []queue.Batch{memBatch}, Cursor: memBatch.ID.String()}, nil
}

func (m *memory) Chain(context.Context, queue.Caller, job.ChainID) (queue.Chain, error) {
	return queue.Chain{ChainSummary: memChain, StepJobs: []queue.ChainStep{
		{Queue: "a", JobID: jobNumber(1), State: job.Completed}, {Queue: "b", JobID: jobNumber(2), State: job.Pending},
	}, OnExit: &queue.ChainStep{Queue: "done"}}, nil
}

func (m *memory) Chains(context.Context, queue.Caller, queue.PageInput) (queue.ChainPage, error) {
	return queue.ChainPage{Chains: []queue.ChainSummary{memChain}}, nil
}

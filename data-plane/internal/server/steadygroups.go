package server

import (
	"context"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

func (t steady) EnqueueAsBatch(ctx context.Context, c queue.Caller, in []queue.EnqueueInput, o queue.BatchOptions) (queue.BatchEnqueued, error) {
	return steadily(ctx, t, func(j Jobs) (queue.BatchEnqueued, error) { return j.EnqueueAsBatch(ctx, c, in, o) })
}

func (t steady) MakeBatch(ctx context.Context, c queue.Caller, o queue.BatchOptions) (queue.Batch, error) {
	return steadily(ctx, t, func(j Jobs) (queue.Batch, error) { return j.MakeBatch(ctx, c, o) })
}

func (t steady) SealBatch(ctx context.Context, c queue.Caller, id job.BatchID) (queue.Batch, error) {
	return steadily(ctx, t, func(j Jobs) (queue.Batch, error) { return j.SealBatch(ctx, c, id) })
}

func (t steady) Batch(ctx context.Context, c queue.Caller, id job.BatchID, page queue.PageInput) (queue.BatchView, error) {
	return steadily(ctx, t, func(j Jobs) (queue.BatchView, error) { return j.Batch(ctx, c, id, page) })
}

func (t steady) Batches(ctx context.Context, c queue.Caller, page queue.PageInput) (queue.BatchPage, error) {
	return steadily(ctx, t, func(j Jobs) (queue.BatchPage, error) { return j.Batches(ctx, c, page) })
}

func (t steady) Chain(ctx context.Context, c queue.Caller, id job.ChainID) (queue.Chain, error) {
	return steadily(ctx, t, func(j Jobs) (queue.Chain, error) { return j.Chain(ctx, c, id) })
}

func (t steady) Chains(ctx context.Context, c queue.Caller, page queue.PageInput) (queue.ChainPage, error) {
	return steadily(ctx, t, func(j Jobs) (queue.ChainPage, error) { return j.Chains(ctx, c, page) })
}

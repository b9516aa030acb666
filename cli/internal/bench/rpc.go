package bench

import (
	"context"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

type rpcConn struct {
	dialer    *dialer
	client    corvov1connect.WorkerServiceClient
	closeIdle func()
}

func (d *dialer) dialRPC() (conn, error) {
	client, err := d.client()
	if err != nil {
		return nil, err
	}
	return &rpcConn{dialer: d, client: client.RPC(), closeIdle: client.Close}, nil
}

func (c *rpcConn) close() { c.closeIdle() }

func (c *rpcConn) caller() caller { return &rpcCaller{rpcConn: c} }

type rpcCaller struct {
	*rpcConn
	ids []string
	got []lease
}

// patiently makes a call, and repeats it while it is refused for overload. The getters of
// the answer that it has not got are empty.
func patiently[Req, Res any](ctx context.Context, call func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) (*Res, error) {
	for {
		r, err := call(ctx, connect.NewRequest(req))
		if err == nil {
			return r.Msg, nil
		}
		if connect.CodeOf(err) != connect.CodeResourceExhausted || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(overloadPause)
	}
}

func (c *rpcCaller) enqueue(ctx context.Context, n int) ([]string, error) {
	c.ids = c.ids[:0]
	one := &corvov1.EnqueueRequest{Queue: c.dialer.queue, PayloadJson: c.dialer.payload}
	if n == 1 {
		r, err := patiently(ctx, c.client.Enqueue, one)
		c.ids = append(c.ids, r.GetJobId())
		return c.ids, err
	}
	batch := &corvov1.EnqueueBatchRequest{}
	for range n {
		batch.Jobs = append(batch.Jobs, one)
	}
	r, err := patiently(ctx, c.client.EnqueueBatch, batch)
	for _, result := range r.GetResults() {
		c.ids = append(c.ids, result.GetJobId())
	}
	return c.ids, err
}

func (c *rpcCaller) work(ctx context.Context, settle []lease, n int) ([]lease, int, error) {
	refused, err := c.settle(ctx, settle)
	if err != nil || n == 0 {
		return nil, refused, err
	}
	got, err := c.fetch(ctx, n, 0)
	return got, refused, err
}

func (c *rpcCaller) settle(ctx context.Context, settle []lease) (refused int, err error) {
	switch len(settle) {
	case 0:
		return 0, nil
	case 1:
		_, err = patiently(ctx, c.client.Ack, &corvov1.AckRequest{JobId: settle[0].id, LeaseToken: settle[0].token})
		if connect.CodeOf(err) == connect.CodeFailedPrecondition || connect.CodeOf(err) == connect.CodeNotFound {
			return 1, nil
		}
		return 0, err
	}
	batch := &corvov1.AckBatchRequest{}
	for _, l := range settle {
		batch.Items = append(batch.Items, &corvov1.AckBatchItem{JobId: l.id, LeaseToken: l.token})
	}
	r, err := patiently(ctx, c.client.AckBatch, batch)
	if err != nil {
		return 0, err
	}
	return len(settle) - int(r.GetAcked()), nil
}

func (c *rpcCaller) await(ctx context.Context, wait time.Duration) ([]lease, error) {
	return c.fetch(ctx, 1, wait)
}

func (c *rpcCaller) fetch(ctx context.Context, n int, wait time.Duration) ([]lease, error) {
	ms := wait.Milliseconds()
	c.got = c.got[:0]
	if n == 1 {
		r, err := patiently(ctx, c.client.Fetch, &corvov1.FetchRequest{
			Queues: []string{c.dialer.queue}, WorkerId: "corvo-bench", LeaseDuration: leaseSeconds, WaitMs: &ms,
		})
		if err != nil || !r.GetFound() {
			return nil, err
		}
		c.got = append(c.got, lease{r.GetJobId(), r.GetLeaseToken()})
		return c.got, nil
	}
	r, err := patiently(ctx, c.client.FetchBatch, &corvov1.FetchBatchRequest{
		Queues: []string{c.dialer.queue}, WorkerId: "corvo-bench", LeaseDuration: leaseSeconds, Count: int32(n), WaitMs: &ms,
	})
	c.got = appendLeases(c.got, r.GetJobs())
	return c.got, err
}

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/streams"
)

var unaryDialects = map[string][]connect.ClientOption{
	"connect": nil, "json": {connect.WithProtoJSON()}, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()},
}

// exchangeFrame posts one frame as the TypeScript worker does.
func (b *bench) exchangeFrame(t *testing.T, frame string) *frameOut {
	t.Helper()
	a := b.post("/corvo.v1.WorkerService/StreamLifecycle", frame, "Content-Type", "application/json")
	a.want(t, http.StatusOK)
	out := new(frameOut)
	if err := protojson.Unmarshal([]byte(a.body), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRateLimit_EveryRPCSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	for dialect, opts := range unaryDialects {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			b.jobs.plan.Store(&queue.PlanLimits{PerSecond: 1, Burst: 60})
			rpc := b.client(true, opts...)
			said := func(h http.Header, left, full int) {
				t.Helper()
				if p, l := h.Get("RateLimit-Policy"), h.Get("RateLimit"); p != `"enqueue_per_second";q=60;w=60` || l != fmt.Sprintf(`"enqueue_per_second";r=%d;t=%d`, left, full) {
					t.Errorf("policy %q, limit %q; want %d left", p, l, left)
				}
			}
			many, err := rpc.EnqueueBatch(t.Context(), connect.NewRequest(&corvov1.EnqueueBatchRequest{Jobs: []*corvov1.EnqueueRequest{{Queue: "q"}, {Queue: "q"}}}))
			if err != nil {
				t.Fatal(err)
			}
			said(many.Header(), 58, 2)
			one, err := rpc.Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q"}))
			if err != nil {
				t.Fatal(err)
			}
			said(one.Header(), 57, 3)

			jobs := make([]*corvov1.EnqueueRequest, 100)
			for i := range jobs {
				jobs[i] = &corvov1.EnqueueRequest{Queue: "q"}
			}
			if _, err = rpc.EnqueueBatch(t.Context(), connect.NewRequest(&corvov1.EnqueueBatchRequest{Jobs: jobs})); err != nil {
				t.Fatal(err)
			}
			_, err = rpc.Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q"}))
			var ce *connect.Error
			if !errors.As(err, &ce) || ce.Code() != connect.CodeResourceExhausted {
				t.Fatalf("beyond the rate: %v", err)
			}
			said(ce.Meta(), 0, 103)
			if l := limitOf(t, ce); l.GetName() != "enqueue_per_second" || l.GetValue() != 1 {
				t.Errorf("refused for %v", l)
			}
		})
	}
}

// limitOf is the limit in a refusal's details; nil if there is none.
func limitOf(t *testing.T, ce *connect.Error) *corvov1.Limit {
	t.Helper()
	for _, d := range ce.Details() {
		v, err := d.Value()
		if err != nil {
			t.Fatal(err)
		}
		if l, ok := v.(*corvov1.Limit); ok {
			return l
		}
	}
	return nil
}

func TestPlanHold_ARefusedRPCNamesTheLimitAndWhenItOpens(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	opens := time.Now().Add(90 * time.Minute).Truncate(time.Second)
	b.jobs.plan.Store(&queue.PlanLimits{Hold: queue.PlanHold{Enqueue: true, Limit: "jobs_per_month", Value: 500, Until: opens}})
	for dialect, opts := range unaryDialects {
		_, err := b.client(true, opts...).Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q"}))
		var ce *connect.Error
		if !errors.As(err, &ce) {
			t.Fatalf("%s: %v", dialect, err)
		}
		if l := limitOf(t, ce); l.GetName() != "jobs_per_month" || l.GetValue() != 500 || !l.GetOpensAt().AsTime().Equal(opens) || ce.Meta().Get("RateLimit") != "" {
			t.Errorf("%s: %v %v", dialect, l, ce.Meta())
		}
	}
	out := b.open(t.Context()).ask(&frameIn{RequestId: 1, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "q"}}})
	if l := out.GetLimit(); out.GetCode() != string(wire.CodePlanLimit) || l.GetName() != "jobs_per_month" || l.GetValue() != 500 || !l.GetOpensAt().AsTime().Equal(opens) ||
		out.GetRetryAfterMs() < time.Hour.Milliseconds() || out.EnqueueQuota != nil {
		t.Errorf("a frame: %v", out)
	}
}

func TestPlanHold_EveryEmptyFetchSaysWhy(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	opens := time.Now().Add(90 * time.Minute).Truncate(time.Second)
	held := &queue.PlanLimits{Hold: queue.PlanHold{Dispatch: true, Limit: "spend", Value: 20, Until: opens}}
	wait := int64(0)
	fetch := &frameIn{RequestId: 1, Queues: []string{"q"}, FetchCount: 1, LeaseDuration: 30}
	for name, ask := range map[string]func(ctx context.Context) (*corvov1.DispatchHeld, string){
		"fetch": func(ctx context.Context) (*corvov1.DispatchHeld, string) {
			return unaryFetch(t, ctx, b.client(true))
		},
		"fetch over gRPC": func(ctx context.Context) (*corvov1.DispatchHeld, string) {
			return unaryFetch(t, ctx, b.client(true, connect.WithGRPC()))
		},
		"fetch batch": func(ctx context.Context) (*corvov1.DispatchHeld, string) {
			r, err := b.client(true).FetchBatch(ctx, connect.NewRequest(&corvov1.FetchBatchRequest{Queues: []string{"q"}, WaitMs: &wait}))
			if err != nil {
				t.Fatal(err)
			}
			return r.Msg.GetHeld(), r.Header().Get(wire.DispatchHeldHeader)
		},
		"a stream": func(ctx context.Context) (*corvov1.DispatchHeld, string) {
			h := b.open(ctx).ask(fetch).GetHeld()
			return h, h.GetLimit()
		},
		"a pipelined stream": func(ctx context.Context) (*corvov1.DispatchHeld, string) {
			h := b.open(ctx, connect.WithGRPC()).ask(&frameIn{RequestId: 1, Queues: []string{"q"}, FetchCount: 1, Pipelined: true, WaitMs: new(int64(50))}).GetHeld()
			return h, h.GetLimit()
		},
		"a frame that also enqueues": func(ctx context.Context) (*corvov1.DispatchHeld, string) {
			h := b.open(ctx).ask(&frameIn{RequestId: 1, Queues: []string{"q"}, FetchCount: 1, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "other"}}}).GetHeld()
			return h, h.GetLimit()
		},
		"a single frame": func(context.Context) (*corvov1.DispatchHeld, string) {
			h := b.exchangeFrame(t, `{"request_id":1,"queues":["q"],"fetch_count":1}`).GetHeld()
			return h, h.GetLimit()
		},
	} {
		b.jobs.plan.Store(held)
		h, header := ask(t.Context())
		if h.GetLimit() != "spend" || h.GetValue() != 20 || !h.GetOpensAt().AsTime().Equal(opens) || h.GetMessage() == "" || header != "spend" {
			t.Errorf("%s: %v, header %q", name, h, header)
		}
		b.jobs.plan.Store(&queue.PlanLimits{})
		if h, header := ask(t.Context()); h != nil || header != "" {
			t.Errorf("%s, held no longer: %v, header %q", name, h, header)
		}
	}
}

func unaryFetch(t *testing.T, ctx context.Context, c workerClient) (*corvov1.DispatchHeld, string) {
	t.Helper()
	r, err := c.Fetch(ctx, connect.NewRequest(&corvov1.FetchRequest{Queues: []string{"q"}, WaitMs: new(int64(0))}))
	if err != nil {
		t.Fatal(err)
	}
	return r.Msg.GetHeld(), r.Header().Get(wire.DispatchHeldHeader)
}

func TestRateLimit_AFrameThatEnqueuesSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	add := []*corvov1.LifecycleEnqueueItem{{Queue: "q"}, {Queue: "q"}}
	for dialect, opts := range streamDialects {
		b := newBench(t, benchOptions{})
		b.jobs.plan.Store(&queue.PlanLimits{PerSecond: 1, Burst: 60})
		k := b.open(t.Context(), opts...)
		out := k.ask(&frameIn{RequestId: 1, Enqueues: add})
		if q := out.GetEnqueueQuota(); q.GetLimit() != 60 || q.GetWindowMs() != 60_000 || q.GetRemaining() != 58 || q.GetResetMs() > 2000 || q.GetResetMs() < 1000 {
			t.Errorf("%s: %v", dialect, out)
		}
		if out = k.ask(&frameIn{RequestId: 2, Queues: []string{"none"}, FetchCount: 1}); out.EnqueueQuota != nil {
			t.Errorf("%s, a frame that enqueues nothing: %v", dialect, out)
		}
		b.jobs.plan.Store(&queue.PlanLimits{PerSecond: 1, Burst: 1})
		for id := uint64(3); out.GetError() == "" && id < 10; id++ {
			out = k.ask(&frameIn{RequestId: id, Enqueues: add})
		}
		if q, l := out.GetEnqueueQuota(), out.GetLimit(); out.GetCode() != string(wire.CodeRateLimited) || l.GetName() != "enqueue_per_second" || l.GetValue() != 1 || q == nil || q.GetRemaining() != 0 || out.GetRetryAfterMs() <= 0 {
			t.Errorf("%s, beyond the rate: %v", dialect, out)
		}
		b.jobs.plan.Store(&queue.PlanLimits{})
		if out = k.ask(&frameIn{RequestId: 20, Enqueues: add}); out.GetError() != "" || out.EnqueueQuota != nil || out.Limit != nil {
			t.Errorf("%s, a rate that isn't limited: %v", dialect, out)
		}
	}
}

// Too many fetches that wait on a stream are refused with the number that may.
func TestStream_TooManyWaitingFetchesNameTheLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	for id := range uint64(streams.ParkedMax) {
		k.send(&frameIn{RequestId: id + 1, Pipelined: true, Queues: []string{"q"}, FetchCount: 1, WaitMs: new(int64(30_000))})
	}
	out := k.ask(&frameIn{RequestId: 1000, Queues: []string{"q"}, FetchCount: 1, WaitMs: new(int64(30_000))})
	if l := out.GetLimit(); out.GetCode() != "OVERLOADED" || l.GetName() != "stream_fetches_max" || l.GetValue() != streams.ParkedMax || l.GetCurrent() != streams.ParkedMax {
		t.Errorf("refused with %v", out)
	}
}

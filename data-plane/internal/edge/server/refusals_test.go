package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
)

// noted is what callers were told that they may not do.
type noted struct {
	mu  sync.Mutex
	all []string // Guarded by mu.
}

func (n *noted) note(c queue.Caller, p permission.Permission, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprintf("%s of %s at %s: %s on %q", c.Principal, c.Tenant, c.Peer, p, name))
}

// take is what was noted since it was last asked, each once.
func (n *noted) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.all
	n.all = nil
	slices.Sort(out)
	return slices.Compact(out)
}

func (n *noted) want(t *testing.T, what string, lines ...string) {
	t.Helper()
	for i := range lines {
		lines[i] = "key_000000000001 of tn_0 at 192.0.2.1: " + lines[i]
	}
	if got := n.take(); !slices.Equal(got, lines) {
		t.Errorf("%s: noted %q, want %q", what, got, lines)
	}
}

// Whatever protocol a caller speaks, what it may not do is noted, of each frame of a stream,
// too.
func TestRefusals_AreNotedInEveryProtocolAndFrame(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			var n noted
			b := newCellBench(t, benchOptions{refused: n.note})
			some := []permission.InQueues{{Permissions: permission.Of(permission.JobEnqueue, permission.JobFetch), Queues: []string{"mine"}}}
			c := b.clientAs(t, d.http2, permission.Here{Some: some}, d.options...)
			enqueue := func(name string) error {
				_, err := c.Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: name}))
				return err
			}
			if err := enqueue("mine"); err != nil {
				t.Fatal(err)
			}
			n.want(t, "allowed")
			if err := enqueue("other"); connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Fatal(err)
			}
			n.want(t, "a call", `job.enqueue on "other"`)
			nothing := b.clientAs(t, d.http2, permission.Here{All: permission.Of(permission.QueueRead)}, d.options...)
			if _, err := nothing.Fetch(t.Context(), connect.NewRequest(&corvov1.FetchRequest{Queues: []string{"q"}, WorkerId: "w"})); connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Fatal(err)
			}
			n.want(t, "a method", `job.fetch on ""`)
			if !d.http2 {
				return
			}
			s := c.StreamLifecycle(t.Context())
			k := &talk{TB: t, s: s}
			for i := range 2 {
				id := uint64(2 * i)
				k.ask(&frameIn{RequestId: id + 1, Enqueues: enqueues("mine"), Queues: []string{"mine"}, FetchCount: 1, WorkerId: "w"})
				n.want(t, "a frame")
				k.ask(&frameIn{RequestId: id + 2, Enqueues: enqueues("other"), Queues: []string{"third"}, FetchCount: 1, WorkerId: "w"})
				n.want(t, "a frame that is refused", `job.enqueue on "other"`, `job.fetch on "third"`)
			}
			_ = s.CloseRequest()
			_ = s.CloseResponse()
		})
	}
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		var n noted
		b := &rightsBench{bench: newCellBench(t, benchOptions{refused: n.note})}
		mine, other := b.make("a-1", ""), b.make("b-1", "")
		n.want(t, "allowed")
		for _, c := range []struct {
			method, path, body string
			status             int
			lines              []string
		}{
			{"POST", "/api/v1/enqueue", `{"queue":"b-1"}`, 403, []string{`job.enqueue on "b-1"`}},
			{"GET", "/api/v1/jobs/" + mine.job, "", 200, nil},
			{"GET", "/api/v1/jobs/" + other.job, "", 404, []string{`job.read on "b-1"`}},
			{"POST", "/api/v1/jobs/bulk-get", fmt.Sprintf(`{"job_ids":[%q,%q]}`, mine.job, other.job), 200, []string{`job.read on "b-1"`}},
			{"POST", "/api/v1/queues/b-1/pause", "", 403, []string{`queue.pause on "b-1"`}},
			{"GET", "/api/v1/jobs?queue=b-1", "", 403, []string{`job.list on "b-1"`}},
			{"GET", "/api/v1/jobs", "", 200, nil},
		} {
			if a := b.as(everybody()[2], c.method, c.path, c.body); a.status != c.status {
				t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
			}
			n.want(t, c.method+" "+c.path, c.lines...)
		}
	})
}

// as signs the calls of a client.
type as struct {
	t    *testing.T
	sign func(h http.Header, path string) error
}

func (b *bench) clientAs(t *testing.T, h2 bool, may permission.Here, opts ...connect.ClientOption) workerClient {
	signer := newSigner(t)
	return b.client(h2, append(slices.Clone(opts), connect.WithInterceptors(as{t, func(h http.Header, path string) error {
		id := signed(nsA)
		id.Grants = may
		return signer.Sign(h, id, path)
	}}))...)
}

func (a as) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		if err := a.sign(r.Header(), r.Spec().Procedure); err != nil {
			return nil, err
		}
		return next(ctx, r)
	}
}

func (a as) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		if err := a.sign(conn.RequestHeader(), spec.Procedure); err != nil {
			a.t.Error(err)
		}
		return conn
	}
}

func (a as) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

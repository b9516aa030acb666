package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const streamPath = corvov1connect.WorkerServiceStreamLifecycleProcedure

// pair is a leader and a follower that knows it.
func pair(t *testing.T) (leader, follower *bench) {
	t.Helper()
	leader = newCellBench(t, benchOptions{})
	follower = newCellBench(t, benchOptions{router: newRouter(Placement{LeaderURL: leader.url})})
	return leader, follower
}

func TestCarry_UnaryCallsReachTheLeaderAsTheirCaller(t *testing.T) {
	t.Parallel()
	leader, follower := pair(t)
	for _, step := range []struct {
		method, path, body string
		ns                 int
		status             int
	}{
		{"POST", "/api/v1/enqueue", `{"queue":"q","payload":{"a":1}}`, 0, 201},
		{"GET", "/api/v1/jobs/{id}", "", 0, 200},
		{"GET", "/api/v1/jobs/{id}", "", 1, 404},
		{"POST", "/api/v1/fetch", `{"queues":["q"],"wait":0}`, 0, 200},
		{"POST", "/api/v1/ack/{id}", ``, 0, 200},
		{"POST", "/api/v1/enqueue", `{`, 0, 400},
	} {
		id := signed(nsA, "admin")
		if step.ns == 1 {
			id = signed(nsB, "admin")
		}
		if _, id, ok := strings.Cut(step.path, "{id}"); ok && id == "" {
			step.path = strings.TrimSuffix(step.path, "{id}") + leader.jobs.nth(1)
		}
		a := follower.do(step.method, step.path, step.body, headersFor(t, id, step.path)...).want(t, step.status)
		if a.header.Get(headerForwarded) != "1" || a.header.Get("X-Corvo-Index") != "7" {
			t.Errorf("%s %s: headers %v", step.method, step.path, a.header)
		}
	}
	if n := len(leader.jobs.ids()); n != 1 {
		t.Errorf("the leader has %d jobs", n)
	}
}

func TestCarry_EveryDialectReachesTheLeader(t *testing.T) {
	t.Parallel()
	_, follower := pair(t)
	for _, d := range dialects {
		c := follower.client(d.http2, append(d.options, connect.WithInterceptors(signing(t)))...)
		resp, err := c.Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q"}))
		if err != nil || resp.Msg.GetJobId() == "" {
			t.Errorf("%s: %v", d.name, err)
		}
		_, err = c.Ack(t.Context(), connect.NewRequest(&corvov1.AckRequest{JobId: "x"}))
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("%s: refusal %v", d.name, err)
		}
	}
}

// signing signs unary calls as the proxy would.
func signing(t *testing.T) connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if err := newSigner(t).Sign(req.Header(), signed(nsA, "admin"), req.Spec().Procedure); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}
	})
}

// Two nodes that take each other for the leader do not forward a call in circles, and the
// client does not see the loop.
func TestCarry_HappensOnceATime(t *testing.T) {
	t.Parallel()
	short := Options{LeaderWait: 30 * time.Millisecond}
	a := newCellBench(t, benchOptions{Options: short})
	b := newCellBench(t, benchOptions{Options: short, router: newRouter(Placement{LeaderURL: a.url})})
	a.router.set(Placement{LeaderURL: b.url})
	const path = "/api/v1/queues"
	proxied := signed(nsA, "admin")
	proxied.ProxyStream = true
	answer := a.do("GET", path, "", headersFor(t, proxied, path)...).want(t, 503)
	if p := answer.problem(t); p.Code != "LEADER_UNAVAILABLE" || answer.header.Get(identity.HeaderOutcome) != identity.OutcomeNone {
		t.Errorf("%+v %v", p, answer.header)
	}
	carried := append(headersFor(t, signed(nsA, "admin"), path), headerForwarded, "1")
	if p := a.do("GET", path, "", carried...).want(t, 503).problem(t); p.Code != "FORWARD_LOOP" {
		t.Errorf("a call that was carried is carried again: %+v", p)
	}
}

// A follower that still believes in a dead leader, or in a node that does not lead, holds
// the call until it learns of the leader.
func TestCarry_FollowsTheLeaderWhileLeadershipMoves(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/enqueue"
	for name, before := range map[string]func(t *testing.T) *bench{
		"dead": func(t *testing.T) *bench {
			b := newCellBench(t, benchOptions{})
			_ = b.http.Close()
			return b
		},
		"deposed": func(t *testing.T) *bench {
			return newCellBench(t, benchOptions{router: newRouter(Placement{LeaderURL: "http://127.0.0.1:1"})})
		},
	} {
		for _, here := range []bool{true, false} {
			old, next := before(t), newCellBench(t, benchOptions{})
			follower := newCellBench(t, benchOptions{router: newRouter(Placement{LeaderURL: old.url})})
			got := make(chan answerOf, 1)
			go func() {
				got <- follower.post(path, `{"queue":"q"}`, headersFor(t, signed(nsA, "admin"), path)...)
			}()
			eventually.True(t, patience, "the follower has asked for the leader", func() bool { return follower.router.asked() > 1 })
			if here {
				follower.router.set(Placement{Local: startLocal(t).Service})
			} else {
				follower.router.set(Placement{LeaderURL: next.url})
			}
			eventually.Returns(t, 5*time.Second, name, func() { (<-got).want(t, 201) })
		}
	}
}

// A fetch may be sent twice; the lost leader may have done it once.
func TestCarry_RepeatsWhatDoesNoHarmTwice(t *testing.T) {
	t.Parallel()
	leader, follower := pair(t)
	next := newCellBench(t, benchOptions{})
	const path = "/api/v1/fetch"
	got := make(chan answerOf, 1)
	go func() {
		got <- follower.post(path, `{"queues":["q"],"wait":20}`, headersFor(t, signed(nsA, "admin"), path)...)
	}()
	eventually.True(t, patience, "the fetch waits at the leader", func() bool { return leader.jobs.parked() == 1 })
	_ = leader.http.Close()
	follower.router.set(Placement{LeaderURL: next.url})
	eventually.True(t, patience, "the fetch waits at the next leader", func() bool { return next.jobs.parked() == 1 })
	next.post("/api/v1/enqueue", `{"queue":"q"}`, headersFor(t, signed(nsA, "admin"), "/api/v1/enqueue")...).want(t, 201)
	eventually.Returns(t, 5*time.Second, "the answer", func() { (<-got).want(t, 200) })
}

func TestCarry_LoopGuardOfAClientMeansNothing(t *testing.T) {
	t.Parallel()
	leader := newBench(t, benchOptions{auth: NewSigned(newSigner(t), time.Now, inCell, nil, quiet())})
	// A server that checks keys itself: what a client puts in front is not believed.
	follower := newBench(t, benchOptions{
		Options: Options{Signer: newSigner(t)}, auth: NewOpen(nsA), router: newRouter(Placement{LeaderURL: leader.url}),
	})
	follower.do("GET", "/api/v1/queues", "", headerForwarded, "1", "X-Corvo-Grants", everything).want(t, 200)
}

func TestCarry_DeadLeader(t *testing.T) {
	t.Parallel()
	leader, follower := pair(t)
	_ = leader.http.Close()
	const path = "/api/v1/enqueue"
	p := follower.post(path, `{"queue":"q"}`, headersFor(t, signed(nsA, "admin"), path)...).want(t, 503).problem(t)
	if p.Code != "LEADER_UNAVAILABLE" {
		t.Errorf("a leader that is not there did nothing for sure: %+v", p)
	}
}

func TestCarry_LeaderLostDuringACallIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	leader, follower := pair(t)
	const path = "/api/v1/fetch"
	got := make(chan answerOf, 1)
	go func() {
		got <- follower.post(path, `{"queues":["q"],"wait":20}`, headersFor(t, signed(nsA, "admin"), path)...)
	}()
	eventually.True(t, patience, "the fetch waits at the leader", func() bool { return leader.jobs.parked() == 1 })
	_ = leader.http.Close()
	eventually.Returns(t, 5*time.Second, "the answer", func() {
		a := <-got
		if a.status != 503 || a.problem(t).Code != "UNKNOWN_OUTCOME" {
			t.Errorf("answer %d %s", a.status, a.body)
		}
	})
}

func TestCarry_NoLeaderIsHeldThenRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{Options: Options{LeaderWait: 30 * time.Millisecond}, router: newRouter(Placement{})})
	p := b.do("GET", "/api/v1/queues", "").want(t, 503)
	if p.problem(t).Code != "LEADER_UNAVAILABLE" || p.header.Get("Retry-After") == "" {
		t.Errorf("%s", p.body)
	}
	b = newBench(t, benchOptions{router: newRouter(Placement{})})
	got := make(chan answerOf, 1)
	go func() { got <- b.do("GET", "/api/v1/queues", "") }()
	b.router.set(Placement{Local: startLocal(t).Service})
	eventually.Returns(t, 5*time.Second, "the held call", func() { (<-got).want(t, 200) })
}

// openSigned opens a stream at b as a proxy would.
func openSigned(t *testing.T, b *bench, proxyStream bool, opts ...connect.ClientOption) *talk {
	t.Helper()
	id := signed(nsA, "admin")
	id.ProxyStream = proxyStream
	s := b.client(true, opts...).StreamLifecycle(t.Context())
	if err := newSigner(t).Sign(s.RequestHeader(), id, streamPath); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.CloseRequest(); _ = s.CloseResponse() })
	return &talk{TB: t, s: s}
}

func TestCarry_StreamOfAProxyReachesTheLeader(t *testing.T) {
	t.Parallel()
	for name, opts := range streamDialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leader, follower := pair(t)
			k := openSigned(t, follower, true, opts...)
			if out := k.ask(&frameIn{RequestId: 1, Enqueues: enqueues("q")}); len(out.GetEnqueuedJobIds()) != 1 {
				t.Fatalf("frame: %v", out)
			}
			// The leader gives up its lead: the client is told the tenant's URL, never
			// the address of a node.
			leader.router.set(Placement{LeaderURL: follower.url})
			out := k.ask(&frameIn{RequestId: 2, Acks: acks("x")})
			if out.GetError() != "NOT_LEADER" || out.GetLeaderAddr() != "https://acme.example" {
				t.Errorf("frame: %v", out)
			}
			k.ended()
		})
	}
}

func TestCarry_StreamWithoutAProxysWordIsToldNotLeader(t *testing.T) {
	t.Parallel()
	_, follower := pair(t)
	k := openSigned(t, follower, false)
	k.send(&frameIn{RequestId: 1})
	if out := k.receive(); out.GetError() != "NOT_LEADER" || out.GetLeaderAddr() != "https://acme.example" {
		t.Errorf("told %v", out)
	}
	k.ended()
}

func TestCarry_StreamToADeadLeaderIsToldNotLeader(t *testing.T) {
	t.Parallel()
	for name, opts := range streamDialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leader, follower := pair(t)
			_ = leader.http.Close()
			k := openSigned(t, follower, true, opts...)
			k.send(&frameIn{RequestId: 1, Acks: acks("x")})
			if out := k.receive(); out.GetError() != "NOT_LEADER" || out.GetLeaderAddr() != "https://acme.example" {
				t.Errorf("told %v", out)
			}
			k.ended()
		})
	}
}

func TestCarry_StreamIsToldWhenTheLeaderDies(t *testing.T) {
	t.Parallel()
	leader, follower := pair(t)
	k := openSigned(t, follower, true)
	k.ask(&frameIn{RequestId: 1, Pipelined: true, Enqueues: enqueues("q")})
	_ = leader.http.Close()
	eventually.Returns(t, 2*time.Second, "the end of the stream", func() {
		if out, err := k.s.Receive(); err == nil {
			t.Errorf("received %v from a dead leader", out)
		}
	})
}

func TestCarry_SingleFramePostReachesTheLeader(t *testing.T) {
	t.Parallel()
	_, follower := pair(t)
	headers := append(headersFor(t, signed(nsA, "admin"), streamPath), "Content-Type", "application/json")
	a := follower.post(streamPath, `{"requestId":"1","enqueues":[{"queue":"q"}]}`, headers...).want(t, 200)
	if !strings.Contains(string(a.body), "enqueuedJobIds") {
		t.Errorf("answer %s", a.body)
	}
}

// The credentials of a client end at the first node.
func TestCarry_CredentialsAreNotCarried(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	spy := newBench(t, benchOptions{})
	spy.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		_, _ = io.WriteString(w, "{}")
	})
	b := newBench(t, benchOptions{Options: Options{Signer: newSigner(t)}, router: newRouter(Placement{LeaderURL: spy.url})})
	b.do("GET", "/api/v1/queues", "", "Authorization", "Bearer secret", "X-API-Key", "secret", "Cookie", "a=secret",
		"X-Corvo-Grants", everything, "X-Corvo-Index", "3", "Connection", "X-Corvo-Signature").want(t, 200)
	h := <-seen
	for name, vs := range h {
		if strings.Contains(strings.Join(vs, " "), "secret") {
			t.Errorf("%s was carried on", name)
		}
	}
	id, err := newSigner(t).Verify(h, "/api/v1/queues", time.Now())
	if err != nil || id.Grants.All != permission.OfLevel(permission.OfNamespace) || h.Get("X-Corvo-Index") != "3" {
		t.Errorf("identity %+v, %v, headers %v", id, err, h)
	}
}

func TestCarry_CallGoesAfterALeaderThatMoved(t *testing.T) {
	t.Parallel()
	leader, former := pair(t)
	former.router.set(Placement{Local: lostLead(t)})
	former.router.then(Placement{LeaderURL: leader.url})
	const path = "/api/v1/enqueue"
	eventually.Returns(t, 5*time.Second, "the call", func() {
		former.post(path, `{"queue":"q"}`, headersFor(t, signed(nsA, "admin"), path)...).want(t, 201)
	})
}

func TestCarry_DrainOfTheNodeBetweenEndsTheStreamInGoodOrder(t *testing.T) {
	t.Parallel()
	for _, pipelined := range []bool{false, true} {
		leader, follower := pair(t)
		k := openSigned(t, follower, true)
		k.ask(&frameIn{RequestId: 1, Pipelined: pipelined, Enqueues: enqueues("q")})
		if pipelined {
			k.send(&frameIn{RequestId: 2, Queues: []string{"none"}, FetchCount: 1})
			eventually.True(t, patience, "the fetch is parked", func() bool { return leader.jobs.parked() == 1 })
		}
		follower.drains()
		if pipelined {
			if out := k.receive(); out.GetRequestId() != 2 || len(out.GetJobs()) != 0 {
				t.Errorf("parked fetch: %v", out)
			}
		}
		if out := k.receive(); out.GetError() != "NOT_LEADER" || out.GetLeaderAddr() != "https://acme.example" {
			t.Errorf("pipelined %v: told %v", pipelined, out)
		}
		k.ended()
	}
}

func TestCarry_LongPollLeavesANodeThatDrains(t *testing.T) {
	t.Parallel()
	leader, follower := pair(t)
	const path = "/api/v1/fetch"
	got := make(chan answerOf, 1)
	go func() {
		got <- follower.post(path, `{"queues":["q"],"timeout":30}`, headersFor(t, signed(nsA, "admin"), path)...)
	}()
	eventually.True(t, patience, "the fetch waits at the leader", func() bool { return leader.jobs.parked() == 1 })
	if err := follower.srv.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually.Returns(t, 5*time.Second, "the long poll", func() { (<-got).want(t, 503) })
	eventually.True(t, patience, "the leader forgets the fetch", func() bool { return leader.jobs.parked() == 0 })
}

// A node whose disk stalls does not learn who leads now. Held there, a call would wait
// for the disk while a proxy could give it to another node.
func TestCarry_ANodeThatCannotKnowTheLeaderHoldsNoCall(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{router: newRouter(Placement{Silent: true}), Options: Options{Signer: newSigner(t), LeaderWait: time.Minute}})
	eventually.Returns(t, 5*time.Second, "the answer", func() {
		b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 503)
	})
}

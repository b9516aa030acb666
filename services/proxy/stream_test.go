package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

type lifecycle = connect.BidiStreamForClient[corvov1.LifecycleStreamRequest, corvov1.LifecycleStreamResponse]

// open starts a worker stream and waits for its first reply.
func open(t *testing.T, r *rig, opts ...connect.ClientOption) *lifecycle {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := r.worker(r.acme.key, opts...).StreamLifecycle(ctx)
	say(t, s, 1)
	return s
}

func say(t *testing.T, s *lifecycle, id uint64) {
	t.Helper()
	if err := s.Send(&corvov1.LifecycleStreamRequest{RequestId: id}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Receive()
	if err != nil {
		t.Fatal(err)
	}
	if got.GetRequestId() != id || got.GetLeaderAddr() != "acme" {
		t.Fatalf("got %v", got)
	}
}

// ends waits for the stream to end and returns how.
func ends(t *testing.T, s *lifecycle, limit time.Duration) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { _, err := s.Receive(); done <- err }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		t.Fatalf("the stream did not end in %v", limit)
		return nil
	}
}

var dialects = map[string][]connect.ClientOption{
	"connect": nil, "connect json": {connect.WithProtoJSON()}, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()},
}

func TestStream_EchoesInEveryDialect(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	for name, opts := range dialects {
		t.Run(name, func(t *testing.T) {
			s := open(t, r, opts...)
			for id := uint64(2); id < 50; id++ {
				say(t, s, id)
			}
			if err := s.CloseRequest(); err != nil {
				t.Fatal(err)
			}
			if err := ends(t, s, 5*time.Second); !errors.Is(err, io.EOF) {
				t.Fatalf("got %v", err)
			}
			if s.ResponseTrailer().Get("Test-Trailer") != "end" {
				t.Errorf("trailers %v", s.ResponseTrailer())
			}
			info, err := r.worker(r.acme.key, opts...).GetServerInfo(context.Background(), connect.NewRequest(&corvov1.GetServerInfoRequest{}))
			if err != nil || info.Msg.GetServerVersion() != "default" {
				t.Errorf("unary: %v %v", info, err)
			}
		})
	}
}

func TestStream_NodeThatEndsFirstDoesNotHang(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	for name, opts := range dialects {
		t.Run(name, func(t *testing.T) {
			s := open(t, r, opts...)
			if err := s.Send(&corvov1.LifecycleStreamRequest{RequestId: 99}); err != nil {
				t.Fatal(err)
			}
			// The client's side stays open.
			if err := ends(t, s, time.Second); !errors.Is(err, io.EOF) {
				t.Fatalf("got %v", err)
			}
			if s.ResponseTrailer().Get("Test-Trailer") != "end" {
				t.Errorf("trailers %v", s.ResponseTrailer())
			}
		})
	}
}

// As GET /api/v1/info does: clients call it before they have a key. A bad key is
// refused.
func TestServerInfo_NeedsNoKey(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	ask := func(opts ...connect.ClientOption) error {
		client := corvov1connect.NewWorkerServiceClient(newClient(t, true), r.base, opts...)
		_, err := client.GetServerInfo(context.Background(), connect.NewRequest(&corvov1.GetServerInfoRequest{}))
		return err
	}
	for name, opts := range dialects {
		if err := ask(opts...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ask(connect.WithProtoJSON()); err != nil {
		t.Errorf("JSON: %v", err)
	}
	client := corvov1connect.NewWorkerServiceClient(newClient(t, true), r.base)
	if _, err := client.Fetch(context.Background(), connect.NewRequest(&corvov1.FetchRequest{})); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("another call without a key: %v", err)
	}
}

func TestRefusal_SpeaksTheCallersDialect(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	for name, opts := range dialects {
		t.Run(name, func(t *testing.T) {
			bad := r.worker(withID(t, r.beta.key, r.acme.key), opts...)
			_, err := bad.GetServerInfo(context.Background(), connect.NewRequest(&corvov1.GetServerInfoRequest{}))
			var ce *connect.Error
			if !errors.As(err, &ce) || ce.Code() != connect.CodeUnauthenticated || ce.Meta().Get(metaCode) != "UNAUTHORIZED" {
				t.Errorf("unary: %v", err)
			}
			s := bad.StreamLifecycle(context.Background())
			_ = s.Send(&corvov1.LifecycleStreamRequest{RequestId: 1}) // The answer tells.
			if _, err := s.Receive(); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("stream: %v", err)
			}
		})
	}
	if n := r.up[0].served.Load(); n != 0 {
		t.Errorf("%d calls reached the node", n)
	}
}

func TestRevocation_ClosesOpenStreamsWithinASecond(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	var streams []*lifecycle
	for range 5 {
		for _, opts := range dialects {
			streams = append(streams, open(t, r, opts...))
		}
	}
	long, end := r.block(t, r.acme.key)
	defer end()
	k := proto.CloneOf(r.acme.record)
	k.Revoked = true
	start := time.Now()
	r.state.apply(keyChange(k))
	for _, s := range streams {
		endsUnauthenticated(t, s, "the API key was revoked, or what it may do was changed; connect again")
	}
	if a := <-long; a.status != 401 {
		t.Errorf("long poll: %d", a.status)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	if got := r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(r.acme.key)); got.status != 401 {
		t.Errorf("after: %d", got.status)
	}
	eventually.True(t, patience, "the node's streams end", func() bool { return r.up[0].streams.Load()+r.up[1].streams.Load() == 0 })
}

func TestExpiry_ClosesOpenStreams(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	k := proto.CloneOf(r.acme.record)
	k.NotAfterNs = time.Now().Add(300 * time.Millisecond).UnixNano()
	r.apply(keyChange(k))
	endsUnauthenticated(t, open(t, r), "the API key has expired")
}

// endsUnauthenticated: a stream that the proxy ended says why, in the caller's dialect.
func endsUnauthenticated(t *testing.T, s *lifecycle, why string) {
	t.Helper()
	err := ends(t, s, 2*time.Second)
	var said *connect.Error
	if !errors.As(err, &said) || !connect.IsWireError(err) || said.Code() != connect.CodeUnauthenticated || said.Message() != why || said.Meta().Get("Corvo-Error-Code") != "UNAUTHORIZED" {
		t.Fatalf("ended with %v, %v", err, said.Meta())
	}
}

// A message that was sent in part can't be followed by a reason.
func TestEnvelope_TellsWhereAMessageEnds(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]byte{"whole": nil, "empty": {}, "long": make([]byte, 70_000)} {
		stream := append(enveloped(0, sent), enveloped(2, []byte("{}"))...)
		for _, step := range []int{1, 3, 5, 7, len(stream)} {
			var e envelope
			for at := 0; at < len(stream); at += step {
				upTo := min(at+step, len(stream))
				e.wrote(stream[at:upTo])
				want := upTo == len(stream) || upTo == len(sent)+5
				if e.between() != want {
					t.Errorf("%s in steps of %d: after %d bytes between is %v", name, step, upTo, !want)
				}
			}
		}
	}
}

// block starts a request that the node does not answer until end is called.
func (r *rig) block(t *testing.T, key interface{ Reveal() string }) (got chan answer, end func()) {
	t.Helper()
	entered, release := make(chan struct{}, 8), make(chan struct{})
	for _, u := range r.up {
		u.does(func(_ http.ResponseWriter, req *http.Request) {
			entered <- struct{}{}
			select {
			case <-release:
			case <-req.Context().Done():
			}
		})
	}
	got = make(chan answer, 1)
	go func() {
		defer close(got) // Also when the request failed: the test fails then, and does not hang.
		got <- r.ask(r.h2c, "POST", "/api/v1/fetch", "{}", func(req *http.Request) { req.Header.Set("X-API-Key", key.Reveal()) })
	}()
	<-entered
	for _, u := range r.up {
		u.does(nil)
	}
	return got, sync.OnceFunc(func() { close(release) })
}

func TestNodeDeath_EveryStreamIsToldWithinASecond(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	var streams []*lifecycle
	for i := range 50 {
		streams = append(streams, open(t, r, dialects[[]string{"connect", "grpc"}[i%2]]...))
	}
	serving := r.up[0]
	if serving.streams.Load() == 0 {
		serving = r.up[1]
	}
	if serving.streams.Load() != 50 {
		t.Fatalf("streams spread: %d and %d", r.up[0].streams.Load(), r.up[1].streams.Load())
	}
	start := time.Now()
	serving.kill()
	for _, s := range streams {
		if err := ends(t, s, time.Second); err == nil || errors.Is(err, io.EOF) {
			t.Fatalf("ended with %v", err)
		}
	}
	t.Logf("all told in %v", time.Since(start))
	eventually.True(t, patience, "no call is left", func() bool {
		r.proxy.calls.mu.Lock()
		defer r.proxy.calls.mu.Unlock()
		return len(r.proxy.calls.open) == 0 && len(r.proxy.calls.streams) == 0
	})
	open(t, r) // On the other node, without waiting for a poll.
	if got := r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(r.acme.key)); got.status != 200 {
		t.Errorf("unary after: %d %s", got.status, got.body)
	}
}

func TestNodeDeath_BlackHoleIsFoundByPings(t *testing.T) {
	t.Parallel()
	state := newCellState()
	up := startUpstream(t, "n1", state)
	hole := startRelay(t, strings.TrimPrefix(up.url, "http://"))
	r := &rig{t: t, state: state}
	a, changes := newTenant(t, "acme", 0)
	r.acme = a
	state.apply(changes...)
	r.serve(Options{Domain: testDomain, CellSecrets: cellsecret.Must(testSecret), Nodes: []string{"http://" + hole.addr}})
	eventually.True(t, patience, "ready", func() bool { return r.proxy.Ready() })
	var streams []*lifecycle
	for range 10 {
		streams = append(streams, open(t, r))
	}
	hole.swallow()
	start := time.Now()
	for _, s := range streams {
		if err := ends(t, s, 8*time.Second); err == nil || errors.Is(err, io.EOF) {
			t.Fatalf("ended with %v", err)
		}
	}
	t.Logf("all told in %v", time.Since(start))
}

// A leader that is paused or cut off is left as soon as another one is known: pings would take
// five seconds.
func TestNodeDeath_ABlackHoleIsLeftOnceAnotherNodeLeads(t *testing.T) {
	t.Parallel()
	state := newCellState()
	old, next := startUpstream(t, "n1", state), startUpstream(t, "n2", state)
	old.leads.Store(true)
	next.term.Store(1)
	hole := startRelay(t, strings.TrimPrefix(old.url, "http://"))
	r := &rig{t: t, state: state, up: []*upstream{old, next}}
	a, changes := newTenant(t, "acme", 0)
	r.acme = a
	state.apply(changes...)
	r.serve(Options{Domain: testDomain, CellSecrets: cellsecret.Must(testSecret), Nodes: []string{"http://" + hole.addr, next.url}})
	eventually.True(t, patience, "the leader is known", func() bool { return r.proxy.Ready() && r.proxy.nodes.leader(2).node != nil })
	stream := open(t, r)
	entered := make(chan struct{})
	old.does(func(_ http.ResponseWriter, req *http.Request) { close(entered); <-req.Context().Done() })
	got := make(chan answer, 1)
	go func() {
		defer close(got)
		got <- r.ask(r.h2c, "GET", "/api/v1/queues", "", withKey(r.acme.key))
	}()
	<-entered
	hole.swallow()
	old.leads.Store(false)
	next.leads.Store(true)
	start := time.Now()
	if err := ends(t, stream, 4*time.Second); err == nil || errors.Is(err, io.EOF) {
		t.Fatalf("the stream ended with %v", err)
	}
	if answer := <-got; answer.status != 200 || answer.seen.Node != "n2" {
		t.Errorf("the read was answered %d by %q: %s", answer.status, answer.seen.Node, answer.body)
	}
	t.Logf("left after %v", time.Since(start))
}

func TestUnary_DeadNodeIsNotNoticedByTheCaller(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 3})
	first := r.ask(r.http1, "POST", "/api/v1/enqueue", "x", withKey(r.acme.key)).seen.Node
	for _, u := range r.up {
		if u.id == first {
			u.kill()
		}
	}
	for i := range 50 {
		got := r.ask(r.http1, "POST", "/api/v1/enqueue", "the body again", withKey(r.acme.key))
		switch {
		case got.status == 200 && got.seen.Body == "the body again" && got.seen.Node != first:
		case i == 0 && got.status == 503 && strings.Contains(got.body, "UNKNOWN_OUTCOME"):
			// The connection died under the request: only its sender may repeat it.
		default:
			t.Fatalf("%d: %d %s", i, got.status, got.body)
		}
	}
}

func TestUnary_AllNodesDeadIsRetryable(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	for _, u := range r.up {
		u.kill()
	}
	eventually.True(t, patience, "the proxy noticed", func() bool { return !r.proxy.Ready() })
	got := r.ask(r.http1, "POST", "/api/v1/enqueue", "x", withKey(r.acme.key))
	if got.status != 503 || !strings.Contains(got.body, "LEADER_UNAVAILABLE") || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
	_, err := r.worker(r.acme.key).GetServerInfo(context.Background(), connect.NewRequest(&corvov1.GetServerInfoRequest{}))
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("RPC: %v", err)
	}
	s := r.worker(r.acme.key, connect.WithGRPC()).StreamLifecycle(context.Background())
	_ = s.Send(&corvov1.LifecycleStreamRequest{RequestId: 1}) // The answer tells.
	if _, err := s.Receive(); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("stream: %v", err)
	}
}

func TestUnary_AnswerCutShortIsNeverTakenForWhole(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	r.up[0].faults.Decide(func(string, int) faulttest.Fate { return faulttest.Fate{Half: true} })
	for _, client := range []*http.Client{r.http1, r.h2c} {
		resp := r.open(client, "/api/v1/queues")
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("a cut answer ended well")
		}
		resp.Body.Close()
	}
}

func TestLeader_IsPreferredWhileItLives(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 3})
	ask := func() answer { return r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(r.acme.key)) }
	first := ask().seen.Node
	for _, u := range r.up { // Leadership moves to each other node in turn.
		if u.id == first {
			continue
		}
		for _, other := range r.up {
			other.leads.Store(other == u)
		}
		eventually.True(t, patience, "the leader is taken", func() bool { return ask().seen.Node == u.id })
		for range 5 {
			if got := ask().seen.Node; got != u.id {
				t.Fatalf("went to %s, the leader is %s", got, u.id)
			}
		}
	}
	for _, u := range r.up {
		if u.leads.Load() {
			u.kill()
		}
	}
	for i := range 20 {
		if got := ask(); got.status != 200 { // A read is offered to the next node.
			t.Fatalf("%d: %d %s", i, got.status, got.body)
		}
	}
}

func TestNotReadyNodes_AreTriedBeforeDeadOnes(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 3})
	for _, u := range r.up {
		u.ready.Store(false) // As while a shard has no leader.
	}
	r.up[0].kill()
	eventually.True(t, patience, "the polls tell", func() bool {
		for _, n := range *r.proxy.nodes.list.Load() {
			if n.ready.Load() || n.answers.Load() == (n.id == "n1") {
				return false
			}
		}
		return true
	})
	for range 5 {
		for _, n := range r.proxy.nodes.candidates(2, r.acme.namespace("other").GetId())[:2] {
			if n.id == "n1" {
				t.Fatal("a dead node came before one that answers")
			}
		}
		if got := r.ask(r.http1, "POST", "/api/v1/enqueue", "x", withKey(r.acme.key)); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
}

func TestLimits_StreamsOfATenant(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	limited, changes := newTenant(t, "small", 2)
	changes[0].GetTenant().Limits.StreamsMax = 2
	r.apply(changes...)
	r.acme = limited
	worker := func() error {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		s := r.worker(limited.key).StreamLifecycle(ctx)
		_ = s.Send(&corvov1.LifecycleStreamRequest{RequestId: 1}) // The answer tells.
		_, err := s.Receive()
		return err
	}
	for range 2 {
		if err := worker(); err != nil {
			t.Fatal(err)
		}
	}
	err := worker()
	var ce *connect.Error
	if !errors.As(err, &ce) || ce.Code() != connect.CodeResourceExhausted || !strings.Contains(ce.Message(), "retry_after_ms=1000") || len(ce.Details()) != 1 {
		t.Fatalf("third stream: %v", err)
	}
	if d, err := ce.Details()[0].Value(); err != nil || !proto.Equal(d, &corvov1.Limit{Name: "streams_max", Value: 2, Current: 2}) {
		t.Errorf("refused for %v, %v", d, err)
	}
	if got := r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(limited.key)); got.status != 200 {
		t.Errorf("unary: %d", got.status)
	}
	s := r.worker(r.beta.key).StreamLifecycle(t.Context())
	if err := s.Send(&corvov1.LifecycleStreamRequest{RequestId: 1}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Receive(); err != nil || got.GetLeaderAddr() != "beta" {
		t.Errorf("another tenant: %v %v", got, err)
	}
}

// A parked fetch costs what a stream does, and counts as one.
func TestLimits_WaitingFetchesOfATenant(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	limited, changes := newTenant(t, "small", 2)
	changes[0].GetTenant().Limits.StreamsMax = 2
	r.apply(changes...)
	parked, leave := make(chan struct{}, 3), make(chan struct{})
	r.up[0].does(func(w http.ResponseWriter, _ *http.Request) { parked <- struct{}{}; <-leave; w.WriteHeader(204) })
	got := make(chan int, 2)
	for range 2 {
		go func() {
			got <- r.ask(r.http1, "POST", "/api/v1/fetch", `{"queues":["q"]}`, withKey(limited.key)).status
		}()
		<-parked
	}
	for _, path := range []string{"/api/v1/fetch", "/api/v1/fetch/batch"} {
		a := r.ask(r.http1, "POST", path, `{"queues":["q"]}`, withKey(limited.key))
		if a.status != 429 || !strings.Contains(a.body, "2 open streams and waiting fetches") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	close(leave)
	if one, two := <-got, <-got; one != 204 || two != 204 {
		t.Errorf("the parked fetches: %d %d", one, two)
	}
	if a := r.ask(r.http1, "POST", "/api/v1/fetch", `{}`, withKey(limited.key)); a.status != 204 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// A subscription is asked once and answered without end: it counts as a stream, goes
// to another node if one is dead, and ends with the key and with the proxy.
func TestSubscribe_IsAStreamOfItsTenant(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	limited, changes := newTenant(t, "small", 2)
	changes[0].GetTenant().Limits.StreamsMax = 2
	r.apply(changes...)
	subscribe := func(key apikey.Key, opts ...connect.ClientOption) (*connect.ServerStreamForClient[corvov1.SubscribeEvent], error) {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		s, err := r.worker(key, opts...).Subscribe(ctx, connect.NewRequest(&corvov1.SubscribeRequest{LastEventId: 6}))
		if err == nil && !s.Receive() {
			err = s.Err()
		}
		return s, err
	}
	var open []*connect.ServerStreamForClient[corvov1.SubscribeEvent]
	for _, opts := range [][]connect.ClientOption{nil, {connect.WithGRPC()}} {
		s, err := subscribe(limited.key, opts...)
		if err != nil || s.Msg().GetSeq() != 7 || s.Msg().GetQueue() != "small" {
			t.Fatalf("%v, %v", s.Msg(), err)
		}
		open = append(open, s)
	}
	if _, err := subscribe(limited.key); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("the third: %v", err)
	}
	k := proto.CloneOf(limited.record)
	k.Revoked = true
	r.state.apply(keyChange(k))
	for _, s := range open {
		if s.Receive() || s.Err() == nil {
			t.Errorf("after the key was revoked: %v, %v", s.Msg(), s.Err())
		}
	}
	last, err := subscribe(r.acme.key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.proxy.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if last.Receive() || last.Err() == nil {
		t.Errorf("after the proxy: %v, %v", last.Msg(), last.Err())
	}
	eventually.True(t, patience, "the nodes' streams end", func() bool { return r.up[0].streams.Load()+r.up[1].streams.Load() == 0 })
}

func TestLimits_Bodies(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{options: func(o *Options) { o.Limits = Limits{BodyBytesMax: 100_000, BufferBytesMax: 300_000} }})
	post := func(body io.Reader) answer {
		req, err := http.NewRequest("POST", r.base+"/api/v1/enqueue", body)
		if err != nil {
			t.Fatal(err)
		}
		withKey(r.acme.key)(req)
		resp, err := r.h2c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return readAnswer(t, resp)
	}
	unsized := func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }
	for _, size := range []int{0, 1, 511, 512, 513, 65535, 65536, 65537, 99_999, 100_000} {
		text := strings.Repeat("x", size)
		for _, body := range []io.Reader{strings.NewReader(text), unsized(text)} {
			if got := post(body); got.status != 200 || got.seen.Body != text {
				t.Fatalf("%d bytes: %d, %d arrived", size, got.status, len(got.seen.Body))
			}
		}
	}
	for _, body := range []io.Reader{strings.NewReader(strings.Repeat("x", 100_001)), unsized(strings.Repeat("x", 100_001))} {
		if got := post(body); got.status != 413 || !strings.Contains(got.body, "the body is larger than 100000 bytes") {
			t.Errorf("too large: %d %s", got.status, got.body)
		}
	}
	if n := r.proxy.buffered.Used(); n != 0 {
		t.Errorf("still counted: %d bytes", n)
	}
	for tenant, want := range map[string]int{"another": 200, r.acme.id: 429} {
		if !r.proxy.buffered.Take(tenant, 200_000) {
			t.Fatalf("%s alone is refused what nobody uses", tenant)
		}
		if got := post(strings.NewReader("x")); got.status != want {
			t.Errorf("%s holds all there is: %d, want %d", tenant, got.status, want)
		}
		r.proxy.buffered.Give(tenant, 200_000)
	}
}

// TestLimits_CallsAreSharedByWeight: who is alone may have all calls, and another one is
// let in all the same, as far as its share goes.
func TestLimits_CallsAreSharedByWeight(t *testing.T) {
	t.Parallel()
	s := newCalls(func(tenant string) int64 { return map[string]int64{"heavy": 3}[tenant] })
	enter := func(tenant string, lasts bool) (*call, *refusal) {
		c := &call{caller: &caller{tenant: &cellv1.Tenant{Id: tenant}}, waits: lasts}
		return c, s.enter(c, 0)
	}
	for _, lasts := range []bool{false, true} {
		var flood []*call
		for {
			c, ref := enter("flood", lasts)
			if ref != nil {
				if ref.status != 429 || ref.retryAfter <= 0 {
					t.Errorf("lasts %v: the flood is refused with %d, after %s", lasts, ref.status, ref.retryAfter)
				}
				break
			}
			flood = append(flood, c)
		}
		if len(flood) != callsMax {
			t.Errorf("lasts %v: alone, a tenant has %d calls", lasts, len(flood))
		}
		heavy := 0
		for ; ; heavy++ {
			if _, ref := enter("heavy", lasts); ref != nil {
				break
			}
		}
		if heavy != callsMax*3/4 {
			t.Errorf("lasts %v: weight 3 beside weight 1 has %d calls", lasts, heavy)
		}
		s.leave(flood[0])
		if _, ref := enter("flood", lasts); ref == nil {
			t.Errorf("lasts %v: who has more than its share got one more", lasts)
		}
	}
}

// Whoever shows no key and reads nothing of its answers keeps those in memory, so how many
// it may have at a time is bounded; that costs neither holders of keys nor other networks.
func TestLimits_CallsWithoutAKeyAreBoundedByNetwork(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{options: func(o *Options) { o.Proxies, _ = clientnet.ParseProxies([]string{"127.0.0.1"}) }})
	document := strings.Repeat("x", 64<<10)
	r.up[0].does(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, document) })
	stalled := newClient(t, true)
	transport, _ := stalled.Transport.(*http.Transport)
	transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1}
	from := func(network string) func(*http.Request) {
		return func(req *http.Request) { req.Header.Set("X-Forwarded-For", network) }
	}
	var open []*http.Response
	for range keylessMax {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.base+"/openapi.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		from("203.0.113.7")(req)
		resp, err := stalled.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if open = append(open, resp); resp.StatusCode != 200 {
			t.Fatalf("call %d without a key: %d", len(open), resp.StatusCode)
		}
	}
	neighbor := from("203.0.113.8")
	for _, path := range []string{"/openapi.json", "/api/v1/info"} {
		if got := r.ask(r.h2c, "GET", path, "", neighbor); got.status != 429 || !strings.Contains(got.body, `"code":"OVERLOADED"`) || got.header.Get("Retry-After") == "" {
			t.Errorf("%s beyond the bound: %d %v", path, got.status, got.header)
		}
	}
	if got := r.ask(r.h2c, "GET", "/openapi.json", "", from("198.51.100.9")); got.status != 200 || got.body != document {
		t.Errorf("another network: %d", got.status)
	}
	keyed := func(req *http.Request) { neighbor(req); withKey(r.acme.key)(req) }
	if got := r.ask(r.h2c, "GET", "/api/v1/queues", "", keyed); got.status != 200 {
		t.Errorf("with a key: %d", got.status)
	}
	_ = open[0].Body.Close()
	eventually.True(t, patience, "a call that ended makes room", func() bool { return r.ask(r.h2c, "GET", "/openapi.json", "", neighbor).status == 200 })
}

// These routes need no key, so no body is kept for them.
func TestLimits_BodiesOfStrangersAreNotHeld(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	body, hold := io.Pipe()
	defer func() { _ = hold.Close() }()
	req, err := http.NewRequest("POST", r.base+"/api/v1/info", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.h2c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if got := readAnswer(t, resp); got.status != 200 || got.seen.Body != "" {
		t.Errorf("%d, %q arrived", got.status, got.seen.Body)
	}
}

// Measured over client, proxy and node together; not parallel, because the heap
// is everybody's. With Go's default frame size one stream costs a megabyte.
func TestStream_IdleOnesAreCheap(t *testing.T) {
	const streams, bytesMax = 500, 150 << 10
	r := startRig(t, rigOptions{})
	w := r.worker(r.acme.key)
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC() // Pools give up what they hold at the second.
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := inUse()
	for range streams {
		s := w.StreamLifecycle(t.Context())
		say(t, s, 1)
		t.Cleanup(func() { _ = s.CloseRequest(); _ = s.CloseResponse() })
	}
	if each := (inUse() - before) / streams; each > bytesMax {
		t.Errorf("%d KiB for each stream", each>>10)
	} else {
		t.Logf("%d KiB for each stream", each>>10)
	}
}

func TestClient_ThatLeavesEndsTheNodesRequest(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	s := r.worker(r.acme.key).StreamLifecycle(ctx)
	say(t, s, 1)
	cancel()
	// A client with an open body sees its own cancelled context only here.
	_ = s.CloseResponse()
	_ = s.CloseRequest()
	eventually.True(t, patience, "the node's stream ends", func() bool { return r.up[0].streams.Load() == 0 })
}

func TestShutdown_StreamsEndWellAndUnaryCallsFinish(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	streams := []*lifecycle{open(t, r), open(t, r, connect.WithGRPC())}
	long, end := r.block(t, r.acme.key)
	var events = make(chan error, 1)
	r.sayThenWait(":keepalive\n\n")
	resp := r.open(r.http1, "/api/v1/events")
	go func() { _, err := io.ReadAll(resp.Body); resp.Body.Close(); events <- err }()
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		done <- r.proxy.Shutdown(ctx)
	}()
	for _, s := range streams {
		if err := ends(t, s, time.Second); !errors.Is(err, io.EOF) {
			t.Errorf("stream ended with %v", err)
		}
	}
	select {
	case <-events:
	case <-time.After(time.Second):
		t.Error("the event stream did not end")
	}
	end()
	if a := <-long; a.status != 200 {
		t.Errorf("unary: %d %s", a.status, a.body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(r.base, "http://"), time.Second); err == nil {
		t.Error("still accepting")
	}
}

func TestShutdown_OutOfTimeTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	long, end := r.block(t, r.acme.key)
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.proxy.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	// The node may have done it: whoever asked has to know.
	if a := <-long; a.status != 503 || !strings.Contains(a.body, "UNKNOWN_OUTCOME") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestReady_StaysWhileNodesElectALeader(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	r.up[0].ready.Store(false)
	eventually.True(t, patience, "the poll tells", func() bool { return !(*r.proxy.nodes.list.Load())[0].ready.Load() })
	if got := r.ask(r.http1, "GET", "/readyz", "", nil); got.status != 200 {
		t.Errorf("%d", got.status)
	}
	r.up[0].kill()
	eventually.True(t, patience, "a proxy without nodes is not ready", func() bool { return r.ask(r.http1, "GET", "/readyz", "", nil).status == 503 })
}

func TestSignature_FitsTheStrippedPath(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	got := r.ask(r.http1, "POST", "/t/acme/api/v1/ack/job_1", "{}", withKey(r.acme.key))
	if got.status != 200 || got.seen.Path != "/api/v1/ack/job_1" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if life := time.Until(got.seen.Identity.ExpiresAt); life <= 0 || life > identity.LifeMax {
		t.Errorf("good for %v", life)
	}
}

// relay passes bytes until it swallows them, connections staying open.
type relay struct {
	addr  string
	mu    sync.Mutex
	conns []net.Conn
	hole  chan struct{}
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	ln := listen(t)
	s := &relay{addr: ln.Addr().String(), hole: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, in, out)
			s.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				wg.Go(func() { s.pass(pair[0], pair[1]) })
			}
		}
	})
	t.Cleanup(func() {
		ln.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return s
}

func (s *relay) pass(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-s.hole:
			continue
		default:
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (s *relay) swallow() { close(s.hole) }

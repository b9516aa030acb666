package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/streams"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// talk is a client's end of one stream.
type talk struct {
	testing.TB
	s *connect.BidiStreamForClient[frameIn, frameOut]
}

var streamDialects = map[string][]connect.ClientOption{
	"connect": nil,
	"grpc":    {connect.WithGRPC()},
}

func (b *bench) open(ctx context.Context, opts ...connect.ClientOption) *talk {
	b.Helper()
	s := b.client(true, opts...).StreamLifecycle(ctx)
	b.Cleanup(func() { _ = s.CloseRequest(); _ = s.CloseResponse() })
	return &talk{TB: b.T, s: s}
}

func (k *talk) send(req *frameIn) {
	k.Helper()
	if err := k.s.Send(req); err != nil && !errors.Is(err, io.EOF) {
		k.Fatalf("send: %v", err)
	}
}

func (k *talk) receive() *frameOut {
	k.Helper()
	var out *frameOut
	eventually.Returns(k.TB, 10*time.Second, "a reply", func() {
		var err error
		if out, err = k.s.Receive(); err != nil {
			k.Errorf("receive: %v", err)
			out = &frameOut{}
		}
	})
	return out
}

// ended asserts that the server closed the stream without an error.
func (k *talk) ended() {
	k.Helper()
	eventually.Returns(k.TB, 10*time.Second, "the end of the stream", func() {
		if out, err := k.s.Receive(); !errors.Is(err, io.EOF) {
			k.Errorf("stream goes on with %v, %v", out, err)
		}
	})
}

func (k *talk) ask(req *frameIn) *frameOut {
	k.Helper()
	k.send(req)
	out := k.receive()
	if out.GetRequestId() != req.GetRequestId() {
		k.Fatalf("reply to %d carries %d", req.GetRequestId(), out.GetRequestId())
	}
	return out
}

func enqueues(queues ...string) (out []*corvov1.LifecycleEnqueueItem) {
	for _, q := range queues {
		out = append(out, &corvov1.LifecycleEnqueueItem{Queue: q})
	}
	return out
}

func acks(ids ...string) (out []*corvov1.AckBatchItem) {
	for _, id := range ids {
		out = append(out, &corvov1.AckBatchItem{JobId: id})
	}
	return out
}

func TestLockstep_FrameCombinesAcksFetchAndEnqueues(t *testing.T) {
	t.Parallel()
	for name, opts := range streamDialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			k := b.open(t.Context(), opts...)
			one := k.ask(&frameIn{RequestId: 1, Enqueues: enqueues("q", "q")})
			if len(one.GetEnqueuedJobIds()) != 2 || len(one.GetEnqueueResults()) != 2 || one.GetError() != "" {
				t.Fatalf("enqueue frame: %v", one)
			}
			two := k.ask(&frameIn{RequestId: 2, Queues: []string{"q"}, WorkerId: "w", FetchCount: 1, LeaseDuration: 30})
			if len(two.GetJobs()) != 1 || two.GetJobs()[0].GetLeaseToken() == "" || two.GetJobs()[0].GetLeaseDuration() != 30 {
				t.Fatalf("fetch frame: %v", two)
			}
			id := two.GetJobs()[0].GetJobId()
			three := k.ask(&frameIn{
				RequestId: 3, Acks: acks(id, id, "nonsense", jobNumber(99).String()), Queues: []string{"q"}, FetchCount: 5, Enqueues: enqueues("other"),
			})
			// Unknown and stale ones are not counted, and not an error.
			if three.GetAcked() != 1 || len(three.GetJobs()) != 1 || len(three.GetEnqueuedJobIds()) != 1 || three.GetError() != "" {
				t.Fatalf("mixed frame: %v", three)
			}
			codes := make([]string, 4)
			for i, o := range three.GetAckOutcomes() {
				codes[i] = o.GetCode()
			}
			if got := strings.Join(codes, ","); got != ",NOT_ACTIVE,NOT_FOUND,NOT_FOUND" {
				t.Errorf("outcomes %s", got)
			}
			four := k.ask(&frameIn{RequestId: 4, Fails: []*corvov1.LifecycleFailItem{
				{JobId: three.GetJobs()[0].GetJobId(), Error: "x"}, {JobId: "nonsense"},
			}, Heartbeats: map[string]*corvov1.HeartbeatJobUpdate{jobNumber(9).String(): {}}})
			if o := four.GetFailOutcomes(); len(o) != 2 || o[0].GetStatus() != "retrying" || o[0].GetNextAttemptAt() == nil || o[1].GetCode() != "NOT_FOUND" {
				t.Errorf("fail outcomes %v", o)
			}
			if four.GetHeartbeats()[jobNumber(9).String()].GetStatus() != "cancel" {
				t.Errorf("heartbeats %v", four.GetHeartbeats())
			}
		})
	}
}

func TestLockstep_RepliesKeepTheOrderOfFramesSentAhead(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	k.send(&frameIn{RequestId: 1, Queues: []string{"none"}, FetchCount: 1}) // Waits a moment.
	k.send(&frameIn{RequestId: 2, Enqueues: enqueues("q")})
	k.send(&frameIn{RequestId: 3, Acks: acks("x")})
	for want := uint64(1); want <= 3; want++ {
		if got := k.receive().GetRequestId(); got != want {
			t.Fatalf("reply %d came in the place of %d", got, want)
		}
	}
}

func TestLockstep_IdleFramesArePacedAndFetchesAreWoken(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	start := time.Now()
	k.ask(&frameIn{RequestId: 1})
	k.ask(&frameIn{RequestId: 2, Queues: []string{"q"}, FetchCount: 1})
	if took := time.Since(start); took < 2*streams.IdlePause {
		t.Errorf("an empty frame and an empty fetch took %v together", took)
	}
	// On a busy machine a fetch may be over before its job is there: the next one waits.
	came := func() bool {
		queue, until := fmt.Sprintf("q%d", time.Now().UnixNano()), time.Now().Add(streams.IdlePause)
		k.send(&frameIn{RequestId: 3, Queues: []string{queue}, FetchCount: 1})
		eventually.True(t, patience, "the fetch waits, or has waited", func() bool { return b.jobs.parked() > 0 || time.Now().After(until) })
		b.post("/api/v1/enqueue", `{"queue":"`+queue+`"}`).want(t, 201)
		return len(k.receive().GetJobs()) == 1
	}
	eventually.True(t, patience, "a job comes in a parked frame", came)
	// A frame that did other work is not held up.
	eventually.True(t, patience, "an ack is not held up by the empty fetch beside it", func() bool {
		start := time.Now()
		k.ask(&frameIn{RequestId: 4, Acks: acks(b.jobs.nth(1)), Queues: []string{"none"}, FetchCount: 1})
		return time.Since(start) < streams.IdlePause
	})
}

func TestLockstep_ErrorTexts(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	k.ask(&frameIn{RequestId: 1, Enqueues: enqueues("q")})
	k.ask(&frameIn{RequestId: 2, Queues: []string{"q"}, FetchCount: 1})

	bad := k.ask(&frameIn{RequestId: 3, Acks: acks(b.jobs.nth(1)), Enqueues: []*corvov1.LifecycleEnqueueItem{
		{Queue: "q"}, {Queue: "q", PayloadJson: "{"},
	}})
	if !strings.HasPrefix(bad.GetError(), "enqueue: ") || bad.GetAcked() != 1 || len(bad.GetEnqueuedJobIds()) != 0 {
		t.Errorf("bad enqueue beside a good ack: %v", bad)
	}
	if v := bad.GetViolations(); len(v) != 1 || v[0].GetField() != "enqueues[1].payload_json" {
		t.Errorf("violations %v", v)
	}
	bad = k.ask(&frameIn{RequestId: 4, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "q", Options: &corvov1.EnqueueOptions{Priority: "urgent"}}}})
	if v := bad.GetViolations(); len(v) != 1 || v[0].GetField() != "enqueues[0].options.priority" {
		t.Errorf("violations %v", v)
	}
	if got := k.ask(&frameIn{RequestId: 5, FetchCount: 1, Queues: []string{"/"}}).GetError(); !strings.HasPrefix(got, "fetch: ") {
		t.Errorf("bad fetch: %q", got)
	}
	if got := k.ask(&frameIn{RequestId: 6, Acks: make([]*corvov1.AckBatchItem, 513)}).GetError(); !strings.HasPrefix(got, "ack: ") {
		t.Errorf("too many acks: %q", got)
	}
}

func TestLockstep_ErrorTextsOfTheEngine(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, row := range []struct {
		err  error
		req  *frameIn
		want string
	}{
		{fault.New(fault.Exhausted, "", "busy"), &frameIn{Acks: acks("x")}, "OVERLOADED: ack: busy"},
		{fault.New(fault.Exhausted, "", "busy"), &frameIn{FetchCount: 1, Queues: []string{"q"}}, "OVERLOADED: fetch: busy"},
		{fault.New(fault.UnknownOutcome, "", "unknown"), &frameIn{Enqueues: enqueues("q")}, "enqueue: unknown"},
		{errors.New("disk /secret"), &frameIn{Acks: acks("x")}, "ack: internal error"},
	} {
		st := b.frames(t)
		st.Backend = failingBackend{st.Backend, row.err}
		st.End() // No pauses.
		r := st.Answer(row.req)
		if got := r.Msg.GetError(); !strings.HasPrefix(got, row.want) || strings.Contains(got, "secret") || r.Last {
			t.Errorf("%v: error %q, want %q; the last answer: %v", row.err, got, row.want, r.Last)
		}
	}
}

// failingBackend finds no leader, for a reason.
type failingBackend struct {
	streams.Backend
	err error
}

func (d failingBackend) Place(context.Context) (streams.Placement, error) {
	return streams.Placement{}, d.err
}

// frames is a stream whose frames the test handles itself.
func (b *bench) frames(t *testing.T) *streams.Stream { return b.streamOf(t, nil) }

func (b *bench) streamOf(t *testing.T, f streams.Frames) *streams.Stream {
	t.Helper()
	r := httptest.NewRequest("POST", "/", nil)
	who, err := NewOpen(nsA).Authenticate(r)
	if err != nil {
		t.Fatal(err)
	}
	c := &call{s: b.srv, w: httptest.NewRecorder(), r: r, who: who, place: b.jobs.place(), start: time.Now()}
	st := c.stream(f)
	t.Cleanup(st.Close)
	return st
}

// Outcomes are a new field: a client that only reads error must learn there why its ack
// does not count, or it believes that the job is done. A missing job is not an error.
func TestLockstep_AnInvalidAckIsAnErrorOfTheFrame(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	k.ask(&frameIn{RequestId: 1, Enqueues: enqueues("q")})
	k.ask(&frameIn{RequestId: 2, Queues: []string{"q"}, FetchCount: 1})
	id := b.jobs.nth(1)
	good, gone := acks(id), acks(jobNumber(9).String())
	bad := &corvov1.AckBatchItem{JobId: id, ResultJson: "{"}
	out := k.ask(&frameIn{RequestId: 3, Acks: append(gone, bad, good[0])})
	if v := out.GetViolations(); !strings.HasPrefix(out.GetError(), "ack: ") || out.GetAcked() != 1 || len(v) != 1 || v[0].GetField() != "acks[1].result_json" {
		t.Errorf("an ack that is no JSON: %v", out)
	}
	out = k.ask(&frameIn{RequestId: 4, Fails: []*corvov1.LifecycleFailItem{{JobId: id, DelayMs: proto.Int64(-1)}}})
	if v := out.GetViolations(); !strings.HasPrefix(out.GetError(), "ack: ") || len(v) != 1 || v[0].GetField() != "fails[0].delay_ms" {
		t.Errorf("a fail with a wrong delay: %v", out)
	}
	if out := k.ask(&frameIn{RequestId: 5, Acks: gone}); out.GetError() != "" || out.GetAcked() != 0 {
		t.Errorf("an ack of a job that is gone: %v", out)
	}
	k = b.open(t.Context())
	if out := k.ask(&frameIn{RequestId: 1, Pipelined: true, Acks: []*corvov1.AckBatchItem{bad}}); out.GetError() != "" || out.GetAckOutcomes()[0].GetCode() != "VALIDATION_ERROR" {
		t.Errorf("a client that reads outcomes: %v", out)
	}
}

func TestStream_ToldNotLeaderOnOpenAndOnAFrame(t *testing.T) {
	t.Parallel()
	for name, opts := range streamDialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			k := b.open(t.Context(), opts...)
			k.ask(&frameIn{RequestId: 1, Enqueues: enqueues("q")})
			b.router.set(Placement{LeaderURL: "http://leader:1"})
			out := k.ask(&frameIn{RequestId: 2, Acks: acks("x")})
			if out.GetError() != "NOT_LEADER" || out.GetLeaderAddr() != "http://leader:1" {
				t.Errorf("frame at a non-leader: %v", out)
			}
			k.ended()
			k = b.open(t.Context(), opts...)
			k.send(&frameIn{RequestId: 7})
			if out := k.receive(); out.GetError() != "NOT_LEADER" || out.GetCode() != "NOT_LEADER" || out.GetLeaderAddr() != "http://leader:1" || out.GetRequestId() != 0 {
				t.Errorf("open at a non-leader: %v", out)
			}
			k.ended()
		})
	}
}

func TestStream_FrameIsHeldUntilALeaderIsKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	k.ask(&frameIn{RequestId: 1, Enqueues: enqueues("q")})
	b.router.set(Placement{})
	k.send(&frameIn{RequestId: 2, Enqueues: enqueues("q")})
	time.AfterFunc(50*time.Millisecond, func() { b.router.set(Placement{Local: b.jobs.Service}) })
	if out := k.receive(); out.GetError() != "" || len(out.GetEnqueuedJobIds()) != 1 {
		t.Errorf("held frame: %v", out)
	}
}

func TestStream_LeadershipLostInsideAFrameIsNotLeader(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	k.ask(&frameIn{RequestId: 1, Enqueues: enqueues("q")})
	b.router.set(Placement{Local: lostLead(t)})
	out := k.ask(&frameIn{RequestId: 2, Enqueues: enqueues("q")})
	if out.GetError() != "NOT_LEADER" {
		t.Errorf("frame: %v", out)
	}
	k.ended()
}

func TestStream_DrainTellsOldClientsWhereToGo(t *testing.T) {
	t.Parallel()
	for name, opts := range streamDialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			k := b.open(t.Context(), opts...)
			k.ask(&frameIn{RequestId: 1, Enqueues: enqueues("q")})
			b.router.set(Placement{LeaderURL: "http://next:1"})
			if err := b.srv.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if out := k.receive(); out.GetError() != "NOT_LEADER" || out.GetLeaderAddr() != "http://next:1" {
				t.Errorf("told %v", out)
			}
			k.ended()
		})
	}
}

func TestStream_OpenBeyondTheBoundIsOverloaded(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{Options: Options{StreamsMax: 1}})
	b.open(t.Context()).ask(&frameIn{RequestId: 1, Enqueues: enqueues("q")})
	k := b.open(t.Context())
	k.send(&frameIn{RequestId: 1})
	_, err := k.s.Receive()
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "OVERLOADED:") {
		t.Errorf("second stream: %v", err)
	}
}

func TestStream_FramesBeyondTheBoundAreOverloaded(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{Options: Options{FramesMax: 1}})
	b.srv.streams.BeginFrame("")
	k := b.open(t.Context())
	if out := k.ask(&frameIn{RequestId: 1, Acks: acks("x")}); !strings.HasPrefix(out.GetError(), "OVERLOADED:") {
		t.Errorf("frame: %v", out)
	}
	// Idle frames need no permit, and the stream is still open.
	if out := k.ask(&frameIn{RequestId: 2, Queues: []string{"q"}, FetchCount: 1}); out.GetError() != "" {
		t.Errorf("idle frame: %v", out)
	}
	b.srv.streams.EndFrame("")
	if out := k.ask(&frameIn{RequestId: 3, Acks: acks("x")}); out.GetError() != "" {
		t.Errorf("after: %v", out)
	}
}

func TestStream_JobsOfAReplyThatCanNotBeSentAreGivenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
	st := b.frames(t)
	r := st.Answer(&frameIn{RequestId: 1, Queues: []string{"q"}, FetchCount: 1})
	if len(r.Msg.GetJobs()) != 1 {
		t.Fatalf("fetched %v", r.Msg)
	}
	st.Close()
	if err := st.Deliver(r); err == nil {
		t.Error("the answer went out")
	}
	if s := b.jobs.stateOf(b.jobs.ids()[0]); s != job.Pending {
		t.Errorf("the job is %s", s)
	}
}

func TestStream_TypeScriptPostsOneFrame(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	path := corvov1connect.WorkerServiceStreamLifecycleProcedure
	post := func(body string) map[string]any {
		a := b.post(path, body, "Content-Type", "application/json").want(t, 200)
		if a.header.Get("Content-Type") != "application/json" {
			t.Errorf("Content-Type %q", a.header.Get("Content-Type"))
		}
		var m map[string]any
		a.into(t, &m)
		return m
	}
	m := post(`{"requestId":"1","enqueues":[{"queue":"q","payloadJson":"{\"a\":1}"}],"unknownMember":1}`)
	if m["requestId"] != "1" || m["enqueuedJobIds"] == nil {
		t.Errorf("enqueue: %v", m)
	}
	m = post(`{"request_id":2,"queues":["q"],"worker_id":"w","lease_duration":30,"fetch_count":1}`)
	if jobs, _ := m["jobs"].([]any); len(jobs) != 1 {
		t.Errorf("fetch: %v", m)
	}
	if m = post(`{"requestId":3,"acks":[{"jobId":"` + b.jobs.nth(1) + `"}]}`); m["acked"] != 1.0 {
		t.Errorf("ack: %v", m)
	}
	var e struct{ Code, Message string }
	b.post(path, `{"requestId":`, "Content-Type", "application/json").want(t, 400).into(t, &e)
	if e.Code != "invalid_argument" {
		t.Errorf("a frame that is no JSON: %+v", e)
	}
}

func TestPipelined_ParkedFetchHoldsNothingBack(t *testing.T) {
	t.Parallel()
	for name, opts := range streamDialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			k := b.open(t.Context(), opts...)
			k.send(&frameIn{RequestId: 1, Pipelined: true, Queues: []string{"q"}, FetchCount: 1, WaitMs: proto.Int64(20_000)})
			eventually.True(t, patience, "the fetch is parked", func() bool { return b.jobs.parked() == 1 })
			if out := k.ask(&frameIn{RequestId: 2, Enqueues: enqueues("other")}); len(out.GetEnqueueResults()) != 1 {
				t.Fatalf("enqueue beside a parked fetch: %v", out)
			}
			k.send(&frameIn{RequestId: 3, Enqueues: enqueues("q")})
			got := map[uint64]*frameOut{}
			for range 2 {
				out := k.receive()
				got[out.GetRequestId()] = out
			}
			if len(got[1].GetJobs()) != 1 || len(got[3].GetEnqueueResults()) != 1 {
				t.Fatalf("replies %v", got)
			}
			// Settlements and a fetch in one frame: the fetch does not wait.
			out := k.ask(&frameIn{RequestId: 4, Acks: acks(got[1].GetJobs()[0].GetJobId()), Queues: []string{"q"}, FetchCount: 1, WaitMs: proto.Int64(20_000)})
			if out.GetAcked() != 1 || len(out.GetJobs()) != 0 {
				t.Errorf("ack with fetch: %v", out)
			}
		})
	}
}

func TestPipelined_CancelledFetchIsAnsweredEmpty(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	park := func(id uint64) *frameIn {
		return &frameIn{RequestId: id, Pipelined: true, Queues: []string{"q"}, FetchCount: 1, WaitMs: proto.Int64(20_000)}
	}
	k.send(park(1))
	eventually.True(t, patience, "the fetch is parked", func() bool { return b.jobs.parked() == 1 })
	if out := k.ask(park(1)); out.GetError() != "fetch: request_id is already in use" {
		t.Errorf("second use of a request_id: %v", out)
	}
	k.send(&frameIn{RequestId: 2, Cancels: []uint64{1, 77}})
	seen := map[uint64]bool{}
	for range 2 {
		out := k.receive()
		seen[out.GetRequestId()] = true
		if out.GetError() != "" || len(out.GetJobs()) != 0 {
			t.Errorf("reply %v", out)
		}
	}
	if !seen[1] || !seen[2] {
		t.Errorf("answered %v, want one reply to each", seen)
	}
}

func TestPipelined_ParkedFetchesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	for id := range uint64(streams.ParkedMax) {
		k.send(&frameIn{RequestId: id + 1, Pipelined: true, Queues: []string{"q"}, FetchCount: 1, WaitMs: proto.Int64(20_000)})
	}
	out := k.ask(&frameIn{RequestId: 1000, Queues: []string{"q"}, FetchCount: 1, WaitMs: proto.Int64(20_000)})
	if !strings.HasPrefix(out.GetError(), "OVERLOADED:") {
		t.Errorf("fetch %d: %v", streams.ParkedMax+1, out)
	}
}

// piped is a stream whose frames and answers a test passes on itself, each when it likes.
type piped struct {
	in    chan *frameIn
	out   chan *frameOut
	ended chan struct{} // Closed when the server is done with it.
}

func (w *piped) Receive() (*frameIn, error) {
	if f, open := <-w.in; open {
		return f, nil
	}
	return nil, io.EOF
}

func (w *piped) Send(m *frameOut) error {
	if m != nil { // Else the headers.
		w.out <- m
	}
	return nil
}

func (b *bench) pipe(t *testing.T) *piped {
	t.Helper()
	w := &piped{in: make(chan *frameIn), out: make(chan *frameOut), ended: make(chan struct{})}
	st := b.streamOf(t, w)
	go func() {
		defer close(w.ended)
		if err := st.Serve(); err != nil {
			t.Errorf("the stream: %v", err)
		}
	}()
	t.Cleanup(w.end)
	return w
}

// end leaves, and reads what is still answered.
func (w *piped) end() {
	close(w.in)
	for {
		select {
		case <-w.out:
		case <-w.ended:
			return
		}
	}
}

// fetch is a frame that waits for jobs of a queue without any, and gives up other fetches.
func fetch(id uint64, cancels ...uint64) *frameIn {
	return &frameIn{RequestId: id, Pipelined: true, Queues: []string{"q"}, FetchCount: 1, WaitMs: proto.Int64(20_000), Cancels: cancels}
}

// A client that does not read could else begin and cancel fetches for ever, each of which
// stays until its answer is sent.
func TestPipelined_FetchesWhoseAnswersAreNotReadAreBounded(t *testing.T) {
	t.Parallel()
	const bound = 4 * streams.ParkedMax // Waiting, answered, refused.
	b := newBench(t, benchOptions{})
	w := b.pipe(t)
	for id := range uint64(bound) {
		eventually.True(t, patience, "the fetch before the last is over", func() bool { return b.jobs.parked() <= 1 })
		select {
		case w.in <- fetch(id+1, id):
		case <-time.After(time.Second):
			return // No further frame is read.
		}
	}
	t.Errorf("%d fetches were begun and cancelled, and no answer was read", bound)
}

// One that reads may have as many fetches waiting as the limit says, at every moment.
func TestPipelined_AFetchMayFollowAtOnceWhenAnAnswerWasRead(t *testing.T) {
	t.Parallel()
	w := newBench(t, benchOptions{}).pipe(t)
	for id := range uint64(streams.ParkedMax) {
		w.in <- fetch(id + 1)
	}
	for oldest := uint64(1); oldest < 5000; oldest++ {
		w.in <- &frameIn{Cancels: []uint64{oldest}} // Is answered too.
		for answered := false; !answered; {
			out := <-w.out
			if out.GetError() != "" {
				t.Fatalf("fetch %d: %v", out.GetRequestId(), out)
			}
			answered = out.GetRequestId() == oldest
		}
		w.in <- fetch(oldest + streams.ParkedMax)
	}
}

func TestPipelined_DrainIsToldAndAcksAreStillTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
	k := b.open(t.Context())
	got := k.ask(&frameIn{RequestId: 1, Pipelined: true, Queues: []string{"q"}, FetchCount: 1})
	k.send(&frameIn{RequestId: 2, Queues: []string{"q"}, FetchCount: 1, WaitMs: proto.Int64(20_000)})
	eventually.True(t, patience, "the fetch is parked", func() bool { return b.jobs.parked() == 1 })
	drained := make(chan error, 1)
	go func() { drained <- b.srv.Drain(t.Context()) }()
	var told, empty bool
	for range 2 {
		out := k.receive()
		told = told || out.GetDrain() && out.GetRequestId() == 0
		empty = empty || out.GetRequestId() == 2 && len(out.GetJobs()) == 0
	}
	if !told || !empty {
		t.Fatalf("told %v, parked fetch answered %v", told, empty)
	}
	if out := k.ask(&frameIn{RequestId: 3, Acks: acks(got.GetJobs()[0].GetJobId())}); out.GetAcked() != 1 {
		t.Errorf("ack during the drain: %v", out)
	}
	_ = k.s.CloseRequest()
	k.ended()
	eventually.Returns(t, 5*time.Second, "Drain", func() {
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

func TestPipelined_DrainCutsAClientThatStays(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	k.ask(&frameIn{RequestId: 1, Pipelined: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.srv.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain: %v", err)
	}
	if out := k.receive(); !out.GetDrain() {
		t.Errorf("told %v", out)
	}
	eventually.Returns(t, 5*time.Second, "the cut", func() {
		if _, err := k.s.Receive(); err == nil {
			t.Error("the stream goes on")
		}
	})
}

func TestPipelined_NotLeaderEndsTheStream(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	k := b.open(t.Context())
	k.ask(&frameIn{RequestId: 1, Pipelined: true, Enqueues: enqueues("q")})
	b.router.set(Placement{LeaderURL: "http://leader:1"})
	if out := k.ask(&frameIn{RequestId: 2, Enqueues: enqueues("q")}); out.GetError() != "NOT_LEADER" || out.GetLeaderAddr() == "" {
		t.Errorf("frame: %v", out)
	}
	k.ended()
}

// A client that stops reading must not keep anything but its own stream.
func TestStream_ClientThatDoesNotReadLosesItsStreamAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	big := `{"queue":"q","payload":"` + strings.Repeat("x", 200<<10) + `"}`
	for range 40 {
		b.post("/api/v1/enqueue", big).want(t, 201)
	}
	others := b.h2
	die := b.mortal()
	pr, pw := io.Pipe()
	defer pw.Close()
	req, _ := http.NewRequestWithContext(t.Context(), "POST", b.url+corvov1connect.WorkerServiceStreamLifecycleProcedure, pr)
	req.Header.Set("Content-Type", "application/connect+proto")
	resp, err := b.h2.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() // Never read: that is the point.
	for id := range uint64(40) {
		frame, _ := proto.Marshal(&frameIn{RequestId: id + 1, Pipelined: true, Queues: []string{"q"}, FetchCount: 1})
		envelope := append([]byte{0, 0, 0, 0, byte(len(frame))}, frame...)
		if _, err := pw.Write(envelope); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, patience, "all jobs are granted", func() bool {
		var q []wire.Queue
		b.do("GET", "/api/v1/queues", "").want(t, 200).into(t, &q)
		return q[0].Pending == 0
	})
	// Others are served meanwhile, and jobs that were not sent come back at the end.
	b.h2 = others
	b.open(t.Context()).ask(&frameIn{RequestId: 1, Enqueues: enqueues("other")})
	die()
	eventually.True(t, patience, "jobs that were not sent are pending again", func() bool {
		var q []wire.Queue
		_ = json.Unmarshal(b.do("GET", "/api/v1/queues", "").body, &q)
		for _, one := range q {
			if one.Name == "q" {
				return one.Pending > 0
			}
		}
		return false
	})
}

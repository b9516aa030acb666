package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/admission"
)

// TestAdmission_WhoIsRefusedIsToldWhen: calls with a 429, frames with OVERLOADED, and the
// rest of the stream goes on.
func TestAdmission_WhoIsRefusedIsToldWhen(t *testing.T) {
	t.Parallel()
	gate := admission.New(admission.Options{})
	b := newBench(t, benchOptions{Options: Options{Admission: gate}})
	b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
	k := b.open(t.Context())
	if out := k.ask(&frameIn{RequestId: 1, Pipelined: true, Enqueues: enqueues("q")}); out.GetError() != "" {
		t.Fatalf("a frame: %v", out)
	}

	leave := full(t, gate)
	a := b.post("/api/v1/enqueue", `{"queue":"q"}`)
	if p := a.problem(t); a.status != 429 || p.Code != "OVERLOADED" || p.RetryAfterMS <= 0 || a.header.Get("Retry-After") == "" {
		t.Errorf("a call: %d %+v, Retry-After %q", a.status, p, a.header.Get("Retry-After"))
	}
	if out := k.ask(&frameIn{RequestId: 2, Enqueues: enqueues("q")}); out.GetCode() != "OVERLOADED" || !strings.HasPrefix(out.GetError(), "OVERLOADED:") || len(out.GetEnqueuedJobIds()) > 0 {
		t.Errorf("a frame: %v", out)
	}

	leave()
	b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
	if out := k.ask(&frameIn{RequestId: 3, Enqueues: enqueues("q")}); out.GetError() != "" || len(out.GetEnqueuedJobIds()) != 1 {
		t.Errorf("the stream's next frame: %v", out)
	}
}

// TestAdmission_NothingIsHeldWhileAFetchWaits: else long polls would keep everybody out.
func TestAdmission_NothingIsHeldWhileAFetchWaits(t *testing.T) {
	t.Parallel()
	gate := admission.New(admission.Options{})
	b := newBench(t, benchOptions{Options: Options{Admission: gate}})
	answer := make(chan answerOf)
	go func() { answer <- b.post("/api/v1/fetch", `{"queues":["q"],"worker_id":"w","wait":"10s"}`) }()
	k := b.open(t.Context())
	k.send(&frameIn{RequestId: 1, Pipelined: true, Queues: []string{"q"}, WorkerId: "w", FetchCount: 1})
	eventually.True(t, 5*time.Second, "both fetches wait", func() bool { return b.jobs.shard.Stats().Parked.Load() == 2 })
	if n := gate.UnderWay(); n != 0 {
		t.Errorf("%d units are under way while two fetches wait", n)
	}
	b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
	b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
	(<-answer).want(t, 200)
	if out := k.receive(); len(out.GetJobs()) != 1 {
		t.Errorf("the stream's fetch: %v", out)
	}
}

// TestStream_ItsRefusalsGetSlower: a client that sends at once what was refused costs the
// neighbours as much as one whose frames are done.
func TestStream_ItsRefusalsGetSlower(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{Options: Options{FramesMax: 1}})
	b.srv.streams.BeginFrame("")
	defer b.srv.streams.EndFrame("")
	const waits = 1 << 40 // A fetch that nobody answers.
	for name, refused := range map[string]struct {
		frame func(id uint64) *frameIn
		code  string
	}{
		"too much":            {func(id uint64) *frameIn { return &frameIn{RequestId: id, Acks: acks("x")} }, "OVERLOADED"},
		"wrong":               {func(id uint64) *frameIn { return &frameIn{RequestId: id, Acks: make([]*corvov1.AckBatchItem, 513)} }, "VALIDATION_ERROR"},
		"a fetch that waits":  {func(id uint64) *frameIn { return &frameIn{RequestId: id, Queues: []string{"/"}, FetchCount: 1} }, "VALIDATION_ERROR"},
		"an id that is taken": {func(uint64) *frameIn { return fetch(waits) }, "VALIDATION_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			k := b.open(t.Context())
			k.TB = t
			k.send(fetch(waits))
			began := time.Now()
			for id := range uint64(5) {
				if out := k.ask(refused.frame(id + 1)); out.GetCode() != refused.code {
					t.Fatalf("frame: %v", out)
				}
			}
			if took := time.Since(began); took < 150*time.Millisecond { // 10 + 20 + 30 + 40 + 50.
				t.Errorf("five refusals took %s", took)
			}
			if out := k.ask(&frameIn{RequestId: 9, Queues: []string{"q"}, FetchCount: 1, WaitMs: proto.Int64(0)}); out.GetError() != "" {
				t.Errorf("after: %v", out)
			}
		})
	}
}

// full leaves no room in the gate, not even to wait, until leave.
func full(t *testing.T, gate *admission.Gate) (leave func()) {
	t.Helper()
	const everything = 1 << 16
	under, err := gate.Enter(t.Context(), "", everything)
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan admission.Turn)
	go func() {
		turn, _ := gate.Enter(t.Context(), "", everything)
		next <- turn
	}()
	eventually.True(t, 5*time.Second, "as much waits as may", func() bool { return gate.Waiting() == everything })
	return func() {
		under.Leave()
		(<-next).Leave()
	}
}

// TestAdmission_AFrameOfNothingTakesItsTurn: it may have megabytes of what is ignored.
func TestAdmission_AFrameOfNothingTakesItsTurn(t *testing.T) {
	t.Parallel()
	gate := admission.New(admission.Options{})
	b := newBench(t, benchOptions{Options: Options{Admission: gate}})
	k := b.open(t.Context())
	k.ask(&frameIn{RequestId: 1, Pipelined: true})
	leave := full(t, gate)
	if out := k.ask(&frameIn{RequestId: 2, WorkerId: "w"}); out.GetCode() != "OVERLOADED" {
		t.Errorf("beside a full gate: %v", out)
	}
	leave()
	if out := k.ask(&frameIn{RequestId: 3}); out.GetError() != "" {
		t.Errorf("after: %v", out)
	}
}

// TestAdmission_AFetchThatIsGivenUpInTheLineIsNotRefused: like one that waits for jobs.
func TestAdmission_AFetchThatIsGivenUpInTheLineIsNotRefused(t *testing.T) {
	t.Parallel()
	gate := admission.New(admission.Options{})
	b := newBench(t, benchOptions{Options: Options{Admission: gate}})
	w := b.pipe(t)
	turn, err := gate.Enter(t.Context(), "", 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Leave()
	w.in <- fetch(1)
	eventually.True(t, patience, "the fetch is in the line", func() bool { return gate.Waiting() > 0 })
	w.in <- &frameIn{RequestId: 2, Cancels: []uint64{1}} // Waits in the line itself.
	if out := <-w.out; out.GetRequestId() != 1 || out.GetError() != "" {
		t.Errorf("the fetch: %v", out)
	}
}

package bench

import (
	"context"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// serve starts a stand-in and returns it as a target.
func serve(t testing.TB, f faults) *Target {
	t.Helper()
	return listen(t, newStandin(f))
}

func listen(t testing.TB, q *standin) *Target {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := q.server()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return Running(&url.URL{Scheme: "http", Host: listener.Addr().String()}, nil)
}

func mustURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

func small(w Workload, p Protocol) Options {
	o := Default()
	o.Workload, o.Protocol, o.Jobs, o.Connections, o.Concurrency = w, p, 500, 2, 3
	if p == HTTP {
		o.Concurrency = 1
	}
	if w == Steady {
		o.Rate = 2000
	}
	return o
}

func mustRun(t *testing.T, o Options, f faults) *Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	report, err := Run(ctx, o, serve(t, f))
	if err != nil {
		t.Fatalf("%s over %s: %v", o.Workload, o.Protocol, err)
	}
	return report
}

func TestRun_EveryWorkloadOverEveryProtocolAccountsForEveryJob(t *testing.T) {
	t.Parallel()
	for _, w := range []Workload{Enqueue, Lifecycle, Latency, Single, Steady} {
		for _, p := range []Protocol{HTTP, RPC, Stream} {
			for _, batch := range []int{1, 7} {
				t.Run(string(w)+"/"+string(p), func(t *testing.T) {
					t.Parallel()
					o := small(w, p)
					o.Batch = batch
					if w == Latency {
						o.Jobs = 20
					}
					r := mustRun(t, o, faults{})
					if !r.Valid || r.Check.Enqueued != o.Jobs || r.Check.Delivered != o.Jobs {
						t.Fatalf("not valid: %+v %v", r.Check, r.Problems)
					}
					if r.Phase.Jobs != o.Jobs || r.Phase.PerSecond <= 0 || r.Phase.Latency.P50 <= 0 || r.Phase.Latency.Max < r.Phase.Latency.P99 {
						t.Fatalf("implausible result: %+v", r.Phase)
					}
					for _, note := range r.Notes {
						if strings.Contains(note, "counts") {
							t.Fatal(note)
						}
					}
					if r.Durability.Sync != "off" || !r.Durability.Reported {
						t.Fatalf("the stand-in says that it does not sync, the report says %+v", r.Durability)
					}
				})
			}
		}
	}
}

func TestRun_LostJobMakesItInvalid(t *testing.T) {
	t.Parallel()
	o := small(Enqueue, Stream)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &run{opts: o, target: serve(t, faults{loseEvery: 100})}
	r.opts.Server = r.target.URL
	r.stall = 300 * time.Millisecond
	r.dialer = &dialer{server: r.target.URL, queue: "bench-test", payload: "{}"}
	report := newReport(o, Durability{}, Machine{})
	if err := r.measure(ctx, report); err != nil {
		t.Fatal(err)
	}
	r.verify(ctx, report)
	if report.Valid || report.Check.Lost != 5 {
		t.Fatalf("five jobs were lost, the report says %+v", report.Check)
	}
}

func TestRun_JobHandedOutTwiceMakesItInvalid(t *testing.T) {
	t.Parallel()
	r := mustRun(t, small(Lifecycle, Stream), faults{repeatEvery: 100})
	if r.Valid || r.Check.Duplicated == 0 {
		t.Fatalf("jobs were handed out twice, the report says %+v", r.Check)
	}
}

func TestRun_RefusedAckMakesItInvalid(t *testing.T) {
	t.Parallel()
	for _, p := range []Protocol{HTTP, RPC, Stream} {
		r := mustRun(t, small(Lifecycle, p), faults{refuseEvery: 100})
		if r.Valid || r.Check.Refused != 5 {
			t.Fatalf("%s: five acks were refused, the report says %+v", p, r.Check)
		}
	}
}

func TestRun_OverloadIsWaitedOut(t *testing.T) {
	t.Parallel()
	r := mustRun(t, small(Enqueue, HTTP), faults{overloads: 10})
	if !r.Valid {
		t.Fatalf("not valid: %v", r.Problems)
	}
}

func TestRun_MovedLeaderIsFollowedAndNoted(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 5} {
		o := small(Enqueue, Stream)
		o.Concurrency = concurrency
		r := mustRun(t, o, faults{moves: 7})
		if !r.Valid || !strings.Contains(strings.Join(r.Notes, " "), "7 streams") {
			t.Fatalf("valid: %v, problems %v, notes %v", r.Valid, r.Problems, r.Notes)
		}
	}
}

// Whether a backlog that was kept is still there is known from the server alone: one of ours
// that doesn't say it proves nothing.
func TestRun_ServerOfOursThatDoesNotCountMakesItInvalid(t *testing.T) {
	t.Parallel()
	for _, spawned := range []bool{true, false} {
		target := serve(t, faults{uncounted: true})
		target.relaxed = true // The stand-in is.
		if spawned {
			target.pid = os.Getpid()
		}
		o := small(Lifecycle, Stream)
		o.Backlog, o.KeepBacklog = 300, true
		r, err := Run(t.Context(), o, target)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(append(r.Problems, r.Notes...), " "); r.Valid == spawned || !strings.Contains(said, "is not listed") {
			t.Errorf("spawned %v: valid %v, %s", spawned, r.Valid, said)
		}
	}
}

func TestRun_ServerOfOursThatDoesNotSyncMakesItInvalid(t *testing.T) {
	t.Parallel()
	for _, relaxed := range []bool{true, false} {
		target := serve(t, faults{})
		target.pid, target.relaxed = os.Getpid(), relaxed
		r, err := Run(t.Context(), small(Enqueue, Stream), target)
		if err != nil || r.Valid != relaxed {
			t.Errorf("relaxed %v: %v %+v", relaxed, err, r)
		}
	}
}

func TestUnsynced_NamesWhatAServerThatSyncsCanNotDo(t *testing.T) {
	t.Parallel()
	const delay = 1.0
	alone := &Target{pid: 1, syncDelay: time.Millisecond}
	good := Phase{Jobs: 1000, PerSecond: 9_000, Latency: Percentiles{P50: 1.1}, Syncs: 100}
	with := func(change func(*Phase)) Phase {
		p := good
		change(&p)
		return p
	}
	said := Durability{Sync: "on", Reported: true, SyncDelayMS: delay, Spawned: true}
	unsaid, off := said, said
	unsaid.Reported, off.Sync = false, "off"
	for name, c := range map[string]struct {
		target     *Target
		durability Durability
		phase      Phase
		problem    string // Empty: none.
	}{
		"within what the delay allows":      {alone, said, good, ""},
		"syncs that nobody counted":         {alone, said, with(func(p *Phase) { p.Syncs = -1 }), ""},
		"half of the calls too fast":        {alone, said, with(func(p *Phase) { p.Latency.P50 = 0.9 }), "half of the calls"},
		"more than callers by the delay":    {alone, said, with(func(p *Phase) { p.PerSecond = 10_001 }), "10001 jobs/s"},
		"too few syncs":                     {alone, said, with(func(p *Phase) { p.Syncs = 99 }), "99 syncs for 1000 jobs"},
		"not said":                          {alone, unsaid, good, "did not say"},
		"a proxy that has no status":        {&Target{pid: 1, nodes: 3, syncDelay: time.Millisecond}, unsaid, good, ""},
		"too fast behind a proxy":           {&Target{pid: 1, nodes: 3, syncDelay: time.Millisecond}, unsaid, with(func(p *Phase) { p.Latency.P50 = 0.9 }), "half of the calls"},
		"a delay that it was not told":      {&Target{pid: 1}, said, good, "was told to add 0"},
		"off":                               {alone, off, good, "does not sync"},
		"off, which was asked for":          {&Target{pid: 1, relaxed: true}, off, with(func(p *Phase) { p.Syncs = 0 }), ""},
		"off, of a server that is not ours": {&Target{}, Durability{Sync: "off", Reported: true}, good, ""},
	} {
		r := &run{target: c.target, opts: Options{Connections: 2, Concurrency: 5, Batch: 1}}
		got := strings.Join(r.unsynced(&Report{Durability: c.durability, Phase: c.phase}), "; ")
		if !strings.Contains(got, c.problem) || (got == "") != (c.problem == "") || strings.Contains(got, ";") {
			t.Errorf("%s: %q, want %q", name, got, c.problem)
		}
	}
}

func TestSyncs_AreThoseOfTheLogOfANodeAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status wire.ClusterStatus
		want   int64
	}{
		"a node alone":         {wire.ClusterStatus{LogCommits: 900, LogSyncs: 12, Nodes: make([]wire.NodeStatus, 1)}, 12},
		"one of three nodes":   {wire.ClusterStatus{LogSyncs: 12, Nodes: make([]wire.NodeStatus, 3)}, -1},
		"relaxed":              {wire.ClusterStatus{LogSyncs: 12, RaftNoSync: true}, -1},
		"it doesn't tell them": {wire.ClusterStatus{LogCommits: 900}, -1},
	} {
		if got := serve(t, faults{status: &c.status}).syncs(t.Context(), Options{}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestRun_KeptBacklogIsNotLost(t *testing.T) {
	t.Parallel()
	o := small(Lifecycle, Stream)
	o.Backlog, o.KeepBacklog = 300, true
	r := mustRun(t, o, faults{})
	if !r.Valid || r.Check.Remaining != 300 || r.Check.Enqueued != 800 {
		t.Fatalf("300 of 800 jobs are left on purpose, the report says %+v %v", r.Check, r.Problems)
	}
}

func TestBalance_NamesEveryKindOfTrouble(t *testing.T) {
	t.Parallel()
	var l ledger
	producer, handler := l.book(), l.book()
	producer.added([]string{"a", "b", "c", "d"})
	handler.handed([]lease{{id: "a"}, {id: "b"}, {id: "b"}, {id: "b"}, {id: "x"}})
	handler.refused = 2
	want := Check{Enqueued: 4, Delivered: 5, Lost: 2, Duplicated: 2, Unexpected: 1, Refused: 2}
	if got := l.balance(0); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if got := l.balance(2); got.Lost != 0 || got.Remaining != 2 {
		t.Fatalf("two jobs were left on purpose, got %+v", got)
	}
	if got := len(want.problems()); got != 4 {
		t.Fatalf("want four problems named, got %d", got)
	}
}

func TestPhase_ClaimsExactlyTheBudget(t *testing.T) {
	t.Parallel()
	p := &phase{total: 10}
	if got := []int{p.claim(4), p.claim(4), p.claim(4), p.claim(4)}; got[0] != 4 || got[1] != 4 || got[2] != 2 || got[3] != 0 {
		t.Fatalf("claims of 4 from 10 were %v", got)
	}
	p.release(3)
	if got := p.claim(4); got != 3 {
		t.Fatalf("3 jobs came back, claimed %d", got)
	}
}

func TestPayload_HasTheAskedSize(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 7, 8, 9, 100, 4096} {
		got := payload(n)
		if n >= 8 && len(got) != n || n < 8 && got != "{}" {
			t.Errorf("payload(%d) has %d bytes: %.20s", n, len(got), got)
		}
	}
}

func TestParseStatCPU_SkipsACommandNameWithSpaces(t *testing.T) {
	t.Parallel()
	stat := []byte("42 (my (odd) name) S 1 42 42 0 -1 4194560 1 2 3 4 250 150 5 6 20 0 7 0 1 2 3")
	if got := parseStatCPU(stat); got != 4*time.Second {
		t.Fatalf("250 + 150 ticks are 4 s, got %s", got)
	}
	if got := parseStatCPU([]byte("42 (short) S 1")); got != -1 {
		t.Fatalf("a short line is unknown, got %s", got)
	}
}

func TestMember_ReadsTextValues(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"job_id":"job_1","status":"x"}`:    "job_1",
		"{\n  \"job_id\" : \"job_2\"\n}":     "job_2",
		`{"job_id":null}`:                    "",
		`{"job_id":"unclosed`:                "",
		`{}`:                                 "",
		`{"queue":"q","payload":{},"job_id"`: "",
	} {
		got, ok := member([]byte(body), `"job_id"`)
		if ok != (want != "") || ok && got != want {
			t.Errorf("member of %s is %q, %v; want %q", body, got, ok, want)
		}
	}
}

// The default is ten callers, and HTTP has one for each connection.
func TestValidate_WorkloadsOfOneCallerHaveTheirShapeOverEveryProtocol(t *testing.T) {
	t.Parallel()
	for _, w := range []Workload{Latency, Single} {
		for _, p := range Protocols() {
			o := Default()
			o.Workload, o.Protocol, o.Server = w, p, mustURL("http://127.0.0.1:1")
			if err := o.Validate(); err != nil || o.Connections*o.Concurrency*o.Batch != 1 {
				t.Errorf("%s over %s: %v %+v", w, p, err, o)
			}
		}
	}
}

func TestValidate_NamesEveryBadValue(t *testing.T) {
	t.Parallel()
	o := Options{Workload: "x", Protocol: HTTP, Jobs: 0, Batch: 1000, Connections: 1, Concurrency: 2, PayloadBytes: 1}
	err := o.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, word := range []string{`workload "x"`, "jobs 0", "batch 1000", "payload bytes 1", "one call at a time", "no server"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not name %s", err, word)
		}
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %s", n, got)
		}
	}
}

// The race detector says if they meet.
func TestTail_IsReadWhileItIsWritten(t *testing.T) {
	t.Parallel()
	var last tail
	var writing sync.WaitGroup
	writing.Go(func() {
		for range 1000 {
			_, _ = last.Write([]byte("0123456789\n")) // Never fails.
		}
	})
	for range 100 {
		_ = last.String()
	}
	writing.Wait()
	if got := last.String(); len(got) > tailBytesMax || !strings.HasSuffix(got, "0123456789") {
		t.Errorf("%d bytes: %.20s", len(got), got)
	}
}

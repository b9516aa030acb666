package bench

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRow_IsMetInTheDirectionOfItsAim(t *testing.T) {
	t.Parallel()
	report := func(perSecond, p50 float64) *Report {
		return &Report{Valid: true, Phase: Phase{PerSecond: perSecond, Latency: Percentiles{P50: p50}, SyncsPerThousand: -1}, Durability: Durability{SyncDelayMS: 1}}
	}
	for _, c := range []struct {
		aim     aim
		report  *Report
		verdict string
	}{
		{throughput(1000), report(1000, 0), "met"},
		{throughput(1000), report(500, 0), "missed (50 %)"},
		{aboveSync("p50", 0.5, p50), report(0, 1.75), "met"},
		{aboveSync("p50", 0.5, p50), report(0, 2.25), "missed (2.00×)"},
		{syncs(10), report(0, 0), "-"},
		{throughput(0), report(1000, 0), "-"},
	} {
		row := c.aim.row("work", measured{report: c.report, limits: &Calibration{Limits: []Limit{{limitSync(time.Millisecond), "ms", 1.25}}}})
		if got := row.String(); !strings.HasSuffix(got, " "+c.verdict) {
			t.Errorf("%q does not end with %q", got, c.verdict)
		}
		if got := row.verdict(); got != c.verdict {
			t.Errorf("%s: %q, want %q", row.Name, got, c.verdict)
		}
		if len(row.Cells()) != len(RowHeader()) {
			t.Errorf("%s: %d cells under %d headers", row.Name, len(row.Cells()), len(RowHeader()))
		}
	}
}

// What is faster than the sync that was measured before it is seen.
func TestAbove_ANegativeDifferenceIsShownAsItIs(t *testing.T) {
	t.Parallel()
	m := measured{report: &Report{Valid: true, Phase: Phase{Latency: Percentiles{P50: 1}}, Durability: Durability{SyncDelayMS: 1}},
		base:   &Report{Phase: Phase{Latency: Percentiles{P50: 1.5}}},
		limits: &Calibration{Limits: []Limit{{limitSync(time.Millisecond), "ms", 1.25}}}}
	for want, a := range map[string]aim{"-0.25 ms": aboveSync("p50", 0.5, p50), "-0.5 ms": aboveBase("without", 0.5)} {
		if got := a.row("work", m).Cells()[2]; got != want {
			t.Errorf("%s: %q, want %q", a.name, got, want)
		}
	}
}

func TestRow_InvalidRunIsNeverMet(t *testing.T) {
	t.Parallel()
	row := throughput(1).row("work", measured{report: &Report{Phase: Phase{PerSecond: 100}, Problems: []string{"1 job lost"}}})
	if got := row.verdict(); !strings.HasPrefix(got, "INVALID: 1 job lost") {
		t.Fatal(got)
	}
}

// TestScenarios_CanBeRun: a typing mistake in the table must not show after an
// hour of measuring.
func TestScenarios_CanBeRun(t *testing.T) {
	t.Parallel()
	target := Running(mustURL("http://127.0.0.1:1"), nil)
	names := make(map[string]bool)
	for _, sc := range scenarios() {
		o := sc.options
		o.Server = target.URL
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", sc.name, err)
		}
		if names[sc.name] || len(sc.aims) == 0 {
			t.Errorf("%s: twice, or without an aim", sc.name)
		}
		names[sc.name] = true
	}
	for _, sc := range scenarios() {
		if sc.base != "" && !names[sc.base] {
			t.Errorf("%s is compared with %q, which is no scenario", sc.name, sc.base)
		}
	}
}

// Every limit that a row is held against is one that is measured.
func TestScenarios_LimitsAreMeasured(t *testing.T) {
	t.Parallel()
	c := &Calibration{}
	for _, g := range (&Suite{}).gauges("", 0) {
		c.Limits = append(c.Limits, Limit{g.name, g.unit, 1})
	}
	m := measured{report: &Report{Phase: Phase{PerSecond: 1}}, limits: c, base: &Report{Phase: Phase{PerSecond: 1}}}
	for _, sc := range scenarios() {
		for _, p := range sc.peers {
			m.peers = append(m.peers, &PeerRun{Peer: p, PerSecond: 1, Valid: true})
		}
		for _, l := range sc.limits(c) {
			if l.Value < 0 && sc.options.Workload != Single && sc.options.Workload != Latency {
				t.Errorf("%s: limit %q is not measured", sc.name, l.Name)
			}
		}
		for _, a := range sc.aims {
			if _, known := a.of(m); (a.unit == "%" || a.unit == "×") && !known {
				t.Errorf("%s: %q can't be known", sc.name, a.name)
			}
		}
		m.peers = nil
	}
}

func TestLimit_IsTheLowestThatApplies(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	c := &Calibration{Limits: []Limit{{limitSync(ms), "ms", 1.25}, {limitEcho(Stream, 50), "jobs/s", 30_000},
		{limitEcho(HTTP, 50), "jobs/s", 50_000}, {limitBatch(ms, 10), "jobs/s", 300_000}, {limitWrite(), "MB/s", 100}}}
	for name, tc := range map[string]struct {
		options Options
		want    float64
	}{
		"ten callers wait for the sync":   {Options{Protocol: Stream, Batch: 1, Connections: 1, Concurrency: 10, PayloadBytes: 100}, 8_000},
		"fifty streams for the echo":      {Options{Protocol: Stream, Batch: 1, Connections: 50, Concurrency: 1, PayloadBytes: 100}, 30_000},
		"fifty callers share a stream":    {Options{Protocol: Stream, Batch: 1, Connections: 1, Concurrency: 50, PayloadBytes: 100}, 40_000},
		"large frames, the store":         {Options{Protocol: Stream, Batch: 64, Connections: 10, Concurrency: 1, PayloadBytes: 100}, 300_000},
		"large payloads, the disk's rate": {Options{Protocol: Stream, Batch: 64, Connections: 10, Concurrency: 1, PayloadBytes: 1 << 20}, 100},
	} {
		if got := (scenario{syncDelay: ms, options: tc.options}).limit(c); got == nil || got.Value != tc.want {
			t.Errorf("%s: %+v, want %.0f", name, got, tc.want)
		}
	}
}

func TestRatio_OfAPeerThatBrokeAPromiseIsNotKnown(t *testing.T) {
	t.Parallel()
	m := measured{report: &Report{Valid: true, Phase: Phase{PerSecond: 100}}, peers: []*PeerRun{{Peer: Asynq, PerSecond: 50, Valid: true}, {Peer: River, PerSecond: 1}}}
	if row := ratio(Asynq, 2).row("work", m); !row.Met || row.Measured != 2 {
		t.Errorf("%+v", row)
	}
	for _, p := range []Peer{River, JetStream} {
		if row := ratio(p, 2).row("work", m); row.Known || row.Met || row.verdict() != "-" {
			t.Errorf("%s: %+v", p, row)
		}
	}
}

// The two programs meet in arguments and JSON: the script stands for `peers`.
func TestPeerRun_IsMeasuredOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "peers")
	script := `#!/bin/sh
echo "$*" >> ` + dir + `/calls
echo '{"peer":"asynq","version":"v1","workload":"enqueue","callers":10,"jobs":3000,"sync_ms":1.2,"syncs":400,"jobs_per_second":2500.5,"lost":0,"valid":true}'
`
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &Suite{Peers: program, Quick: true, peerRuns: map[peerKey]*PeerRun{}}
	for range 2 {
		run, err := s.peerRun(t.Context(), peerKey{Asynq, Enqueue, 10, time.Millisecond})
		if err != nil || !run.Valid || run.PerSecond != 2500.5 || run.Syncs != 400 {
			t.Fatalf("%+v %v", run, err)
		}
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if want := "run --peer asynq --workload enqueue --callers 10 --jobs 3000 --payload-bytes 100 --sync-delay 1ms\n"; err != nil || string(calls) != want {
		t.Errorf("called %q (%v), want %q", calls, err, want)
	}
}

func TestPeerRun_FailureSaysWhy(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "peers")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho 'peers: redis-server is not there' >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &Suite{Peers: program, peerRuns: map[peerKey]*PeerRun{}}
	if _, err := s.peerRun(t.Context(), peerKey{Asynq, Enqueue, 10, 0}); err == nil || !strings.Contains(err.Error(), "redis-server is not there") {
		t.Error(err)
	}
}

func TestServeEcho_AnswersTheGeneratorOverBothProtocols(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ServeEcho(ctx, l) }()
	target := Running(mustURL("http://"+l.Addr().String()), nil)
	for _, p := range []Protocol{HTTP, Stream} {
		r := newRun(Options{Workload: Enqueue, Protocol: p, Jobs: 100, Batch: 1, Connections: 3, Concurrency: 1, PayloadBytes: 100, Server: target.URL}, target)
		phase, err := r.timed(t.Context(), 100, r.enqueueLoop)
		if err != nil || phase.Jobs != 100 || phase.PerSecond <= 0 {
			t.Errorf("%s: %+v %v", p, phase, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

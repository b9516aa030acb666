package bench

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
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

// The aims are of millions of bytes: 79 MiB miss one of 80 MB.
func TestMemory_IsInMillionsOfBytes(t *testing.T) {
	t.Parallel()
	r := &Report{Valid: true, Phase: Phase{ServerRSSBytes: 79 << 20, ServerPeakRSSBytes: 79 << 20}}
	if got := throughput(0).row("work", measured{report: r}).Cells()[6]; got != "83 MB" {
		t.Error(got)
	}
	if got := serverText(r.Phase); !strings.Contains(got, "83 MB resident; 83 MB at most") {
		t.Error(got)
	}
	if got := megabytes(79 << 20); got <= 80 {
		t.Error(got)
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
		for _, p := range sc.rivals() {
			if !slices.Contains(sc.peers, p) {
				t.Errorf("%s: compared with %s, which is not measured", sc.name, p)
			}
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
		{limitEcho(HTTP, 50), "jobs/s", 38_000}, {limitBatch(ms, 10), "jobs/s", 300_000}, {limitWrite(), "MB/s", 100}}}
	for name, tc := range map[string]struct {
		options Options
		want    float64
	}{
		"ten callers wait for the sync":   {Options{Workload: Enqueue, Protocol: Stream, Batch: 1, Connections: 1, Concurrency: 10, PayloadBytes: 100}, 8_000},
		"fifty streams for the echo":      {Options{Workload: Enqueue, Protocol: Stream, Batch: 1, Connections: 50, Concurrency: 1, PayloadBytes: 100}, 30_000},
		"fifty callers share a stream":    {Options{Workload: Lifecycle, Protocol: Stream, Batch: 1, Connections: 1, Concurrency: 50, PayloadBytes: 100}, 40_000},
		"large frames, the store":         {Options{Workload: Enqueue, Protocol: Stream, Batch: 64, Connections: 10, Concurrency: 1, PayloadBytes: 100}, 300_000},
		"large payloads, the disk's rate": {Options{Workload: Enqueue, Protocol: Stream, Batch: 64, Connections: 10, Concurrency: 1, PayloadBytes: 1_000_000}, 100},
		"an ack writes no payload":        {Options{Workload: Lifecycle, Protocol: Stream, Batch: 64, Connections: 10, Concurrency: 1, PayloadBytes: 1_000_000}, 300_000},
		"two calls a job, the sync":       {Options{Workload: Lifecycle, Protocol: HTTP, Batch: 1, Connections: 10, Concurrency: 1, PayloadBytes: 100}, 4_000},
		"two calls a job, the echo":       {Options{Workload: Lifecycle, Protocol: HTTP, Batch: 1, Connections: 50, Concurrency: 1, PayloadBytes: 100}, 19_000},
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
		if row := ratio(p, 2).row("work", m); row.Known || row.Met {
			t.Errorf("%s: %+v", p, row)
		}
	}
}

// peersScript stands for the program `peers`: it writes down how it was called.
func peersScript(t *testing.T, script string) (s *Suite, calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "peers")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$*\" >> "+dir+"/calls\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Suite{Peers: program, Quick: true, peerRuns: map[peerKey]*PeerRun{}}, func() []string {
		raw, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(raw)), "\n")
	}
}

const peerAnswer = `echo '{"peer":"'$3'","version":"v1","workload":"enqueue","callers":10,"jobs":3000,"sync_ms":1.2,"syncs":400,"seconds":1.2,"jobs_per_second":2500.5,"lost":0,"valid":true}'
`

// The two programs meet in arguments and JSON.
func TestPeerRun_AsksAndReadsWhatThePeersProgramKnows(t *testing.T) {
	t.Parallel()
	s, calls := peersScript(t, strings.Replace(peerAnswer, `"v1"`, `"in '$TMPDIR'"`, 1))
	s.Dir = t.TempDir()
	run := s.peerRun(t.Context(), peerKey{Asynq, Enqueue, 10, time.Millisecond})
	if want := "in " + s.Dir; run.Version != want { // Its data must be on the disk that ours is on.
		t.Errorf("it ran %q, want %q", run.Version, want)
	}
	if !run.Valid || run.Peer != Asynq || run.PerSecond != 2500.5 || run.Syncs != 400 || run.Seconds != 1.2 {
		t.Errorf("%+v", run)
	}
	if got, want := calls()[0], "run --peer asynq --workload enqueue --callers 10 --jobs 800 --at-least 1s --payload-bytes 100 --sync-delay 1ms"; got != want {
		t.Errorf("called %q, want %q", got, want)
	}
}

// A ratio that is an aim compares runs of the same minutes; other peers are there to be seen.
func TestMeasurePeers_ThoseOfARatioRunAgainAndOthersSayThatTheyAreEarlier(t *testing.T) {
	t.Parallel()
	s, calls := peersScript(t, peerAnswer)
	sc := scenario{options: Options{Workload: Enqueue, Connections: 10, Concurrency: 1}, peers: []Peer{Beanstalkd, Asynq}, aims: []aim{throughput(1), ratio(Asynq, 2)}}
	text := func() (all []string) {
		for _, p := range s.measurePeers(t.Context(), sc) {
			all = append(all, p.String())
		}
		return all
	}
	if got := text(); !slices.Equal(got, []string{"beanstalkd 2,500", "asynq 2,500"}) {
		t.Errorf("first %q", got)
	}
	if got := text(); !slices.Equal(got, []string{"beanstalkd 2,500*", "asynq 2,500"}) {
		t.Errorf("then %q", got)
	}
	var order []string
	for _, c := range calls() {
		order = append(order, strings.Fields(c)[2])
	}
	if want := []string{"asynq", "beanstalkd", "asynq"}; !slices.Equal(order, want) { // The one of the ratio right after ours.
		t.Errorf("ran %q, want %q", order, want)
	}
}

func TestPeerRun_FailureIsItsProblem(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"echo 'peers: redis-server is not there' >&2; exit 1\n": "redis-server is not there",
		"exec sleep 60\n": "it took more than 100ms",
		"echo nonsense\n": "read what",
	} {
		s, _ := peersScript(t, script)
		s.patience = 100 * time.Millisecond
		run := s.peerRun(t.Context(), peerKey{Asynq, Enqueue, 10, 0})
		if run.Valid || run.Peer != Asynq || !strings.Contains(run.String(), want) {
			t.Errorf("%q: %s", script, run)
		}
		if row := (Row{Name: "work", Peers: []*PeerRun{run}}); row.valid() {
			t.Errorf("%q: a row beside it is valid", script)
		}
	}
}

// What fails is a row, and the rows before and after it stay.
func TestSuite_OneFailureDoesNotLoseTheOtherRows(t *testing.T) {
	t.Parallel()
	good := func(name string) work {
		return work{name: name, measure: func(context.Context) ([]Row, error) {
			return []Row{{Name: name, Known: true, Report: &Report{Valid: true}}}, nil
		}}
	}
	broken := work{name: "second", measure: func(context.Context) ([]Row, error) { return nil, errors.New("it did not start") }}
	result := &SuiteResult{Valid: true}
	if err := (&Suite{}).measureAll(t.Context(), []work{good("first"), broken, good("third")}, result); err != nil {
		t.Fatal(err)
	}
	if len(result.Rows) != 3 || result.Valid || result.Rows[1].verdict() != "INVALID: not measured: it did not start" || !result.Rows[2].valid() {
		t.Errorf("%+v", result)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := work{name: "second", measure: func(context.Context) ([]Row, error) { cancel(); return nil, context.Canceled }}
	result = &SuiteResult{Valid: true}
	if err := (&Suite{}).measureAll(ctx, []work{good("first"), stop, good("third")}, result); !errors.Is(err, context.Canceled) || len(result.Rows) != 1 || result.Valid {
		t.Errorf("interrupted: %v %+v", err, result)
	}
}

func TestRow_WhatItIsComparedWithFailed(t *testing.T) {
	t.Parallel()
	m := measured{report: &Report{Valid: true, Phase: Phase{PerSecond: 10}}, peers: []*PeerRun{{Peer: River, Problems: []string{"lost one"}}}}
	m.compare(sound(&Report{Problems: []string{"1 job lost"}}, "the base", nil))
	for want, a := range map[string]aim{
		"met": throughput(1),
		"INVALID: the base, to compare with: INVALID: 1 job lost":                          shareOfBase("base", 85),
		"INVALID: the base, to compare with: INVALID: 1 job lost; river INVALID: lost one": ratio(River, 2),
	} {
		if row := a.row("work", m); row.verdict() != want || row.valid() != (want == "met") {
			t.Errorf("%s: %q (valid: %v), want %q", row.Name, row.verdict(), row.valid(), want)
		}
	}
}

func TestNotes_NameTheMachineThePeersAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	asynq := &PeerRun{Peer: Asynq, Version: "v1 on Redis 7", Valid: true}
	earlier := *asynq
	earlier.Earlier = true
	r := &SuiteResult{Machine: Machine{CPUs: 2, Kernel: "Linux 6.1", FileSystem: "ext4", Commit: "abc", LoadBefore: 9},
		Rows: []Row{{Peers: []*PeerRun{asynq}}, {Peers: []*PeerRun{&earlier}}}, Skipped: []Skipped{{"proxy", "no program"}}}
	want := []string{"measured: 2 processors, Linux 6.1, ext4, commit abc", "asynq: v1 on Redis 7", "* measured beside an earlier row with as many callers",
		"skipped: proxy: no program", r.Machine.busy()}
	if got := r.Notes(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	m := (&Suite{Commit: "abc"}).machine()
	if m.Commit != "abc" || m.Kernel == "" {
		t.Errorf("%+v", m)
	}
}

// The row before keeps the machine busy; only the suite's own note says that others did.
func TestRun_OfARowSaysNothingOfTheLoadBefore(t *testing.T) {
	t.Parallel()
	r, err := prepare(small(Enqueue, Stream), serve(t, faults{}))
	if err != nil {
		t.Fatal(err)
	}
	r.machine = Machine{CPUs: 2, LoadBefore: 9}
	if report, err := r.report(t.Context()); err != nil || len(report.Notes) > 0 || report.Machine.busy() == "" {
		t.Errorf("%v %+v", err, report)
	}
}

func TestSuite_WithoutTheProgramOfItsPeersDoesNotBegin(t *testing.T) {
	t.Parallel()
	if _, err := (&Suite{Peers: filepath.Join(t.TempDir(), "peers")}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "measures peers") {
		t.Error(err)
	}
}

func TestChosen_NamesWhatThereIsAndWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	names := func(s Suite) (did []string, left []Skipped, err error) {
		chosen, left, err := s.chosen()
		for _, w := range chosen {
			did = append(did, w.name)
		}
		return did, left, err
	}
	if _, _, err := names(Suite{Only: "no such row"}); !errors.Is(err, ErrNoWork) || !strings.Contains(err.Error(), fiftyHTTP) || !strings.Contains(err.Error(), idleName) {
		t.Errorf("a name that nothing has: %v", err)
	}
	if did, left, err := names(Suite{Only: fiftyHTTP}); err != nil || !slices.Equal(did, []string{fiftyHTTP}) || len(left) != 1 || left[0].Name != "proxy, "+fiftyHTTP || !strings.Contains(left[0].Why, "corvo-cloud") {
		t.Errorf("without corvo-cloud: %q, %+v, %v", did, left, err)
	}
	if _, _, err := names(Suite{Only: "three nodes"}); !errors.Is(err, ErrNoWork) || !strings.Contains(err.Error(), "corvo-cloud") {
		t.Errorf("nothing but what needs corvo-cloud: %v", err)
	}
	if _, left, err := names(Suite{Cloud: "corvo-cloud", Quick: true}); err != nil || len(left) != len(burdens()) {
		t.Errorf("quick leaves out %+v, %v", left, err)
	}
	if did, left, err := names(Suite{Cloud: "corvo-cloud"}); err != nil || len(left) > 0 || len(did) != len(scenarios())+1+len(burdens()) {
		t.Errorf("all: %q, %+v, %v", did, left, err)
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

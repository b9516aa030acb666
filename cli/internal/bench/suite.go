package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Suite measures the table of aims, each row on a fresh server of its own.
type Suite struct {
	Binary string
	// Cloud is the corvo-cloud binary; empty leaves the rows with three nodes out.
	Cloud string
	Quick bool   // A tenth of the work, no large backlogs.
	Only  string // Only rows whose name contains this.

	Progress func(phase string, done, total int)
	RowDone  func(Row)
}

// Row is one measured number beside its aim.
type Row struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Measured float64 `json:"measured"`
	Aim      float64 `json:"aim"`
	// AtMost: smaller is better.
	AtMost bool    `json:"at_most"`
	Met    bool    `json:"met"`
	Known  bool    `json:"known"` // False when the server does not report what this row needs.
	Report *Report `json:"report,omitempty"`
}

// SuiteResult is the whole table.
type SuiteResult struct {
	Machine Machine `json:"machine"`
	Quick   bool    `json:"quick"`
	Rows    []Row   `json:"rows"`
	// Valid: no row lost or duplicated a job. Missing an aim does not make a
	// result invalid.
	Valid bool `json:"valid"`
}

// Note says what a reader of the table must know; often nothing.
func (r *SuiteResult) Note() string { return r.Machine.busy() }

// RowHeader is the header of Cells.
func RowHeader() []string {
	return []string{"WORK", "AIM", "MEASURED", "SERVER CPU", "MEMORY", "VERDICT"}
}

// Cells is the row for a table.
func (r Row) Cells() []string {
	bound := "≥ "
	if r.AtMost {
		bound = "≤ "
	}
	cells := []string{r.Name, bound + number(r.Aim, r.Unit), "not reported", "-", "-", r.verdict()}
	if r.Known {
		cells[2] = number(r.Measured, r.Unit)
	}
	if r.Report != nil && r.Report.Phase.ServerCPUMicrosJob >= 0 {
		cells[3] = fmt.Sprintf("%.1f µs/job", r.Report.Phase.ServerCPUMicrosJob)
		cells[4] = fmt.Sprintf("%d MB", r.Report.Phase.ServerRSSBytes>>20)
	}
	return cells
}

func (r Row) String() string {
	c := r.Cells()
	return fmt.Sprintf("%s: %s (aim %s) %s", c[0], c[2], c[1], c[5])
}

func (r Row) verdict() string {
	switch {
	case r.Report != nil && !r.Report.Valid:
		return "INVALID: " + strings.Join(r.Report.Problems, "; ")
	case !r.Known:
		return "-"
	case r.Met:
		return "met"
	case r.AtMost:
		return fmt.Sprintf("missed (%.2f×)", r.Measured/r.Aim)
	default:
		return fmt.Sprintf("missed (%.0f %%)", 100*r.Measured/r.Aim)
	}
}

func number(v float64, unit string) string {
	switch {
	case unit == "jobs/s":
		return thousands(int64(v)) + " " + unit
	case v >= 100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f %s", v, unit)
	default:
		return fmt.Sprintf("%.3g %s", v, unit)
	}
}

// aim is one expectation of a run.
type aim struct {
	name   string
	unit   string
	atMost bool
	value  float64
	of     func(*Report) float64 // Negative: not known.
}

func throughput(atLeast float64) aim {
	return aim{unit: "jobs/s", value: atLeast, of: func(r *Report) float64 { return r.Phase.PerSecond }}
}

func syncs(atMost float64) aim {
	return aim{name: "syncs per 1,000 jobs", unit: "syncs", atMost: true, value: atMost, of: func(r *Report) float64 { return r.Phase.SyncsPerThousand }}
}

func aboveSync(name string, atMost float64, of func(Percentiles) float64) aim {
	return aim{name: name + " above the sync", unit: "ms", atMost: true, value: atMost, of: func(r *Report) float64 {
		return max(0, of(r.Phase.Latency)-r.Durability.SyncDelayMS)
	}}
}

func p50(p Percentiles) float64 { return p.P50 }
func p99(p Percentiles) float64 { return p.P99 }

// scenario is one run and what is expected of it.
type scenario struct {
	name      string
	syncDelay time.Duration
	options   Options
	aims      []aim
	nodes     int // 0 is a node alone.
}

// scenarios is the table of aims: what the design should reach on two cores that
// client and server share, with 100-byte payloads and every commit synced.
func scenarios() []scenario {
	const ms = time.Millisecond
	run := func(w Workload, p Protocol, jobs, batch, connections, concurrency int) Options {
		return Options{Workload: w, Protocol: p, Jobs: jobs, Batch: batch, Connections: connections, Concurrency: concurrency, PayloadBytes: 100}
	}
	alone := []scenario{
		{"1 ms: enqueue, 10 producers on one connection", ms, run(Enqueue, Stream, 60_000, 1, 1, 10), []aim{throughput(7_500), syncs(110)}, 0},
		{"1 ms: enqueue, 50 producers on one connection", ms, run(Enqueue, Stream, 200_000, 1, 1, 50), []aim{throughput(34_000), syncs(25)}, 0},
		{"1 ms: enqueue, 10 streams", ms, run(Enqueue, Stream, 60_000, 1, 10, 1), []aim{throughput(6_500)}, 0},
		{"1 ms: enqueue, 50 streams", ms, run(Enqueue, Stream, 150_000, 1, 50, 1), []aim{throughput(19_000)}, 0},
		{"1 ms: enqueue, 10 HTTP connections", ms, run(Enqueue, HTTP, 60_000, 1, 10, 1), []aim{throughput(6_500)}, 0},
		{"1 ms: enqueue, 50 HTTP connections", ms, run(Enqueue, HTTP, 150_000, 1, 50, 1), []aim{throughput(19_000)}, 0},
		{"1 ms: lifecycle, 10 handlers on one connection", ms, run(Lifecycle, Stream, 60_000, 1, 1, 10), []aim{throughput(7_500), syncs(110)}, 0},
		{"1 ms: lifecycle, 50 handlers on one connection", ms, run(Lifecycle, Stream, 200_000, 1, 1, 50), []aim{throughput(30_000), syncs(25)}, 0},
		{"1 ms: enqueue, frames of 64, 10 connections", ms, run(Enqueue, Stream, 1_000_000, 64, 10, 1), []aim{throughput(200_000)}, 0},
		{"1 ms: lifecycle, frames of 64, 10 connections", ms, run(Lifecycle, Stream, 600_000, 64, 10, 1), []aim{throughput(115_000)}, 0},
		{"bare: lifecycle, 10 handlers on one connection", 0, run(Lifecycle, Stream, 300_000, 1, 1, 10), []aim{throughput(48_000)}, 0},
		{"bare: lifecycle, 50 handlers on one connection", 0, run(Lifecycle, Stream, 500_000, 1, 1, 50), []aim{throughput(85_000)}, 0},
		{"bare: enqueue, frames of 64, 10 connections", 0, run(Enqueue, Stream, 1_500_000, 64, 10, 1), []aim{throughput(350_000)}, 0},
		{"bare: lifecycle, frames of 64, 10 connections", 0, run(Lifecycle, Stream, 800_000, 64, 10, 1), []aim{throughput(150_000)}, 0},
		{"bare: enqueue, 50 HTTP connections", 0, run(Enqueue, HTTP, 250_000, 1, 50, 1), []aim{throughput(42_000)}, 0},
		{"bare: lifecycle, 50 HTTP connections", 0, run(Lifecycle, HTTP, 120_000, 1, 50, 1), []aim{throughput(18_000)}, 0},
		{"1 ms: one caller, enqueue p50", ms, run(Single, Stream, 5_000, 1, 1, 1), []aim{aboveSync("", 0.10, p50)}, 0},
		{"1 ms: enqueue to idle handler", ms, run(Latency, Stream, 1_000, 1, 1, 1), []aim{aboveSync("p50", 0.3, p50), aboveSync("p99", 0.6, p99)}, 0},
		{"bare: enqueue to idle handler", 0, run(Latency, Stream, 1_000, 1, 1, 1), []aim{aboveSync("p50", 0.3, p50), aboveSync("p99", 0.6, p99)}, 0},
	}
	return append(alone,
		scenario{"three nodes, 1 ms: enqueue, frames of 64, 10 connections", ms, run(Enqueue, Stream, 400_000, 64, 10, 1), []aim{throughput(85_000)}, 3},
		scenario{"three nodes, 1 ms: lifecycle, frames of 64, 10 connections", ms, run(Lifecycle, Stream, 250_000, 64, 10, 1), []aim{throughput(50_000)}, 3},
		scenario{"three nodes, bare: enqueue, frames of 64, 10 connections", 0, run(Enqueue, Stream, 700_000, 64, 10, 1), []aim{throughput(150_000)}, 3},
		scenario{"three nodes, bare: lifecycle, frames of 64, 10 connections", 0, run(Lifecycle, Stream, 300_000, 64, 10, 1), []aim{throughput(60_000)}, 3},
	)
}

// quickDivisor is how much less work --quick does.
const quickDivisor = 10

// Run measures every row. It stops at the first that cannot be measured at all.
func (s *Suite) Run(ctx context.Context) (*SuiteResult, error) {
	result := &SuiteResult{Valid: true, Machine: thisMachine(), Quick: s.Quick}
	reports := make(map[string]*Report)
	for _, sc := range scenarios() {
		if !strings.Contains(sc.name, s.Only) || sc.nodes > 1 && s.Cloud == "" {
			continue
		}
		report, err := s.measure(ctx, sc)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sc.name, err)
		}
		reports[sc.name] = report
		for _, a := range sc.aims {
			s.add(result, a.row(sc.name, report))
		}
	}
	if s.Quick || !strings.Contains(backlogName, s.Only) {
		return result, nil
	}
	rows, err := s.backlog(ctx, reports[backlogBase])
	for _, row := range rows {
		s.add(result, row)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", backlogName, err)
	}
	return result, nil
}

func (s *Suite) add(result *SuiteResult, row Row) {
	result.Rows = append(result.Rows, row)
	result.Valid = result.Valid && (row.Report == nil || row.Report.Valid)
	if s.RowDone != nil {
		s.RowDone(row)
	}
}

func (a aim) row(scenario string, r *Report) Row {
	row := Row{Name: strings.Join(strings.Fields(scenario+" "+a.name), " "), Unit: a.unit, Aim: a.value, AtMost: a.atMost, Measured: a.of(r), Report: r}
	row.Known = row.Measured >= 0
	row.Met = row.Known && (row.Measured >= row.Aim) != a.atMost || row.Known && row.Measured == row.Aim
	return row
}

func (s *Suite) measure(ctx context.Context, sc scenario) (report *Report, err error) {
	o := sc.options
	if s.Quick {
		o.Jobs = max(200, o.Jobs/quickDivisor)
	}
	o.Progress = s.Progress
	spawn := SpawnOptions{Binary: s.Binary, SyncDelay: sc.syncDelay, Nodes: sc.nodes}
	if sc.nodes > 1 {
		spawn.Binary = s.Cloud
	}
	target, err := Spawn(ctx, spawn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	return Run(ctx, o, target)
}

const (
	backlogJobs = 1_000_000
	backlogName = "bare: with 1 M jobs waiting"
	// backlogBase is the run that the lifecycle beside a backlog is compared with.
	backlogBase = "bare: lifecycle, frames of 64, 10 connections"
)

// backlog measures what a million waiting jobs cost: memory, speed beside them,
// and a start after a kill.
func (s *Suite) backlog(ctx context.Context, base *Report) ([]Row, error) {
	dir, err := os.MkdirTemp("", "corvo-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // A temporary directory; the system removes what is left.
	spawn := SpawnOptions{Binary: s.Binary, Dir: dir}
	target, err := Spawn(ctx, spawn)
	if err != nil {
		return nil, err
	}
	o := Options{Workload: Lifecycle, Protocol: Stream, Jobs: 300_000, Batch: 64, Connections: 10, Concurrency: 1, PayloadBytes: 100,
		Backlog: backlogJobs, KeepBacklog: true, Progress: s.Progress}
	report, err := Run(ctx, o, target)
	if err != nil {
		return nil, errors.Join(err, target.Close())
	}
	rows := []Row{{Name: backlogName + ": memory", Unit: "MB", Aim: 300, AtMost: true, Measured: float64(report.Phase.ServerRSSBytes >> 20),
		Known: report.Phase.ServerRSSBytes >= 0, Met: report.Phase.ServerRSSBytes>>20 <= 300, Report: report}}
	if base != nil {
		share := 100 * report.Phase.PerSecond / base.Phase.PerSecond
		rows = append(rows, Row{Name: backlogName + ": lifecycle, share of empty", Unit: "%", Aim: 90, Measured: share, Known: true, Met: share >= 90, Report: report})
	}
	restart, err := s.restart(ctx, target, spawn)
	if err != nil {
		return rows, err
	}
	return append(rows, Row{Name: backlogName + ": start after kill -9", Unit: "s", Aim: 0.5, AtMost: true, Measured: restart.Seconds(), Known: true,
		Met: restart <= 500*time.Millisecond}), nil
}

// restart kills the server and measures until the next one is ready.
func (s *Suite) restart(ctx context.Context, target *Target, spawn SpawnOptions) (time.Duration, error) {
	target.Kill()
	if err := os.Remove(filepath.Join(spawn.Dir, "bench.env")); err != nil {
		return 0, fmt.Errorf("forget the killed server: %w", err)
	}
	began := time.Now()
	again, err := Spawn(ctx, spawn)
	if err != nil {
		return 0, fmt.Errorf("start after the kill: %w", err)
	}
	took := time.Since(began)
	return took, again.Close()
}

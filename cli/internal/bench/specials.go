package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// burden is what a server has before it is measured, and what it may cost.
type burden struct {
	name     string
	waiting  int     // Jobs that wait in the queue.
	finished int     // Jobs that have ended and are kept.
	memoryMB float64 // 0: no aim.
	start    time.Duration
}

func burdens() []burden {
	return []burden{
		{"bare: with 1 M jobs waiting", 1_000_000, 0, 300, 500 * time.Millisecond},
		{"bare: with 10 M jobs waiting", 10_000_000, 0, 0, time.Second},
		{"bare: with 1 M jobs finished", 0, 1_000_000, 300, 500 * time.Millisecond},
	}
}

// burdened measures what jobs cost that are there beside the work: memory, speed, and a start
// after a kill.
func (s *Suite) burdened(ctx context.Context, b burden) ([]Row, error) {
	dir, err := os.MkdirTemp(s.Dir, "corvo-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // A temporary directory; the system removes what is left.
	spawn := SpawnOptions{Binary: s.Binary, Dir: dir}
	target, err := Spawn(ctx, spawn)
	if err != nil {
		return nil, err
	}
	report, runs, err := s.runBurdened(ctx, b, target)
	if err != nil {
		return nil, errors.Join(err, target.Close())
	}
	start := s.restart(ctx, b, target, spawn, runs)
	m := measured{report: report}
	m.compare(s.runEmpty(ctx))
	memory := Row{Name: b.name + ": memory", Unit: "MB", Aim: b.memoryMB, AtMost: true, Measured: megabytes(report.Phase.ServerRSSBytes), Report: report}
	return []Row{throughput(0).row(b.name+": lifecycle, frames of 64, 10 connections", m), shareOfBase("empty", 90).row(b.name+": lifecycle", m),
		memory.judged(report.Phase.ServerRSSBytes >= 0), start}, nil
}

// runBurdened is a lifecycle beside the burden. The runs are all that put jobs there.
func (s *Suite) runBurdened(ctx context.Context, b burden, target *Target) (report *Report, runs []*run, err error) {
	o := s.burdenedOptions()
	o.Backlog, o.KeepBacklog = b.waiting, true
	sizes := []int{o.Jobs}
	if b.finished > 0 {
		sizes = []int{b.finished, o.Jobs}
	}
	for _, o.Jobs = range sizes {
		r, err := prepare(o, target)
		if err != nil {
			return nil, nil, err
		}
		runs = append(runs, r)
		if report, err = r.report(ctx); err != nil || !report.Valid {
			return report, runs, err
		}
	}
	return report, runs, nil
}

// runEmpty is the same lifecycle on a server that has nothing else, right after the other one.
func (s *Suite) runEmpty(ctx context.Context) (report *Report, err error) {
	target, err := Spawn(ctx, SpawnOptions{Binary: s.Binary, Under: s.Dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	report, err = runRow(ctx, s.burdenedOptions(), target)
	return sound(report, "an empty server", err)
}

func (s *Suite) burdenedOptions() Options {
	return Options{Workload: Lifecycle, Protocol: Stream, Jobs: burdenedJobs, Batch: 64, Connections: 10, Concurrency: 1, PayloadBytes: payloadBytes, Progress: s.Progress}
}

const burdenedJobs = 300_000

// restart kills the server, measures until the next one is ready, and whether that has what
// the runs left.
func (s *Suite) restart(ctx context.Context, b burden, target *Target, spawn SpawnOptions, runs []*run) Row {
	row := Row{Name: b.name + ": start after kill -9", Unit: "s", Aim: b.start.Seconds(), AtMost: true}
	target.Kill()
	took, report, err := startAgain(ctx, spawn, runs)
	if err != nil {
		row.Problems = []string{"after kill -9: " + err.Error()}
	}
	row.Measured, row.Report = took.Seconds(), report
	return row.judged(took > 0)
}

func startAgain(ctx context.Context, spawn SpawnOptions, runs []*run) (took time.Duration, report *Report, err error) {
	if err := os.Remove(filepath.Join(spawn.Dir, envName)); err != nil {
		return 0, nil, fmt.Errorf("forget the killed server: %w", err)
	}
	began := time.Now()
	again, err := Spawn(ctx, spawn)
	if err != nil {
		return 0, nil, err
	}
	took = time.Since(began)
	defer func() { err = errors.Join(err, again.Close()) }()
	report, err = outlivedAll(ctx, runs, again)
	return took, report, err
}

// outlivedAll is the report of the last run, with the problems of all.
func outlivedAll(ctx context.Context, runs []*run, again *Target) (report *Report, err error) {
	var problems []string
	for _, r := range runs {
		if report, err = r.outlived(ctx, again); err != nil {
			return nil, err
		}
		problems = append(problems, report.Problems...)
	}
	report.Problems, report.Valid = problems, len(problems) == 0
	return report, nil
}

const (
	idleName    = "up, idle"
	idleSettle  = 10 * time.Second
	idleLasting = 30 * time.Second
	idleNodes   = 3 // What up runs unless it is told.
)

// idle measures what `corvo-cloud up` costs while nobody calls it.
func (s *Suite) idle(ctx context.Context) (rows []Row, err error) {
	target, err := Spawn(ctx, SpawnOptions{Binary: s.Cloud, Nodes: idleNodes, Under: s.Dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	settle, lasting := idleSettle, idleLasting
	if s.Quick {
		settle, lasting = settle/quickDivisor, lasting/quickDivisor
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, err
	}
	before, _, _ := procUsage(target.pid)
	if err := sleep(ctx, lasting); err != nil {
		return nil, err
	}
	after, rss, _ := procUsage(target.pid)
	cpu := Row{Name: idleName + ": of a core", Unit: "%", Aim: 2, AtMost: true, Measured: percent(float64(after-before), float64(lasting))}
	memory := Row{Name: idleName + ": memory", Unit: "MB", Aim: 80, AtMost: true, Measured: megabytes(rss)}
	return []Row{cpu.judged(before >= 0 && after >= 0), memory.judged(rss >= 0)}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/node/calibrate"
)

// Limit is what the machine can do without a queue.
type Limit struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
}

// Calibration is the limits of the machine, measured before anything else.
type Calibration struct {
	Limits []Limit `json:"limits"`
}

// of is a limit's value; negative when it was not measured.
func (c *Calibration) of(name string) float64 {
	if c != nil {
		for _, l := range c.Limits {
			if l.Name == name {
				return l.Value
			}
		}
	}
	return -1
}

// LimitHeader is the header of Cells.
func LimitHeader() []string { return []string{"LIMIT OF THIS MACHINE", "MEASURED"} }

// Cells are the limits as rows of a table.
func (c *Calibration) Cells() [][]string {
	var rows [][]string
	for _, l := range c.Limits {
		rows = append(rows, []string{l.Name, number(l.Value, l.Unit)})
	}
	return rows
}

// The names of limits say what they depend on.

func withDelay(d time.Duration) string {
	if d == 0 {
		return "bare"
	}
	return fmt.Sprintf("%g ms", float64(d)/float64(time.Millisecond))
}

func limitSync(d time.Duration) string { return withDelay(d) + ": fdatasync of 4 KB, p50" }
func limitWrite() string               { return "bare: writes of 1 MiB, each synced" }
func limitBatch(d time.Duration, writers int) string {
	return fmt.Sprintf("%s: Pebble, synced batches of 64, writers: %d", withDelay(d), writers)
}
func limitRaft(d time.Duration, callers int) string {
	return fmt.Sprintf("%s: raft alone, callers: %d", withDelay(d), callers)
}
func limitEcho(p Protocol, connections int) string {
	if p == HTTP {
		return fmt.Sprintf("HTTP/1.1 echo, connections: %d", connections)
	}
	return fmt.Sprintf("Connect stream echo, one job per frame, streams: %d", connections)
}

// manyCallers is enough for raft to commit as much at once as it can.
const manyCallers = 256

// gauge measures one limit.
type gauge struct {
	name, unit string
	measure    func(ctx context.Context) (float64, error)
}

func (s *Suite) gauges(dir string, lasting time.Duration) []gauge {
	var all []gauge
	for _, delay := range []time.Duration{0, time.Millisecond} {
		d := calibrate.Disk{Dir: dir, SyncDelay: delay}
		all = append(all, gauge{limitSync(delay), "ms", func(context.Context) (float64, error) {
			median, err := d.Sync()
			return float64(median) / float64(time.Millisecond), err
		}})
		for _, writers := range []int{1, 10} {
			all = append(all, gauge{limitBatch(delay, writers), "jobs/s", func(context.Context) (float64, error) { return d.Batches(writers, lasting) }})
		}
		for _, callers := range []int{1, manyCallers} {
			all = append(all, gauge{limitRaft(delay, callers), "jobs/s", func(ctx context.Context) (float64, error) { return d.Raft(ctx, callers, lasting) }})
		}
	}
	all = append(all, gauge{limitWrite(), "MB/s", func(context.Context) (float64, error) {
		bytes, err := calibrate.Disk{Dir: dir}.Write(lasting)
		return bytes / megabyte, err
	}})
	for _, p := range []Protocol{Stream, HTTP} {
		for _, connections := range []int{10, 50} {
			all = append(all, gauge{limitEcho(p, connections), "jobs/s", func(ctx context.Context) (float64, error) { return s.echo(ctx, p, connections) }})
		}
	}
	return all
}

const (
	gaugeLasting = 3 * time.Second
	echoJobs     = 150_000
)

func (s *Suite) calibrate(ctx context.Context) (c *Calibration, err error) {
	dir, err := os.MkdirTemp(s.Dir, "corvo-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	lasting := gaugeLasting
	if s.Quick {
		lasting /= quickDivisor
	}
	c = &Calibration{}
	gauges := s.gauges(dir, lasting)
	for i, g := range gauges {
		if s.Progress != nil {
			s.Progress("calibrate", i, len(gauges))
		}
		value, err := g.measure(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.name, err)
		}
		c.Limits = append(c.Limits, Limit{g.name, g.unit, value})
	}
	return c, nil
}

// echo measures the generator against a server in another process that does nothing.
func (s *Suite) echo(ctx context.Context, p Protocol, connections int) (perSecond float64, err error) {
	target, err := Spawn(ctx, SpawnOptions{Binary: s.Binary, Echo: true, Under: s.Dir})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	o := Options{Workload: Enqueue, Protocol: p, Jobs: s.work(echoJobs), Batch: 1, Connections: connections, Concurrency: 1, PayloadBytes: 100, Server: target.URL}
	r := newRun(o, target)
	phase, err := r.timed(ctx, o.Jobs, r.enqueueLoop)
	return phase.PerSecond, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Workloads, as those of `corvo bench`.
const (
	enqueue   = "enqueue"
	lifecycle = "lifecycle"
)

type options struct {
	peer, workload              string
	callers, jobs, payloadBytes int
	syncDelay                   time.Duration
}

// result is what is printed. Negative numbers are not known.
type result struct {
	Peer         string  `json:"peer"`
	Version      string  `json:"version"`
	Workload     string  `json:"workload"`
	Callers      int     `json:"callers"`
	Jobs         int     `json:"jobs"`
	PayloadBytes int     `json:"payload_bytes"`
	SyncDelayMS  float64 `json:"sync_delay_ms"`
	// Syncs are those of the measured phase, and SyncMS how long one took on average.
	// Of a Go program they are counted only with a delay, and SyncMS is the median of
	// another Go program beside it.
	Syncs      int64    `json:"syncs"`
	SyncMS     float64  `json:"sync_ms"`
	Seconds    float64  `json:"seconds"`
	PerSecond  float64  `json:"jobs_per_second"`
	Lost       int      `json:"lost"`
	Duplicated int      `json:"duplicated"`
	Unexpected int      `json:"unexpected"`
	Valid      bool     `json:"valid"`
	Problems   []string `json:"problems,omitempty"`
}

// queue is a running server of a peer and the way its own clients use it.
type queue interface {
	// producer returns how one producer adds a job; it returns when the job is durable.
	producer(ctx context.Context) (func(ctx context.Context, body []byte) error, error)
	// work takes jobs with so many handlers, each with one at a time, until handled
	// returns false or ctx ends. It returns when every ack is confirmed.
	work(ctx context.Context, handlers int, handled func(body []byte) bool) error
	close()
}

// system starts a peer's server in a folder, through a launcher.
type system struct {
	name    string
	version func() (string, error)
	open    func(ctx context.Context, l launcher, o options) (queue, error)
	goes    bool // It is written in Go.
}

func systems() []system {
	return []system{
		{"beanstalkd", programVersion("beanstalkd", "-v"), openBeanstalkd, false},
		{"asynq", asynqVersion, openAsynq, false},
		{"asynq-raw", asynqVersion, openAsynqRaw, false},
		{"jetstream", natsVersion, openNATS, true},
		{"river", riverVersion, openRiver, false},
	}
}

func names() []string {
	var all []string
	for _, s := range systems() {
		all = append(all, s.name)
	}
	return all
}

// fillers is how many callers move jobs in and out when that is not measured.
const fillers = 50

func run(ctx context.Context, o options) (r result, err error) {
	all := systems()
	peer := all[slices.IndexFunc(all, func(s system) bool { return s.name == o.peer })]
	r = result{Peer: o.peer, Workload: o.workload, Callers: o.callers, Jobs: o.jobs, PayloadBytes: o.payloadBytes, SyncDelayMS: ms(o.syncDelay), Syncs: -1, SyncMS: -1}
	if r.Version, err = peer.version(); err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp("", "corvo-peers-")
	if err != nil {
		return r, fmt.Errorf("make a data directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // A temporary directory; the system removes what is left.
	l, err := newLauncher(dir, o.syncDelay)
	if err != nil {
		return r, err
	}
	if peer.goes {
		slow, err := l.probeDelay()
		if err != nil {
			return r, err
		}
		r.SyncMS = ms(slow)
	}
	q, err := peer.open(ctx, l, o)
	if err != nil {
		return r, err
	}
	defer q.close()
	w := newWork(o)
	if err := w.measure(ctx, q, l, &r); err != nil {
		return r, err
	}
	w.account(&r)
	return r, nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// work is a fixed number of jobs, each with its number in its payload, and how often
// each was handed out.
type work struct {
	options
	next       atomic.Int64
	seen       []atomic.Int32
	handled    atomic.Int64
	unexpected atomic.Int64
}

func newWork(o options) *work { return &work{options: o, seen: make([]atomic.Int32, o.jobs)} }

func (w *work) measure(ctx context.Context, q queue, l launcher, r *result) error {
	enqueuers, handlers := w.callers, fillers
	if w.workload == lifecycle {
		enqueuers, handlers = fillers, w.callers
	}
	timed := func(phase string, measured bool, do func() error) error {
		before, err := l.syncs()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		if !measured {
			return nil
		}
		r.Seconds = time.Since(began).Seconds()
		r.PerSecond = float64(w.jobs) / r.Seconds
		after, err := l.syncs()
		if n := after.count - before.count; n > 0 {
			r.Syncs = n
			if took := after.took - before.took; took > 0 {
				r.SyncMS = ms(took) / float64(n)
			}
		}
		return err
	}
	if err := timed(enqueue, w.workload == enqueue, func() error { return w.enqueueAll(ctx, q, enqueuers) }); err != nil {
		return err
	}
	return timed(lifecycle, w.workload == lifecycle, func() error { return w.handleAll(ctx, q, handlers) })
}

func (w *work) enqueueAll(ctx context.Context, q queue, producers int) error {
	group, ctx := errgroup.WithContext(ctx)
	for range producers {
		add, err := q.producer(ctx)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error {
			for {
				n := w.next.Add(1) - 1
				if n >= int64(w.jobs) {
					return nil
				}
				if err := add(ctx, payload(n, w.payloadBytes)); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// stallMax ends a lifecycle that no longer moves: jobs are missing then.
const stallMax = 20 * time.Second

func (w *work) handleAll(ctx context.Context, q queue, handlers int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go w.watch(ctx, cancel) // Ends with ctx.
	err := q.work(ctx, handlers, w.note)
	if errors.Is(err, context.Canceled) {
		return nil // The account says what is missing.
	}
	return err
}

func (w *work) watch(ctx context.Context, giveUp func()) {
	tick := time.NewTicker(stallMax)
	defer tick.Stop()
	for last := int64(-1); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := w.handled.Load()
		if now == last {
			giveUp()
			return
		}
		last = now
	}
}

// note counts a job that was handed out, and says whether there should be more.
func (w *work) note(body []byte) bool {
	n, err := number(body)
	if err != nil || n < 0 || n >= int64(len(w.seen)) {
		w.unexpected.Add(1)
		return true
	}
	w.seen[n].Add(1)
	return w.handled.Add(1) < int64(w.jobs)
}

func (w *work) account(r *result) {
	for i := range w.seen {
		switch n := w.seen[i].Load(); {
		case n == 0:
			r.Lost++
		case n > 1:
			r.Duplicated += int(n - 1)
		}
	}
	r.Unexpected = int(w.unexpected.Load())
	for what, n := range map[string]int{"lost": r.Lost, "handed out twice": r.Duplicated, "never enqueued": r.Unexpected} {
		if n > 0 {
			r.Problems = append(r.Problems, fmt.Sprintf("%d jobs %s", n, what))
		}
	}
	// A Go program without a delay is the one whose syncs nobody counts.
	if counted := r.Syncs >= 0 || r.SyncDelayMS > 0 || r.SyncMS < 0; counted && r.Syncs*int64(r.Callers) < int64(r.Jobs) {
		r.Problems = append(r.Problems, fmt.Sprintf("%d syncs for %d jobs of %d callers: not every job was synced before it was acknowledged", r.Syncs, r.Jobs, r.Callers))
	}
	if r.SyncMS >= 0 && r.SyncMS < r.SyncDelayMS {
		r.Problems = append(r.Problems, fmt.Sprintf("a sync took %.2f ms with a delay of %g ms: not every one was delayed", r.SyncMS, r.SyncDelayMS))
	}
	slices.Sort(r.Problems)
	r.Valid = len(r.Problems) == 0
}

// A payload is JSON of a fixed size that begins with the job's number.
const (
	payloadOpen, payloadEnd = `{"n":"`, `"}`
	numberDigits            = 10
	payloadBytesMin         = len(payloadOpen) + numberDigits + len(payloadEnd)
)

func payload(n int64, size int) []byte {
	b := fmt.Appendf(make([]byte, 0, size), "%s%0*d", payloadOpen, numberDigits, n)
	b = append(b, strings.Repeat("x", size-payloadBytesMin)...)
	return append(b, payloadEnd...)
}

func number(body []byte) (int64, error) {
	text, ok := strings.CutPrefix(string(body), payloadOpen)
	if !ok || len(text) < numberDigits {
		return 0, fmt.Errorf("a payload that nobody made: %.40q", body)
	}
	return strconv.ParseInt(text[:numberDigits], 10, 64)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	atLeast                     time.Duration // How long the measured phase must last.
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

// reader is a queue whose jobs can be read where it keeps them, because its handlers would take
// many times as long as producers did.
type reader interface {
	read(ctx context.Context, found func(body []byte)) error
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

const (
	// runsMax is how often a run that was too short is done again with more jobs.
	runsMax = 6
	// growMax bounds what a run of an instant asks for.
	growMax = 30
)

func run(ctx context.Context, o options) (r result, err error) {
	all := systems()
	return repeat(ctx, all[slices.IndexFunc(all, func(s system) bool { return s.name == o.peer })], o)
}

// repeat measures with the asked number of jobs, and, while that takes less than it must, again
// with more, each time on a server of its own. What a queue lost in a short run counts too.
func repeat(ctx context.Context, peer system, o options) (r result, err error) {
	for range runsMax {
		if r, err = runOnce(ctx, peer, o); err != nil || !r.Valid || r.Seconds >= o.atLeast.Seconds() {
			return r, err
		}
		o.jobs = moreJobs(o.jobs, r.Seconds, o.atLeast)
	}
	return r, fmt.Errorf("%d jobs took %.2f s, which is less than %s", r.Jobs, r.Seconds, o.atLeast)
}

// moreJobs is how many last long enough, with a quarter to spare: a short run is often a slow one.
func moreJobs(jobs int, seconds float64, atLeast time.Duration) int {
	return int(math.Ceil(float64(jobs) * min(growMax, 1.25*atLeast.Seconds()/seconds)))
}

func runOnce(ctx context.Context, peer system, o options) (r result, err error) {
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
// each was handed out. The first jobs, one for each caller, are there so that all callers
// are connected when the clock starts; they are accounted for as the others are.
type work struct {
	options
	first      int
	next       atomic.Int64
	seen       []atomic.Int32
	handled    atomic.Int64
	unexpected atomic.Int64
	clock      clock
}

func newWork(o options) *work {
	return &work{options: o, first: o.callers, seen: make([]atomic.Int32, o.callers+o.jobs)}
}

func (w *work) total() int { return w.first + w.jobs }

// clock is when the measured phase began, and how many syncs there were then.
type clock struct {
	launcher launcher
	mu       sync.Mutex // Guards what follows: a handler starts the clock.
	began    time.Time
	before   syncs
	err      error
}

func (c *clock) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.err = c.launcher.syncs()
	c.began = time.Now()
}

// stop fills the measured part of a result.
func (c *clock) stop(r *result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() {
		return errors.New("the measured phase did not begin")
	}
	r.Seconds = time.Since(c.began).Seconds()
	r.PerSecond = float64(r.Jobs) / r.Seconds
	after, err := c.launcher.syncs()
	if n := after.count - c.before.count; n > 0 {
		r.Syncs = n
		if took := after.took - c.before.took; took > 0 {
			r.SyncMS = ms(took) / float64(n)
		}
	}
	return errors.Join(c.err, err)
}

func (w *work) measure(ctx context.Context, q queue, l launcher, r *result) error {
	w.clock.launcher = l
	if w.workload == enqueue {
		if err := w.enqueueAll(ctx, q, w.callers, w.clock.start); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
		if err := w.clock.stop(r); err != nil {
			return err
		}
		if err := w.look(ctx, q); err != nil {
			return fmt.Errorf("look at what was added: %w", err)
		}
		return nil
	}
	if err := w.enqueueAll(ctx, q, fillers, func() {}); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := w.handleAll(ctx, q, w.callers, w.clock.start); err != nil {
		return fmt.Errorf("lifecycle: %w", err)
	}
	if w.handled.Load() < int64(w.total()) {
		return nil // The account says what is missing.
	}
	return w.clock.stop(r)
}

// look accounts for what was added.
func (w *work) look(ctx context.Context, q queue) error {
	if r, ok := q.(reader); ok {
		return r.read(ctx, func(body []byte) { w.note(body) })
	}
	return w.handleAll(ctx, q, fillers, nil)
}

// enqueueAll connects all producers, lets them add the first jobs, and says when it is about to
// add the others.
func (w *work) enqueueAll(ctx context.Context, q queue, producers int, begin func()) error {
	var adds []func(context.Context, []byte) error
	for range producers {
		add, err := q.producer(ctx)
		if err != nil {
			return err
		}
		adds = append(adds, add)
	}
	if err := w.each(ctx, adds[:min(len(adds), w.first)], func(add func() (bool, error)) error {
		_, err := add()
		return err
	}); err != nil {
		return err
	}
	begin()
	return w.each(ctx, adds, func(add func() (bool, error)) error {
		for {
			if more, err := add(); !more || err != nil {
				return err
			}
		}
	})
}

// each lets every producer do something with its way to add the next job, which says whether
// there was one.
func (w *work) each(ctx context.Context, adds []func(context.Context, []byte) error, do func(add func() (bool, error)) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, add := range adds {
		group.Go(func() error {
			return do(func() (bool, error) {
				n := w.next.Add(1) - 1
				if n >= int64(w.total()) {
					return false, nil
				}
				return true, add(ctx, payload(n, w.payloadBytes))
			})
		})
	}
	return group.Wait()
}

// stallMax ends a lifecycle that no longer moves: jobs are missing then.
const stallMax = 20 * time.Second

// handleAll takes out all jobs, and says when as many were handed out as there are first ones.
func (w *work) handleAll(ctx context.Context, q queue, handlers int, begin func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go w.watch(ctx, cancel) // Ends with ctx.
	err := q.work(ctx, handlers, func(body []byte) bool {
		handled := w.note(body)
		if handled == int64(w.first) && begin != nil {
			begin()
		}
		return handled < int64(w.total())
	})
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

// note counts a job that was handed out, and says how many were so far.
func (w *work) note(body []byte) int64 {
	n, err := number(body)
	if err != nil || n < 0 || n >= int64(len(w.seen)) {
		w.unexpected.Add(1)
		return -1
	}
	w.seen[n].Add(1)
	return w.handled.Add(1)
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

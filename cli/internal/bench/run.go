package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// fillBatch and fillConns are how jobs are put in and taken out when that is
// not what is measured.
const (
	fillBatch = 256
	fillConns = 4
	// fillProtocol is the cheapest.
	fillProtocol = Stream
)

// Run does one run against t and reports it. An error means that there is
// nothing to report; a run that broke a promise has Report.Valid false.
func Run(ctx context.Context, o Options, t *Target) (*Report, error) {
	r, err := prepare(o, t)
	if err != nil {
		return nil, err
	}
	report, err := r.report(ctx)
	if err == nil {
		report.note(report.Machine.busy())
	}
	return report, err
}

// prepare refuses options that can't be run.
func prepare(o Options, t *Target) (*run, error) {
	o.aim(t)
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return newRun(o, t), nil
}

// aim is at a server, and at what it asks for.
func (o *Options) aim(t *Target) {
	o.Server = t.URL
	if t.key != "" {
		o.APIKey = t.key
	}
}

// report does the run.
func (r *run) report(ctx context.Context) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	report := newReport(r.opts, r.target.durability(ctx, r.opts), r.machine)
	if err := r.measure(ctx, report); err != nil {
		return nil, err
	}
	r.verify(ctx, report)
	if r.target.dir != "" {
		report.note(inMemory(r.target.dir))
	}
	return report, nil
}

func newRun(o Options, t *Target) *run {
	return &run{opts: o, target: t, machine: thisMachine(), stall: stallMax, dialer: &dialer{server: o.Server, apiKey: o.APIKey, namespace: o.Namespace,
		queue: "bench-" + strings.ToLower(rand.Text()[:8]), payload: payload(o.PayloadBytes)}}
}

// run is one run under way.
type run struct {
	opts    Options
	target  *Target
	machine Machine // As it was before.
	dialer  *dialer
	ledger  ledger
	// stall is how long a phase may stand still.
	stall time.Duration
	// problems are broken promises found outside the ledger.
	problems []string
}

func (r *run) measure(ctx context.Context, report *Report) error {
	var err error
	switch r.opts.Workload {
	case Enqueue, Single:
		if report.Phase, err = r.timed(ctx, r.opts.Jobs, r.enqueueLoop); err == nil {
			err = r.untimed(ctx, "drain", r.opts.Jobs, r.workLoop)
		}
	case Lifecycle:
		if err = r.untimed(ctx, "fill", r.opts.Jobs+r.opts.Backlog, r.enqueueLoop); err != nil {
			return err
		}
		if report.Phase, err = r.timed(ctx, r.opts.Jobs, r.workLoop); err == nil && !r.opts.KeepBacklog && r.opts.Backlog > 0 {
			err = r.untimed(ctx, "drain", r.opts.Backlog, r.workLoop)
		}
	case Latency:
		report.Phase, err = r.latency(ctx)
	case Steady:
		report.Phase, err = r.steady(ctx)
	}
	return err
}

// payload is JSON of exactly n bytes, or {} when it does not fit.
func payload(n int) string {
	const open, end = `{"d":"`, `"}`
	if n < len(open)+len(end) {
		return "{}"
	}
	return open + strings.Repeat("x", n-len(open)-len(end)) + end
}

// loop is the life of one caller in a phase: it claims work from the budget
// until none is left.
type loop func(ctx context.Context, c caller, p *phase) error

// timed runs a phase the way the options say and measures it.
func (r *run) timed(ctx context.Context, jobs int, do loop) (Phase, error) {
	conns, callers, err := r.dial(ctx, r.opts.Protocol, r.opts.Connections, r.opts.Concurrency)
	if err != nil {
		return Phase{}, err
	}
	defer closeAll(conns)
	p := &phase{name: string(r.opts.Workload), total: jobs, batch: r.opts.Batch, ledger: &r.ledger}
	return r.sampled(ctx, p, func() error { return r.drive(ctx, p, callers, do) })
}

// sampled runs do between two samples of the server and of ourselves.
func (r *run) sampled(ctx context.Context, p *phase, do func() error) (Phase, error) {
	finishProfile := r.startProfile(ctx)
	before, ownBefore := r.target.sample(ctx, r.opts), ownCPU()
	began := time.Now()
	err := do()
	took := time.Since(began)
	after, ownAfter := r.target.sample(ctx, r.opts), ownCPU()
	if perr := finishProfile(); perr != nil {
		err = errors.Join(err, perr)
	}
	if err != nil {
		return Phase{}, fmt.Errorf("%s: %w", p.name, err)
	}
	return newPhase(p, took, before, after, ownAfter-ownBefore), nil
}

// untimed moves jobs in or out as fast as it can.
func (r *run) untimed(ctx context.Context, name string, jobs int, do loop) error {
	conns, callers, err := r.dial(ctx, fillProtocol, fillConns, 1)
	if err != nil {
		return err
	}
	defer closeAll(conns)
	p := &phase{name: name, total: jobs, batch: fillBatch, ledger: &r.ledger}
	if err := r.drive(ctx, p, callers, do); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (r *run) dial(ctx context.Context, p Protocol, connections, concurrency int) ([]conn, []caller, error) {
	var conns []conn
	var callers []caller
	for range connections {
		c, err := r.dialer.dial(ctx, p)
		if err != nil {
			closeAll(conns)
			return nil, nil, err
		}
		conns = append(conns, c)
		for range concurrency {
			callers = append(callers, c.caller())
		}
	}
	return conns, callers, nil
}

func closeAll(conns []conn) {
	var wait sync.WaitGroup
	for _, c := range conns {
		wait.Go(c.close)
	}
	wait.Wait()
}

// phase is a fixed amount of work shared by callers.
type phase struct {
	name    string
	total   int
	batch   int
	ledger  *ledger
	pace    *rate.Limiter // Nil: as fast as it goes.
	latency latencies
	claimed atomic.Int64
	done    atomic.Int64
	stalled atomic.Bool
}

// claim takes up to n jobs of what is left.
func (p *phase) claim(n int) int {
	before := p.claimed.Add(int64(n)) - int64(n)
	granted := max(0, min(int64(n), int64(p.total)-before))
	if granted < int64(n) {
		p.claimed.Add(granted - int64(n))
	}
	return int(granted)
}

func (p *phase) release(n int) { p.claimed.Add(-int64(n)) }

// drive runs all callers to the end of the budget. A phase that stops moving is
// ended, and the ledger will say what is missing.
func (r *run) drive(ctx context.Context, p *phase, callers []caller, do loop) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, groupCtx := errgroup.WithContext(ctx)
	watched := make(chan struct{}) // Closed by the watcher.
	go func() {
		defer close(watched)
		r.watch(groupCtx, p, cancel)
	}()
	for _, c := range callers {
		group.Go(func() error { return do(groupCtx, c, p) })
	}
	err := group.Wait()
	cancel()
	<-watched
	if p.stalled.Load() {
		r.problems = append(r.problems, fmt.Sprintf("%s stopped moving at %d of %d jobs", p.name, p.done.Load(), p.total))
		return nil
	}
	return err
}

// watch reports progress and gives up on a phase without any for too long.
func (r *run) watch(ctx context.Context, p *phase, giveUp func()) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	last, lastMoved := int64(-1), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		done := p.done.Load()
		if r.opts.Progress != nil {
			r.opts.Progress(p.name, int(done), p.total)
		}
		if done != last {
			last, lastMoved = done, time.Now()
		} else if time.Since(lastMoved) > r.stall {
			p.stalled.Store(true)
			giveUp()
			return
		}
	}
}

func (r *run) enqueueLoop(ctx context.Context, c caller, p *phase) error {
	book, hist := p.ledger.book(), p.latency.shard()
	for ctx.Err() == nil {
		n := p.claim(p.batch)
		if n == 0 {
			return nil
		}
		if err := p.wait(ctx, n); err != nil {
			return err
		}
		began := time.Now()
		ids, err := c.enqueue(ctx, n)
		if err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
		record(hist, time.Since(began), n)
		if len(ids) != n {
			return fmt.Errorf("enqueue: sent %d jobs, got %d ids", n, len(ids))
		}
		book.added(ids)
		p.done.Add(int64(n))
	}
	return ctx.Err()
}

func (r *run) workLoop(ctx context.Context, c caller, p *phase) error {
	w := worker{caller: c, phase: p, book: p.ledger.book(), hist: p.latency.shard()}
	for ctx.Err() == nil {
		more, err := w.turn(ctx)
		if err != nil || !more {
			return err
		}
	}
	return ctx.Err()
}

// worker is a handler that does nothing but settle.
type worker struct {
	caller caller
	phase  *phase
	book   *book
	hist   *hdrhistogram.Histogram
	held   []lease
	idle   time.Duration
}

// turn settles what is held and fetches the next; false when nothing is left.
func (w *worker) turn(ctx context.Context) (bool, error) {
	want := w.phase.claim(w.phase.batch)
	settling := len(w.held)
	if want == 0 && settling == 0 {
		return false, nil
	}
	began := time.Now()
	got, refused, err := w.caller.work(ctx, w.held, want)
	if err != nil {
		return false, fmt.Errorf("work: %w", err)
	}
	if settling > 0 {
		record(w.hist, time.Since(began), settling)
	}
	w.phase.release(want - len(got))
	w.book.handed(got)
	w.book.refused += refused
	w.phase.done.Add(int64(settling))
	w.held = append(w.held[:0], got...)
	if settling == 0 && len(got) == 0 {
		w.idle = min(max(2*w.idle, time.Millisecond), 20*time.Millisecond)
		time.Sleep(w.idle)
	} else {
		w.idle = 0
	}
	return true, nil
}

// latency measures one job at a time from before its enqueue to the handler of
// a worker that waits for it. The ack is confirmed before the next one starts,
// so that no sync is in flight.
func (r *run) latency(ctx context.Context) (Phase, error) {
	producers, producer, err := r.dial(ctx, r.opts.Protocol, 1, 1)
	if err != nil {
		return Phase{}, err
	}
	defer closeAll(producers)
	handlers, handler, err := r.dial(ctx, r.opts.Protocol, 1, 1)
	if err != nil {
		return Phase{}, err
	}
	defer closeAll(handlers)
	p := &phase{name: string(Latency), total: r.opts.Jobs, batch: 1, ledger: &r.ledger}
	return r.sampled(ctx, p, func() error {
		return r.drive(ctx, p, producer, func(ctx context.Context, c caller, p *phase) error {
			return pingPong(ctx, c, handler[0], p)
		})
	})
}

// parkPause lets a waiting fetch reach the server before the job does.
const parkPause = 2 * time.Millisecond

func pingPong(ctx context.Context, producer, handler caller, p *phase) error {
	book, hist := p.ledger.book(), p.latency.shard()
	type arrival struct {
		at  time.Time
		got []lease
		err error
	}
	arrived := make(chan arrival, 1)
	for p.claim(1) == 1 {
		go func() { // Ends with the wait below.
			got, err := handler.await(ctx, stallMax)
			arrived <- arrival{time.Now(), got, err}
		}()
		time.Sleep(parkPause)
		began := time.Now()
		ids, err := producer.enqueue(ctx, 1)
		a := <-arrived
		if err := errors.Join(err, a.err); err != nil {
			return err
		}
		book.added(ids)
		book.handed(a.got)
		if len(a.got) == 0 {
			continue // The ledger says that it is missing.
		}
		record(hist, a.at.Sub(began), 1)
		_, refused, err := handler.work(ctx, a.got, 0)
		if err != nil {
			return fmt.Errorf("ack: %w", err)
		}
		book.refused += refused
		p.done.Add(1)
	}
	return nil
}

// verify balances the books and asks the server what it thinks is left.
func (r *run) verify(ctx context.Context, report *Report) {
	report.Check = r.ledger.balance(r.kept())
	report.Problems = append(r.problems, report.Check.problems()...)
	report.Problems = append(report.Problems, r.unsynced(report)...)
	err := r.compareCounts(ctx, report.Check)
	switch {
	case errors.Is(err, errUncounted) && r.target.pid == 0:
		report.Notes = append(report.Notes, err.Error())
	case err != nil: // What was left on purpose is known from the server alone, so one of ours must tell.
		report.Problems = append(report.Problems, err.Error())
	}
	if moves := r.dialer.moves.Load(); moves > 0 {
		report.Notes = append(report.Notes, fmt.Sprintf("the leader moved while the run went on: %d streams were opened again", moves))
	}
	report.Valid = len(report.Problems) == 0
}

// kept is how many jobs are left in the queue on purpose.
func (r *run) kept() int {
	if r.opts.KeepBacklog {
		return r.opts.Backlog
	}
	return 0
}

var errUncounted = errors.New("the server's own counts were not compared")

// compareCounts says how the server's counts differ from the ledger's. Of a server that isn't
// ours we don't know how long it keeps finished jobs.
func (r *run) compareCounts(ctx context.Context, c Check) error {
	counts, err := r.counts(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errUncounted, err)
	}
	if counts.Pending != int64(c.Remaining) || counts.Active != 0 {
		return fmt.Errorf("the server counts %d pending and %d active jobs, %d and 0 are left", counts.Pending, counts.Active, c.Remaining)
	}
	if ended := int64(c.Delivered - c.Refused); r.target.pid != 0 && counts.Completed != ended {
		return fmt.Errorf("the server counts %d completed jobs, %d were acked", counts.Completed, ended)
	}
	return nil
}

func (r *run) counts(ctx context.Context) (*wire.Queue, error) {
	queues, err := ask[[]wire.Queue](ctx, r.target, r.opts, "/queues")
	if err != nil {
		return nil, err
	}
	for i := range queues {
		if queues[i].Name == r.dialer.queue {
			return &queues[i], nil
		}
	}
	return nil, fmt.Errorf("queue %s is not listed", r.dialer.queue)
}

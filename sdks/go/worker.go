package corvo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

// Defaults of a worker. The timeouts fit into the 30 seconds that orchestrators
// leave between asking a process to end and killing it.
const (
	DefaultLease       = 60 * time.Second
	DefaultSoftTimeout = 20 * time.Second
	DefaultHardTimeout = 25 * time.Second
)

const (
	// parkWait is how long a fetch waits for a job before it is renewed.
	parkWait = 30 * time.Second
	// settleGrace is what remains after the hard timeout to give leases back.
	settleGrace = 4 * time.Second
	// A job without a handler keeps its slot for this long before it is given back.
	// Otherwise it would come straight back, thousands of times a second.
	unhandledHold = time.Second
	// Pauses between tries to connect.
	reconnectFirst = 50 * time.Millisecond
	reconnectMost  = 2 * time.Second
	// moveSpread spreads the workers of a server that goes away.
	moveSpread = 250 * time.Millisecond
	// streamTries is how many streams in a row may fail without an answer before
	// the worker looks whether plain calls get through.
	streamTries  = 3
	probeTimeout = 2 * time.Second
)

// WorkerOption configures NewWorker.
type WorkerOption func(*Worker)

// Queue makes the worker take jobs of one queue, at most slots at a time.
func Queue(name string, slots int) WorkerOption { return Pool(slots, name) }

// Pool makes the worker take jobs of several queues that share slots.
func Pool(slots int, queues ...string) WorkerOption {
	return func(w *Worker) {
		w.pools = append(w.pools, newPool(w, slots, queues))
	}
}

// Lease sets how long the server waits for a sign of life before it gives a job to
// another worker; whole seconds, default 60 s. The worker renews at a third of it.
func Lease(d time.Duration) WorkerOption { return func(w *Worker) { w.lease = d } }

// SoftTimeout is how long after the start of a drain the contexts of running
// handlers are cancelled, with cause ErrShutdown.
func SoftTimeout(d time.Duration) WorkerOption { return func(w *Worker) { w.soft = d } }

// HardTimeout is how long after the start of a drain the leases of handlers that
// still run are given back. Run then returns an error, and the handlers' outcomes
// are ignored.
func HardTimeout(d time.Duration) WorkerOption { return func(w *Worker) { w.hard = d } }

// WorkerID names the worker in the server's records; default host, process id and
// a random part.
func WorkerID(id string) WorkerOption { return func(w *Worker) { w.id = id } }

// Polling makes the worker use plain calls instead of a stream from the start. It
// does so by itself where streams do not get through.
func Polling() WorkerOption { return func(w *Worker) { w.pollOnly = true } }

// Stats counts what a worker did. Numbers only grow, except Running.
type Stats struct {
	Running    int64 // Handlers at work.
	Completed  int64 // Acknowledged and confirmed.
	Failed     int64 // Reported as failed and confirmed.
	Released   int64 // Given back and confirmed, jobs without a handler included.
	Unhandled  int64 // Jobs whose kind has no handler here.
	Cancelled  int64 // Handlers told that their job was cancelled.
	Lost       int64 // Attempts that were no longer this worker's.
	Panics     int64
	Reconnects int64
}

// Worker runs handlers for the jobs of some queues.
type Worker struct {
	client     *Client
	id         string
	hostname   string
	lease      time.Duration
	soft, hard time.Duration
	pollOnly   bool
	pollTurn   time.Duration
	hold       time.Duration
	pools      []*pool
	handlers   map[string]handler
	errs       []error // Of options and registrations; Run reports them.
	onHeld     func(*Held)
	started    atomic.Bool

	// Set by Run before anything else starts.
	life context.Context

	draining chan struct{} // Closed by beginDrain.
	finished chan struct{} // Closed by checkFinished.
	giveUp   chan struct{} // Closed by drainClock.
	news     chan struct{} // Wakes the renewer; buffer of one.
	leased   chan struct{} // Wakes the lease clock; buffer of one.

	heldMu sync.Mutex // Guards held, and calls of onHeld.
	held   *corvov1.DispatchHeld

	// mu guards all below, and the marked fields of pools and tasks.
	mu          sync.Mutex
	stats       Stats            // All but Running.
	tasks       map[string]*task // By job id: leases held, until settled.
	isDraining  bool
	isFinished  bool
	fetching    int // Frames under way that may grant jobs.
	abandoned   int
	isAbandoned bool      // The slots of running handlers count no more.
	nextRenewal time.Time // Zero: nothing to renew.
	newsDue     time.Time // Zero: no news.
	leaseLook   time.Time // When the lease clock looks next; zero: when it is woken.
}

// NewWorker makes a worker; Handle and HandleRaw give it handlers, Run starts it.
func NewWorker(c *Client, opts ...WorkerOption) *Worker {
	w := &Worker{
		client: c, lease: DefaultLease, soft: DefaultSoftTimeout, hard: DefaultHardTimeout,
		pollTurn: pollTurn, hold: unhandledHold,
		handlers: make(map[string]handler),
		draining: make(chan struct{}), finished: make(chan struct{}), giveUp: make(chan struct{}),
		news: make(chan struct{}, 1), leased: make(chan struct{}, 1),
		tasks: make(map[string]*task),
	}
	w.onHeld = w.logHeld
	for _, o := range opts {
		o(w)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host = strings.ToValidUTF8(host, "?")
	w.hostname = host
	w.id = cmp.Or(w.id, fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:6]))
	return w
}

func (w *Worker) register(kind string, h handler) {
	switch {
	case w.started.Load():
		w.client.log.Error("corvo: handler registered after Run; it is ignored", "kind", kind)
		return
	case kind == "":
		w.errs = append(w.errs, errors.New("a handler has an empty kind"))
	case w.handlers[kind] != nil:
		w.errs = append(w.errs, fmt.Errorf("kind %q has two handlers", kind))
	}
	w.handlers[kind] = h
}

// ID is the name under which the server knows this worker.
func (w *Worker) ID() string { return w.id }

// Stats is a snapshot of the counters.
func (w *Worker) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.stats
	for _, l := range w.pools {
		now.Running += int64(l.running)
	}
	return now
}

// count adds one to a counter.
func (w *Worker) count(counter *int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*counter++
}

func (w *Worker) check() error {
	errs := w.errs
	if len(w.pools) == 0 {
		errs = append(errs, errors.New("the worker has no queue: pass corvo.Queue"))
	}
	if len(w.handlers) == 0 {
		errs = append(errs, errors.New("the worker has no handler: call corvo.Handle"))
	}
	for _, l := range w.pools {
		if l.slots < 1 || len(l.queues) == 0 {
			errs = append(errs, fmt.Errorf("queues %q have %d slots, want at least one of each", l.queues, l.slots))
		}
	}
	if !utf8.ValidString(w.id) { // No frame that says so could be sent.
		errs = append(errs, fmt.Errorf("the worker id %q is not valid UTF-8", w.id))
	}
	for _, l := range w.pools {
		for _, q := range l.queues {
			if !utf8.ValidString(q) {
				errs = append(errs, fmt.Errorf("the queue %q is not valid UTF-8", q))
			}
		}
	}
	if w.lease < time.Second {
		errs = append(errs, fmt.Errorf("lease of %s is below one second", w.lease))
	}
	return errors.Join(errs...)
}

// Run takes and handles jobs until ctx ends, then drains: it fetches no more, keeps
// renewing leases until the last handler returns, cancels handlers after the soft
// timeout and gives their leases back after the hard one. It returns nil when
// everything was settled and confirmed.
//
// It reconnects for ever, except that a refusal of the key, of the namespace or of
// a queue before anything ever worked is returned at once, and so is one of a key
// that worked before (revoked, expired) and of what the KeySource gives in its place:
// handlers are cancelled with cause ErrLeaseLost, and other workers get their jobs
// when the leases end. Run can be called once.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return errors.New("corvo: this worker has already run")
	}
	if err := w.check(); err != nil {
		return fmt.Errorf("corvo: %w", err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	w.life = life
	stopWatching := context.AfterFunc(ctx, w.beginDrain)
	defer stopWatching()
	var wg sync.WaitGroup
	wg.Go(w.drainClock)
	wg.Go(w.leaseClock)
	err := w.serve()
	end()
	wg.Wait()
	return err
}

// serve opens one link after the other until everything is settled.
func (w *Worker) serve() error {
	ctx, cancel := w.untilOver()
	defer cancel()
	ladder := &ladder{w: w}
	everAnswered := false
	for try := 0; ; try++ {
		if over, err := w.over(); over {
			return err
		}
		key, err := w.client.keys.get(ctx)
		if over, overErr := w.over(); over {
			return overErr
		}
		if err != nil {
			if refusal := permanent(err); refusal != nil {
				return w.shutOut(refusal)
			}
			w.count(&w.stats.Reconnects)
			w.rest(err, try)
			continue
		}
		l := ladder.open()
		err = w.session(l, key)
		if closeErr := l.close(); closeErr != nil {
			w.log().Debug("corvo: close link", "error", closeErr)
		}
		if over, overErr := w.over(); over {
			return overErr
		}
		if l.answered() {
			everAnswered, try = true, 0
		}
		refusal := permanent(err)
		unauthorized := errors.Is(refusal, ErrUnauthorized)
		if unauthorized {
			w.client.keys.refused() // It comes over streams that were open.
		}
		switch {
		case refusal == nil || ladder.canPoll(err):
		case !everAnswered:
			return refusal
		case unauthorized && !l.answered():
			return w.shutOut(refusal)
		}
		ladder.note(l, err)
		w.count(&w.stats.Reconnects)
		w.rest(err, try)
	}
}

// untilOver is a context that ends when Run is to return.
func (w *Worker) untilOver() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(w.life)
	go func() {
		defer cancel()
		select {
		case <-w.finished:
		case <-w.giveUp:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// over reports whether Run is to return, and with what.
func (w *Worker) over() (bool, error) {
	select {
	case <-w.finished:
	case <-w.giveUp:
	default:
		return false, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.tasks) > 0:
		return true, fmt.Errorf("corvo: drain: %d jobs could not be settled, their leases will expire", len(w.tasks))
	case w.abandoned > 0:
		return true, fmt.Errorf("corvo: drain: %d handlers did not stop in time, their jobs were given back", w.abandoned)
	}
	return true, nil
}

// rest pauses before the next link. A link that ended without an error told us to
// move: the worker is wanted elsewhere soon, but not in step with all others.
func (w *Worker) rest(err error, try int) {
	pause := fullJitter(0, moveSpread, moveSpread)
	if err != nil {
		pause = errorFromRPC(err).RetryAfter + fullJitter(try, reconnectFirst, reconnectMost)
		level := slog.LevelWarn
		if try == 0 {
			level = slog.LevelInfo // Leaders move; once is no trouble.
		}
		w.log().Log(context.Background(), level, "corvo: worker reconnects", "worker", w.id, "error", err, "pause", pause)
	}
	select {
	case <-time.After(pause):
	case <-w.finished:
	case <-w.giveUp:
	}
}

// shutOut ends the work of a worker whose key is refused: nothing that it has can be told.
func (w *Worker) shutOut(why error) error {
	w.mu.Lock()
	for _, t := range w.tasks {
		w.lose(t)
	}
	w.mu.Unlock()
	w.beginDrain()
	select {
	case <-w.finished:
	case <-w.giveUp:
	}
	return why
}

func (w *Worker) log() *slog.Logger { return w.client.log }

// permanent is the refusal in err that no reconnecting will cure.
func permanent(err error) error {
	if err == nil {
		return nil
	}
	e := errorFromRPC(err)
	switch e.Code {
	case CodeUnauthorized, CodeForbidden, CodeInvalid, CodeNotFound:
		return e
	}
	return nil
}

// ladder chooses between stream and polling.
type ladder struct {
	w        *Worker
	failures int // Streams in a row that never answered.
	poll     bool
}

func (d *ladder) open() link {
	c := d.w.client
	switch {
	case d.w.pollOnly:
		return openPollLink(c.unary(), 24*time.Hour)
	case d.poll:
		return openPollLink(c.rpc1, d.w.pollTurn)
	}
	return openStreamLink(d.w.life, c.rpc, d.w.late)
}

// canPoll: err says that streams are not to be had, which is no refusal.
func (d *ladder) canPoll(err error) bool {
	return !d.w.pollOnly && !d.poll && (noStreams(err) || errors.Is(err, errNoPipelining))
}

// note learns from how a link ended.
func (d *ladder) note(l link, err error) {
	d.w.client.noteTransport(err) // Polling starts with HTTP/2 where nobody knows better.
	if _, polled := l.(*pollLink); polled {
		d.poll = false // The stream gets another try.
		return
	}
	if l.answered() {
		d.w.client.http1Only.Store(false)
	}
	if d.canPoll(err) {
		d.poll = true
		return
	}
	if err == nil || l.answered() || fromServer(err) {
		d.failures = 0
		return
	}
	if d.failures++; d.failures >= streamTries && d.plainCallsWork() {
		d.poll = true
		d.w.log().Warn("corvo: streams fail but plain calls work; polling", "error", err)
	}
}

// fromServer: err was said by the server over the stream, so streams do get through.
func fromServer(err error) bool {
	var nl *stream.NotLeaderError
	return errors.As(err, &nl) || errors.Is(err, errNotLeader) || connect.IsWireError(err)
}

func (d *ladder) plainCallsWork() bool {
	ctx, cancel := context.WithTimeout(d.w.life, probeTimeout)
	defer cancel()
	return probe(ctx, d.w.client.rpc1) == nil
}

// session works over one link until it ends, and returns why; nil when the link
// asked to be left or nothing is left to do. The link was opened with key, or a later one.
func (w *Worker) session(l link, key string) error {
	ctx, fail := context.WithCancelCause(w.life)
	defer fail(nil)
	fetchCtx, stopFetch := context.WithCancel(ctx)
	defer stopFetch()
	s := &session{w: w, link: l, ctx: ctx, fail: fail, fetchStop: fetchCtx.Done(), quit: make(chan struct{})}

	var wg sync.WaitGroup
	for _, ln := range w.pools {
		wg.Go(func() { s.settle(ln) })
		wg.Go(func() { s.fetch(ln) })
	}
	wg.Go(s.renew)
	keyOver := make(chan struct{})
	wg.Go(func() {
		if w.client.keys.outlive(key, s.quit) {
			close(keyOver)
		}
	})
	idle := make(chan struct{})

	err := s.watch(stopFetch, keyOver)
	stopFetch()
	close(s.quit)
	if err != nil {
		fail(err)
	}
	go func() { wg.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-w.giveUp:
		fail(errGaveUp)
		<-idle
	}
	if err == nil {
		err = context.Cause(ctx) // A failure while the last frames were under way.
	}
	return err
}

var errGaveUp = errors.New("the hard timeout has passed")

// session is the work over one link.
type session struct {
	w         *Worker
	link      link
	ctx       context.Context
	fail      context.CancelCauseFunc // Ends the session with a reason.
	fetchStop <-chan struct{}         // Closed when waiting fetches are to be given up.
	quit      chan struct{}           // Closed by Worker.session: finish what is under way.
}

// watch waits for the end of the session.
func (s *session) watch(stopFetch func(), keyOver <-chan struct{}) error {
	draining := s.w.draining
	for {
		select {
		case <-draining:
			stopFetch()
			draining = nil
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-s.link.done():
			return s.link.err()
		case <-s.link.drained():
			return nil
		case <-keyOver: // The next link is opened with another.
			return nil
		case <-s.w.finished:
			return nil
		case <-s.w.giveUp:
			return errGaveUp
		}
	}
}

// pause waits d; false if the session ends.
func (s *session) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.quit:
	case <-s.ctx.Done():
	}
	return false
}

// beginDrain stops fetching. It is called when the context of Run ends.
func (w *Worker) beginDrain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isDraining {
		return
	}
	w.isDraining = true
	close(w.draining)
	w.checkFinished()
}

// checkFinished closes finished once a drain has nothing left to wait for. Called
// with mu held.
func (w *Worker) checkFinished() {
	if !w.isDraining || w.isFinished || w.fetching > 0 || len(w.tasks) > 0 {
		return
	}
	for _, l := range w.pools {
		if l.running > 0 {
			return
		}
	}
	w.isFinished = true
	close(w.finished)
}

// drainClock enforces the timeouts of a drain. It ends with Run.
func (w *Worker) drainClock() {
	select {
	case <-w.draining:
	case <-w.life.Done():
		return
	}
	soft, hard := time.After(w.soft), time.After(w.hard)
	var last <-chan time.Time
	for {
		select {
		case <-soft:
			w.cancelRunning()
		case <-hard:
			w.cancelRunning()
			w.abandonRunning()
			last = time.After(settleGrace)
		case <-last:
			close(w.giveUp)
			return
		case <-w.life.Done():
			return
		}
	}
}

func (w *Worker) cancelRunning() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tasks {
		if t.phase == phaseRunning {
			t.cancel(ErrShutdown)
		}
	}
}

// abandonRunning gives the leases of running handlers back without waiting for them.
func (w *Worker) abandonRunning() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isAbandoned = true
	for _, t := range w.tasks {
		if t.phase != phaseRunning {
			continue
		}
		w.abandoned++
		t.pool.running--
		w.enqueueSettlement(t, outcome{kind: outcomeRelease, message: "worker_shutdown"})
	}
	// A handler whose lease was lost has nothing to give back; it is not waited for.
	for _, l := range w.pools {
		w.abandoned += l.running
		l.running = 0
	}
	w.checkFinished()
}

// late receives jobs of replies that nobody waits for any more.
func (w *Worker) late(jobs []*corvov1.FetchBatchJob) {
	byPool := make(map[*pool][]*corvov1.FetchBatchJob)
	for _, j := range jobs {
		l := w.poolOf(j.GetQueue())
		byPool[l] = append(byPool[l], j)
	}
	for l, jobs := range byPool {
		w.granted(l, 0, jobs)
	}
}

func (w *Worker) poolOf(queue string) *pool {
	for _, l := range w.pools {
		if slices.Contains(l.queues, queue) {
			return l
		}
	}
	return w.pools[0]
}

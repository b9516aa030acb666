package corvo

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

const (
	// The server's limits on one frame.
	settleMax = 512
	fetchMax  = 512
	// settleBytesMax keeps a frame of large results under every message limit.
	settleBytesMax = 1 << 20
	// gatherTime is how long a frame waits for handlers that were given jobs by the
	// last reply, so that quick handlers share one commit instead of falling into
	// two groups that take turns.
	gatherTime = 100 * time.Microsecond
	// gatherSpins take longer than gatherTime: a turn is at least some 50 ns.
	gatherSpins = 10_000
	// A fetch that comes back empty sooner than this did not wait.
	emptyFetchMin = 50 * time.Millisecond
	// A settlement that was in this many refused frames goes alone, so that it
	// cannot hold up others.
	lonelyTries = 3
	// settlePatience is for how long a settlement may be refused without a reason
	// that concerns it. Elections and restarts are far shorter.
	settlePatience = 5 * time.Minute
)

// pool is a number of slots for jobs of some queues. Its jobs are settled by one frame at
// a time, which also asks for as many new ones as slots are free; when the queues
// are empty, one fetch waits on the side.
type pool struct {
	w      *Worker
	queues []string
	slots  int

	wakeSettle chan struct{} // Buffer of one.
	wakeFetch  chan struct{} // Buffer of one.
	waiting    atomic.Int64  // len(pending), for the gather loop.

	// Guarded by Worker.mu.
	running  int // Handlers at work.
	reserved int // Slots promised to fetches under way.
	pending  []*task
	settling bool
	// delivered is how many settlements the next frame waits a moment for: of the
	// jobs that the latest reply started, and those that were waiting by then. Without
	// the latter, handlers settle into two groups that alternate, with a sync each.
	delivered   int
	deliveredAt time.Time
	// fetchAfter is when the server that refused a fetch takes the next one.
	fetchAfter time.Time
}

func newPool(w *Worker, slots int, queues []string) *pool {
	return &pool{w: w, queues: queues, slots: slots, wakeSettle: make(chan struct{}, 1), wakeFetch: make(chan struct{}, 1)}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// free is called with Worker.mu held.
func (l *pool) free() int {
	if l.w.isDraining || time.Now().Before(l.fetchAfter) {
		return 0
	}
	return min(fetchMax, max(0, l.slots-l.running-l.reserved))
}

// reserve takes all free slots for a fetch. Called with Worker.mu held.
func (l *pool) reserve() int {
	n := l.free()
	if n > 0 {
		l.reserved += n
		l.w.fetching++
	}
	return n
}

// settle sends settlements until the session ends.
func (s *session) settle(l *pool) {
	for try := 0; ; {
		batch, want, ok := s.nextBatch(l)
		if !ok {
			return
		}
		reply, err := s.link.exchange(s.ctx, s.w.settleFrame(l, batch, want))
		if err != nil {
			s.w.unsettled(batch, err)
			s.w.granted(l, want, nil)
			s.fail(err)
			return
		}
		err = s.w.settled(l, batch, reply)
		s.w.granted(l, want, reply.GetJobs())
		if want > 0 {
			s.w.heard(reply)
			s.w.holdFetches(l, reply)
		}
		if err == nil {
			try = 0
			continue
		}
		if brokenLink(err) {
			s.fail(err)
			return
		}
		s.w.log().Debug("corvo: settlement refused for now", "error", err)
		if !s.pause(askedPause(reply) + fullJitter(try, 5*time.Millisecond, time.Second)) {
			return
		}
		try++
	}
}

// nextBatch waits for settlements; false when the session ends.
func (s *session) nextBatch(l *pool) (batch []*task, want int, ok bool) {
	for {
		select {
		case <-s.quit:
			s.w.settlerIdle(l)
			return nil, 0, false
		default:
		}
		if l.waiting.Load() > 0 {
			l.gather()
			if batch, want = s.w.takeBatch(l); len(batch) > 0 {
				return batch, want, true
			}
		}
		s.w.settlerIdle(l)
		select {
		case <-l.wakeSettle:
		case <-s.quit:
		}
	}
}

// gather spins, because a timer cannot sleep for less than about a millisecond. It ends
// also where the clock stands still, as a simulated one does while somebody works.
func (l *pool) gather() {
	l.w.mu.Lock()
	expected, until := int64(min(l.delivered, settleMax)), l.deliveredAt.Add(gatherTime)
	l.delivered = 0
	l.w.mu.Unlock()
	for range gatherSpins {
		if l.waiting.Load() >= expected || !time.Now().Before(until) {
			return
		}
		runtime.Gosched()
	}
}

// settlerIdle hands the free slots to the fetcher if there is nothing to settle.
func (w *Worker) settlerIdle(l *pool) {
	w.mu.Lock()
	l.settling = false
	free := l.free()
	w.mu.Unlock()
	if free > 0 {
		wake(l.wakeFetch)
	}
}

// takeBatch moves settlements from pending into a frame and reserves the slots that
// the frame will ask for.
func (w *Worker) takeBatch(l *pool) ([]*task, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var batch []*task
	var rest []*task
	bytes := 0
	lonely := false
	for _, t := range l.pending {
		if t.phase != phaseQueued {
			continue // Lost while it waited.
		}
		size := len(t.out.result) + len(t.out.ack.GetCheckpointJson()) + len(t.out.message) + len(t.out.backtrace)
		full := len(batch) >= settleMax || lonely || (len(batch) > 0 && (bytes+size > settleBytesMax || t.tries >= lonelyTries))
		if full {
			rest = append(rest, t)
			continue
		}
		lonely = t.tries >= lonelyTries
		bytes += size
		t.phase = phaseSent
		batch = append(batch, t)
	}
	l.pending = rest
	l.waiting.Store(int64(len(rest)))
	if len(batch) == 0 {
		return nil, 0
	}
	l.settling = true
	return batch, l.reserve()
}

func (w *Worker) settleFrame(l *pool, batch []*task, want int) *stream.Request {
	f := w.frame()
	for _, t := range batch {
		if t.out.kind == outcomeAck {
			f.Acks = append(f.Acks, t.ackItem())
			continue
		}
		f.Fails = append(f.Fails, t.failItem())
	}
	if want > 0 {
		w.ask(f, l, want, 0)
	}
	return f
}

func (w *Worker) frame() *stream.Request {
	return &stream.Request{WorkerId: w.id, Hostname: w.hostname, LeaseDuration: int32(w.lease / time.Second)}
}

func (w *Worker) ask(f *stream.Request, l *pool, n int, wait time.Duration) {
	f.Queues, f.FetchCount, f.WaitMs = l.queues, int32(n), new(wait.Milliseconds())
}

// unsettled puts a batch back whose fate is unknown. The same token makes sending
// it again harmless. What may be the fault of the frame counts as a refusal, lest
// one settlement ends every link.
func (w *Worker) unsettled(batch []*task, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.checkFinished()
	for _, t := range batch {
		if blamesFrame(err) {
			w.again(t, err)
			continue
		}
		w.requeue(t)
	}
}

// blamesFrame: err may be about what a frame says, not about the way to the server.
func blamesFrame(err error) bool {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return false
	}
	switch ce.Code() {
	case connect.CodeInternal, connect.CodeInvalidArgument:
		return true
	case connect.CodeResourceExhausted: // The frame is too large, unless it says which limit.
		return errorFromRPC(err).Reason == ""
	}
	return false
}

// requeue is called with mu held.
func (w *Worker) requeue(t *task) {
	t.phase = phaseQueued
	t.pool.pending = append(t.pool.pending, t)
	t.pool.waiting.Store(int64(len(t.pool.pending)))
	wake(t.pool.wakeSettle)
}

// settled reads the reply to a settlement frame. The error says why some of it has
// to be sent again, or that the link is of no use.
func (w *Worker) settled(l *pool, batch []*task, reply *stream.Response) error {
	acks, fails, err := outcomes(batch, reply)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range batch {
		var o itemOutcome
		switch {
		case t.out.kind == outcomeAck && len(acks) > 0:
			o, acks = acks[0], acks[1:]
		case t.out.kind != outcomeAck && len(fails) > 0:
			o, fails = fails[0], fails[1:]
		default:
			w.again(t, err)
			continue
		}
		if itemErr := w.conclude(t, o); itemErr != nil && err == nil {
			err = itemErr
		}
	}
	w.checkFinished()
	return err
}

type itemOutcome struct{ code, message, status string }

// outcomes lines the reply's results up with the batch. A kind of results that is
// not as long as what was sent is left out, and the error says why.
func outcomes(batch []*task, reply *stream.Response) (acks, fails []itemOutcome, err error) {
	sentAcks, sentFails := 0, 0
	for _, t := range batch {
		if t.out.kind == outcomeAck {
			sentAcks++
		} else {
			sentFails++
		}
	}
	for _, o := range reply.GetAckOutcomes() {
		acks = append(acks, itemOutcome{code: o.GetCode(), message: o.GetError()})
	}
	for _, o := range reply.GetFailOutcomes() {
		fails = append(fails, itemOutcome{code: o.GetCode(), message: o.GetError(), status: o.GetStatus()})
	}
	if len(acks) == sentAcks && len(fails) == sentFails {
		if text := reply.GetError(); text == stream.TextNotLeader {
			return acks, fails, errNotLeader
		}
		return acks, fails, nil // Trouble of the frame's fetch shows as no jobs.
	}
	if len(acks) != sentAcks {
		acks = nil
	}
	if len(fails) != sentFails {
		fails = nil
	}
	return acks, fails, frameError(reply)
}

var errNotLeader = errors.New("the server does not lead this namespace now")

// frameError is why a frame was not served.
func frameError(reply *stream.Response) error {
	switch text := reply.GetError(); {
	case text == "":
		return errNoPipelining
	case text == stream.TextNotLeader:
		return errNotLeader
	default:
		return errors.New(text)
	}
}

func brokenLink(err error) bool {
	return errors.Is(err, errNotLeader) || errors.Is(err, errNoPipelining)
}

// again keeps a settlement that the server did not take. Called with mu held.
func (w *Worker) again(t *task, err error) {
	if err != nil && !brokenLink(err) && !overloaded(err) {
		if t.tries++; t.tries == 1 {
			t.refusedAt = time.Now()
		}
	}
	if t.tries > lonelyTries && time.Since(t.refusedAt) > settlePatience {
		w.log().Error("corvo: settlement given up, the lease will expire", "job", t.lease.GetJobId(), "error", err)
		w.drop(t)
		return
	}
	w.requeue(t)
}

func overloaded(err error) bool { return strings.HasPrefix(err.Error(), stream.TextOverloadedPrefix) }

// conclude handles the fate of one settlement. Called with mu held.
func (w *Worker) conclude(t *task, o itemOutcome) error {
	if o.code == "" {
		w.confirmed(t, o.status)
		return nil
	}
	switch code, _ := codeOfReason(wire.Code(o.code)); code {
	case CodeLeaseLost, CodeNotFound, CodeConflict:
		w.stats.Lost++
		w.log().Warn("corvo: the attempt was no longer this worker's", "job", t.lease.GetJobId(), "code", o.code)
		w.drop(t)
		return nil
	case CodeInvalid, CodeTooLarge:
		w.refused(t, o)
		return nil
	}
	err := fmt.Errorf("%s: %s", o.code, o.message)
	w.again(t, err)
	return err
}

func (w *Worker) confirmed(t *task, status string) {
	switch {
	case t.out.kind == outcomeAck:
		w.stats.Completed++
	case t.out.kind == outcomeRelease:
		w.stats.Released++
	default:
		w.stats.Failed++
		w.log().Debug("corvo: attempt failed", "job", t.lease.GetJobId(), "status", status, "error", t.out.message)
	}
	w.drop(t)
}

// refused tells an outcome that is not acceptable with less: without usage, then a
// result as a failure, then a failure with its text alone. What is refused even so
// cannot be told at all. Called with mu held.
func (w *Worker) refused(t *task, o itemOutcome) {
	log := w.log().With("job", t.lease.GetJobId(), "error", o.message)
	switch {
	case t.used != nil:
		log.Error("corvo: outcome refused, it is told without its usage")
		t.used = nil
		w.requeue(t)
	case t.out.kind == outcomeAck:
		log.Error("corvo: result refused")
		w.enqueueSettlement(t, outcome{kind: outcomeFail, message: "the result was refused: " + o.message})
	case t.out.delay != nil || t.out.backtrace != "":
		log.Error("corvo: failure report refused, it is told without its delay and stack")
		t.out.delay, t.out.backtrace = nil, ""
		w.requeue(t)
	default:
		log.Error("corvo: failure report refused, the lease will expire")
		w.drop(t)
	}
}

// drop ends a task for good. Called with mu held.
func (w *Worker) drop(t *task) {
	t.phase = phaseOver
	if w.tasks[t.lease.GetJobId()] == t {
		delete(w.tasks, t.lease.GetJobId())
	}
	t.news.tell(ErrLeaseLost)
	t.sent.tell(ErrLeaseLost)
}

// fetch asks for jobs whenever slots are free and no settlement frame is about to.
func (s *session) fetch(l *pool) {
	for try := 0; ; {
		n, ok := s.nextFetch(l)
		if !ok {
			return
		}
		f := s.w.frame()
		s.w.ask(f, l, n, parkWait)
		began := time.Now()
		reply, err := s.link.fetch(s.ctx, f, s.fetchStop)
		s.w.granted(l, n, reply.GetJobs())
		s.w.heard(reply)
		s.w.holdFetches(l, reply)
		if err == nil && reply.GetError() != "" {
			err = s.fetchTrouble(l, reply)
		}
		if err != nil {
			s.fail(err)
			return
		}
		if len(reply.GetJobs()) > 0 || (reply.GetError() == "" && time.Since(began) >= emptyFetchMin) {
			try = 0
			continue
		}
		if !s.pause(fullJitter(try, emptyFetchMin, 5*time.Second)) {
			return
		}
		try++
	}
}

// askedPause is how long the server wants to be left alone.
func askedPause(reply *stream.Response) time.Duration {
	return millis(float64(reply.GetRetryAfterMs()))
}

// holdFetches keeps a pool from fetching for as long as the reply to a fetch asks.
func (w *Worker) holdFetches(l *pool, reply *stream.Response) {
	d := askedPause(reply)
	if d == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l.fetchAfter = time.Now().Add(d)
	wake(l.wakeFetch) // It has a time to wait for.
}

// fetchTrouble is the error with which a refused fetch ends the session, or nil if
// it can be repeated. A bad queue name ends it, so that Run can report it.
func (s *session) fetchTrouble(l *pool, reply *stream.Response) error {
	err := frameError(reply)
	if fields := fieldsOf(reply); len(fields) > 0 && !brokenLink(err) {
		return &Error{Code: CodeInvalid, Message: reply.GetError(), Fields: fields}
	}
	if brokenLink(err) {
		return err
	}
	s.w.log().Warn("corvo: fetch refused", "queues", l.queues, "error", err)
	return nil
}

func fieldsOf(reply *stream.Response) []Field {
	var fields []Field
	for _, v := range reply.GetViolations() {
		fields = append(fields, Field{Name: v.GetField(), Message: v.GetMessage()})
	}
	return fields
}

// nextFetch waits until there is something to ask for; false when fetching is over.
func (s *session) nextFetch(l *pool) (int, bool) {
	for {
		select {
		case <-s.fetchStop:
			return 0, false
		default:
		}
		s.w.mu.Lock()
		n, held := 0, time.Until(l.fetchAfter)
		if !l.settling && len(l.pending) == 0 {
			n = l.reserve()
		}
		s.w.mu.Unlock()
		if n > 0 {
			return n, true
		}
		var open <-chan time.Time
		if held > 0 {
			open = time.After(held)
		}
		select {
		case <-l.wakeFetch:
		case <-open:
		case <-s.fetchStop:
			return 0, false
		}
	}
}

// granted ends a fetch of want slots and starts what it brought. Jobs that came in
// while a drain began, or that nobody asked for, are given back.
func (w *Worker) granted(l *pool, want int, jobs []*corvov1.FetchBatchJob) {
	now := time.Now()
	var starts []*task
	w.mu.Lock()
	if want > 0 {
		l.reserved -= want
		w.fetching--
	}
	for _, j := range jobs {
		t := w.admit(l, j, now)
		if w.isDraining || l.running >= l.slots {
			w.enqueueSettlement(t, outcome{kind: outcomeRelease, message: "no slot"})
			continue
		}
		l.running++
		starts = append(starts, t)
	}
	if len(starts) > 0 {
		l.delivered, l.deliveredAt = len(starts)+len(l.pending), now
	}
	w.checkFinished()
	w.mu.Unlock()
	for _, t := range starts {
		go w.run(t)
	}
}

// enqueueSettlement is called with mu held.
func (w *Worker) enqueueSettlement(t *task, out outcome) {
	t.out = out.sendable()
	w.requeue(t)
}

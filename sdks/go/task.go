package corvo

import (
	"context"
	"encoding/json"
	"time"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// phase is where a leased attempt stands. Only attempts in the first three are in
// Worker.tasks.
type phase uint8

const (
	phaseRunning phase = iota // The handler works.
	phaseQueued               // The outcome waits to be sent, or to be sent again.
	phaseSent                 // The outcome is in a frame without an answer.
	phaseOver                 // Confirmed, refused, or lost.
)

// task is one leased attempt.
type task struct {
	worker *Worker
	pool   *pool
	lease  *corvov1.FetchBatchJob
	kind   string
	tags   map[string]string
	length time.Duration // Of the lease.
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Guarded by Worker.mu.
	phase      phase
	out        outcome
	tries      int       // Refused frames it was in.
	refusedAt  time.Time // The first of them.
	renewAt    time.Time
	renewedAt  time.Time // When the renewal under way, or else the last one, was sent.
	heldUntil  time.Time // By the grant and the confirmed renewals.
	news       news      // To be sent.
	sent       news      // In a frame without an answer.
	checkpoint json.RawMessage
	used       *corvov1.UsageReport
}

// news is what a renewal carries beside the renewal.
type news struct {
	progress   json.RawMessage
	checkpoint json.RawMessage
	waiters    []chan<- error // Each with room for one.
}

func (n *news) empty() bool {
	return n.progress == nil && n.checkpoint == nil && len(n.waiters) == 0
}

// tell answers the waiters and empties n.
func (n *news) tell(err error) {
	for _, c := range n.waiters {
		c <- err
	}
	*n = news{}
}

// admit makes a task of a grant. Called with mu held.
func (w *Worker) admit(l *pool, j *corvov1.FetchBatchJob, now time.Time) *task {
	t := &task{worker: w, pool: l, lease: j, kind: j.GetQueue(), length: time.Duration(j.GetLeaseDuration()) * time.Second}
	if t.length <= 0 {
		t.length = w.lease
	}
	if j.GetTagsJson() != "" {
		// Tags that do not parse are a newer server's; the job can still run.
		if err := json.Unmarshal([]byte(j.GetTagsJson()), &t.tags); err != nil {
			w.log().Warn("corvo: tags of a job do not parse", "job", j.GetJobId(), "error", err)
		}
		if kind := t.tags[KindTag]; kind != "" {
			t.kind = kind
		}
	}
	if j.GetCheckpointJson() != "" {
		t.checkpoint = json.RawMessage(j.GetCheckpointJson())
	}
	t.ctx, t.cancel = context.WithCancelCause(w.life)
	t.renewAt, t.heldUntil = now.Add(t.length/3), now.Add(t.length)
	if old := w.tasks[j.GetJobId()]; old != nil {
		// Whoever had this job before, this process included, has it no more.
		w.lose(old)
	}
	w.tasks[j.GetJobId()] = t
	if w.nextRenewal.IsZero() || t.renewAt.Before(w.nextRenewal) {
		w.nextRenewal = t.renewAt
		wake(w.news)
	}
	if w.leaseLook.IsZero() || t.overAt().Before(w.leaseLook) {
		wake(w.leased)
	}
	return t
}

// overAt is when a lease that nobody renews counts as over. The grace is for elections:
// a new leader gives every job a fresh lease.
func (t *task) overAt() time.Time { return t.heldUntil.Add(t.length / 6) }

// leaseClock tells handlers that their lease is over where the server can't: a worker that
// is cut off hears nothing. It ends with Run.
func (w *Worker) leaseClock() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.leased:
		case <-w.life.Done():
			return
		}
		timer.Reset(w.cancelOverdue(time.Now()))
	}
}

// cancelOverdue returns when to look again. The attempts stay this worker's until the
// server says otherwise: their outcomes are still sent, and the tokens decide.
func (w *Worker) cancelOverdue(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaseLook = time.Time{}
	for _, t := range w.tasks {
		if t.phase != phaseRunning || t.ctx.Err() != nil {
			continue
		}
		at := t.overAt()
		if !now.Before(at) {
			w.log().Warn("corvo: no renewal was confirmed in time, the lease is over", "job", t.lease.GetJobId(), "attempt", t.lease.GetAttempt())
			t.cancel(ErrLeaseLost)
			continue
		}
		if w.leaseLook.IsZero() || at.Before(w.leaseLook) {
			w.leaseLook = at
		}
	}
	if w.leaseLook.IsZero() {
		return time.Hour // The next grant wakes the clock.
	}
	return w.leaseLook.Sub(now)
}

func (t *task) payload() json.RawMessage {
	if t.lease.GetPayloadJson() == "" {
		return json.RawMessage("{}")
	}
	return json.RawMessage(t.lease.GetPayloadJson())
}

// run is the goroutine of one attempt.
func (w *Worker) run(t *task) {
	h := w.handlers[t.kind]
	if h == nil {
		h = w.handlers[AnyKind]
	}
	if h == nil {
		w.finish(t, w.unhandled(t))
		return
	}
	var out outcome
	defer func() { // Deferred, because a handler may end this goroutine.
		if out.panicked {
			w.count(&w.stats.Panics)
			w.log().Error("corvo: handler panicked", "job", t.lease.GetJobId(), "kind", t.kind, "panic", out.message)
		}
		w.finish(t, out)
	}()
	t.invoke(h, &out)
}

// unhandled gives a job back whose kind is not known here, after a pause that keeps
// it from coming straight back.
func (w *Worker) unhandled(t *task) outcome {
	w.count(&w.stats.Unhandled)
	w.log().Warn("corvo: no handler for this kind, the job is given back", "job", t.lease.GetJobId(), "queue", t.lease.GetQueue(), "kind", t.kind)
	select {
	case <-time.After(w.hold):
	case <-w.draining:
	case <-t.ctx.Done():
	}
	return outcome{kind: outcomeRelease, message: "no handler for kind " + t.kind}
}

// finish frees the slot and queues the outcome, unless the attempt is over already.
func (w *Worker) finish(t *task, out outcome) {
	w.mu.Lock()
	if !w.isAbandoned {
		t.pool.running--
	}
	if t.phase == phaseRunning {
		w.enqueueSettlement(t, out)
	} else {
		wake(t.pool.wakeFetch)
	}
	w.checkFinished()
	w.mu.Unlock()
	t.cancel(nil)
}

// lose ends an attempt that is somebody else's. Called with mu held. A settlement
// under way is left alone: its answer decides.
func (w *Worker) lose(t *task) {
	if t.phase == phaseSent || t.phase == phaseOver {
		return
	}
	w.stats.Lost++
	w.log().Warn("corvo: lease lost", "job", t.lease.GetJobId(), "attempt", t.lease.GetAttempt())
	w.drop(t)
	t.cancel(ErrLeaseLost)
	w.checkFinished()
}

package corvo

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

const (
	// progressEvery is how long progress may wait for company.
	progressEvery = 250 * time.Millisecond
	// renewMax is the number of leases in one frame.
	renewMax = 512
	// renewBytesMax keeps a frame with checkpoints under every message limit.
	renewBytesMax = 1 << 20
)

// Words of HeartbeatJobResponse.status.
const (
	statusCancel = "cancel"
	statusLost   = "lost"
)

// renew keeps all leases of the worker alive until the session ends, and carries
// progress and checkpoints. A new session renews at once: the one before may have
// ended badly.
func (s *session) renew() {
	s.w.renewSoon()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for try := 0; ; {
		select {
		case <-timer.C:
		case <-s.w.news:
		case <-s.quit:
			return
		}
		batch, next := s.w.takeNews(time.Now())
		if len(batch) > 0 {
			err := s.beat(batch)
			switch {
			case err == nil:
				try = 0
			case s.ctx.Err() != nil || brokenLink(err):
				s.fail(err)
				return
			default:
				s.w.log().Warn("corvo: leases could not be renewed, trying again", "error", err)
				next = fullJitter(try, progressEvery, 2*time.Second)
				try++
			}
		}
		timer.Reset(next)
	}
}

// beat sends one frame of renewals.
func (s *session) beat(batch []*task) error {
	reply, err := s.link.exchange(s.ctx, s.w.renewFrame(batch))
	if err != nil {
		s.w.newsUnsent(batch)
		s.fail(err)
		return err
	}
	if fields := fieldsOf(reply); len(fields) > 0 { // A server may refuse news and renew the leases.
		s.w.newsRefused(batch, &Error{Code: CodeInvalid, Message: reply.GetError(), Fields: fields})
	}
	if len(reply.GetHeartbeats()) == 0 {
		s.w.newsUnsent(batch)
		return frameError(reply)
	}
	s.w.renewed(batch, reply.GetHeartbeats())
	return nil
}

// renewSoon makes the lease of every running handler due. Outcomes that wait are
// about to be sent anyway, and a renewal that overtakes one finds no lease.
func (w *Worker) renewSoon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tasks {
		if t.phase == phaseRunning {
			t.renewAt = time.Time{}
		}
	}
}

// takeNews picks the tasks for a frame: all of them when one is due, because the
// frame goes out anyway, else those with news. next is when to look again.
func (w *Worker) takeNews(now time.Time) (batch []*task, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := false
	for _, t := range w.tasks {
		if t.renewable() && !t.renewAt.After(now) {
			due = true
			break
		}
	}
	newsDue := !w.newsDue.IsZero() && !w.newsDue.After(now)
	bytes, left := 0, false
	for _, t := range w.tasks {
		if !t.renewable() || (!due && !(newsDue && !t.news.empty())) {
			continue
		}
		size := len(t.news.progress) + len(t.news.checkpoint)
		if len(batch) >= renewMax || (len(batch) > 0 && bytes+size > renewBytesMax) {
			left = true
			continue
		}
		bytes += size
		t.sent, t.news = t.news, news{}
		t.renewAt, t.renewedAt = now.Add(t.length/3), now
		batch = append(batch, t)
	}
	return batch, w.nextLook(now, left, due || newsDue)
}

// nextLook sets the times at which the renewer is due again. Called with mu held.
func (w *Worker) nextLook(now time.Time, left, took bool) time.Duration {
	if left {
		return 0
	}
	if took {
		w.newsDue = time.Time{}
	}
	w.nextRenewal = time.Time{}
	for _, t := range w.tasks {
		if t.renewable() && (w.nextRenewal.IsZero() || t.renewAt.Before(w.nextRenewal)) {
			w.nextRenewal = t.renewAt
		}
	}
	next := time.Hour // Whatever changes that wakes the renewer.
	for _, at := range []time.Time{w.nextRenewal, w.newsDue} {
		if !at.IsZero() {
			next = min(next, max(0, at.Sub(now)))
		}
	}
	return next
}

// renewable: a lease is renewed while the handler works and while its outcome waits;
// not while the outcome is under way, which could end the lease first.
func (t *task) renewable() bool { return t.phase == phaseRunning || t.phase == phaseQueued }

func (w *Worker) renewFrame(batch []*task) *stream.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.frame()
	f.Heartbeats = make(map[string]*corvov1.HeartbeatJobUpdate, len(batch))
	for _, t := range batch {
		f.Heartbeats[t.lease.GetJobId()] = &corvov1.HeartbeatJobUpdate{
			LeaseToken: t.lease.GetLeaseToken(), ProgressJson: string(t.sent.progress), CheckpointJson: string(t.sent.checkpoint),
		}
	}
	return f
}

// newsUnsent takes back what was in a frame without an answer; newer values win.
func (w *Worker) newsUnsent(batch []*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range batch {
		if t.news.progress == nil {
			t.news.progress = t.sent.progress
		}
		if t.news.checkpoint == nil {
			t.news.checkpoint = t.sent.checkpoint
		}
		t.news.waiters = append(t.sent.waiters, t.news.waiters...)
		t.sent = news{}
		t.renewAt = time.Time{}
		if t.phase == phaseOver {
			t.news.tell(ErrLeaseLost)
		}
	}
}

// newsRefused drops what the server will not store. One bad value must not keep the
// leases beside it from being renewed; values that were good are dropped with it if
// the refusal does not name the job.
func (w *Worker) newsRefused(batch []*task, refusal *Error) {
	w.log().Error("corvo: progress or checkpoint refused", "error", refusal)
	named := func(t *task) bool {
		return slices.ContainsFunc(refusal.Fields, func(f Field) bool { return strings.Contains(f.Name, t.lease.GetJobId()) })
	}
	anyNamed := slices.ContainsFunc(batch, named)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range batch {
		if !anyNamed || named(t) {
			t.sent.tell(refusal)
		}
	}
}

// renewed reads the reply to a frame of renewals.
func (w *Worker) renewed(batch []*task, statuses map[string]*corvov1.HeartbeatJobResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range batch {
		status := statuses[t.lease.GetJobId()].GetStatus()
		if status != statusLost {
			t.heldUntil = t.renewedAt.Add(t.length)
		}
		switch status {
		case statusLost:
			t.sent.tell(ErrLeaseLost)
			w.lose(t)
		case statusCancel:
			t.stored()
			if t.phase == phaseRunning && t.ctx.Err() == nil {
				w.stats.Cancelled++
				t.cancel(ErrCancelled)
			}
		default:
			t.stored()
		}
	}
}

// stored is called with mu held, once the server has what was sent: that is what the next attempt finds.
func (t *task) stored() {
	if len(t.sent.checkpoint) > 0 {
		t.checkpoint = t.sent.checkpoint
	}
	t.sent.tell(nil)
}

// progress notes a value for the next renewals.
func (w *Worker) progress(t *task, raw json.RawMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.phase != phaseRunning {
		return ErrLeaseLost
	}
	if cause := context.Cause(t.ctx); errors.Is(cause, ErrCancelled) || errors.Is(cause, ErrLeaseLost) {
		return cause
	}
	t.news.progress = raw
	w.tellNews(time.Now().Add(progressEvery))
	return nil
}

// checkpoint sends a value at once and waits until the server has it.
func (w *Worker) checkpoint(ctx context.Context, t *task, raw json.RawMessage) error {
	confirmed := make(chan error, 1)
	w.mu.Lock()
	if t.phase != phaseRunning {
		w.mu.Unlock()
		return ErrLeaseLost
	}
	t.news.checkpoint = raw
	t.news.waiters = append(t.news.waiters, confirmed)
	w.tellNews(time.Now())
	w.mu.Unlock()
	select {
	case err := <-confirmed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tellNews is called with mu held.
func (w *Worker) tellNews(at time.Time) {
	if w.newsDue.IsZero() || at.Before(w.newsDue) {
		w.newsDue = at
		wake(w.news)
	}
}

func (w *Worker) lastCheckpoint(t *task) json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.checkpoint
}

// probe asks for anything over plain calls.
func probe(ctx context.Context, rpc corvov1connect.WorkerServiceClient) error {
	_, err := rpc.GetServerInfo(ctx, connect.NewRequest(&corvov1.GetServerInfoRequest{}))
	return err
}

// noStreams reports whether err says that this path has no streams at all.
func noStreams(err error) bool {
	return speaksHTTP1Only(err) || connect.CodeOf(err) == connect.CodeUnimplemented
}

// Package peertest is the other end of the SDK's tests: a small queue in memory
// that speaks the worker protocol over real connections, and does on request what
// a real server does on a bad day.
//
// It owns the protocol's rules as they are written in the contract: one reply per
// frame in order unless pipelined, settlements before the fetch of the same frame,
// lease tokens, idempotent settlements. It must not know the SDK.
//
// Surprising fact: it never gives a job to anybody twice by itself, because leases
// expire here only when a test says so or when their time has truly passed.
package peertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

type (
	request  = corvov1.LifecycleStreamRequest
	response = corvov1.LifecycleStreamResponse
)

// requestBytesMax is the server's limit on a message, and so on a frame of a stream.
const requestBytesMax = 4 << 20

// Options are what a Server cannot change later.
type Options struct {
	// HTTP1Only refuses HTTP/2, as an old proxy in front would.
	HTTP1Only bool
	// NoStreams answers StreamLifecycle with unimplemented.
	NoStreams bool
	// Prefix is the path under which everything stands, such as /t/acme.
	Prefix string
}

// Job is a job as a test sees it.
type Job struct {
	ID, Queue, State, Payload, Result, Error, Backtrace string
	Progress, Checkpoint                                string
	Attempt, MaxRetries                                 int
	Released, Renewed                                   int
	Tags                                                map[string]string
	ScheduledAt                                         time.Time
	Delay                                               *time.Duration // That the last failure asked for.
	Used                                                bool           // Its ack reported usage.
}

type stored struct {
	Job
	token     string
	worker    string
	cancel    bool
	expires   time.Time
	lease     time.Duration
	lastToken string // Of the last settlement, and what it was.
	lastState string
}

// Server is one peer.
type Server struct {
	t    testing.TB
	opts Options
	http *http.Server
	url  string

	corvov1connect.UnimplementedWorkerServiceHandler

	mu          sync.Mutex
	changed     chan struct{} // Closed and replaced at each change.
	jobs        map[string]*stored
	order       []string // Ids in the order in which they became ready.
	paused      map[string]bool
	idempotent  map[string]string
	unique      map[string]string
	seq         int
	streams     map[*streamState]struct{}
	opened      int
	frames      []*request
	headers     []http.Header
	calls       map[string]int
	faults      Faults
	inSettle    int
	maxInSettle int
}

// Faults are the bad days. Counts go down by one each time.
type Faults struct {
	NotLeader     int          // Streams answered with NOT_LEADER.
	RefuseStreams int          // Streams ended with unavailable before any reply.
	CutStreams    int          // Streams cut before any reply.
	Overload      int          // Frames with settlements answered with OVERLOADED.
	RefuseSettle  int          // Frames with settlements answered with another error.
	CutBefore     int          // Frames with settlements: cut the stream, do nothing.
	CutAfter      int          // Frames with settlements: do it, then cut the stream.
	Unavailable   int          // Unary and HTTP calls refused, nothing done.
	Unknown       int          // Enqueues done, but answered as of unknown outcome.
	Code          connect.Code // If not zero, the answer to everything.
	RetryAfter    string
	RefuseResult  int // Acks answered with VALIDATION_ERROR.
	RefuseFail    int // Fails answered with it.
	RefuseFetch   int // Fetches refused as too many, with a Retry-After of a second.
	// HoldSettle, if set, is received from before a settlement frame is served.
	HoldSettle chan struct{}
	// Split answers the settlements and the fetch of one frame separately.
	Split bool
	// Late gives this many more jobs than asked for with every fetch that finds any.
	Extra int
	// Held, if set, lets no job start; an empty fetch says so.
	Held *corvov1.DispatchHeld
	// Quota, if set, is in the headers RateLimit-Policy and RateLimit of enqueues.
	Quota [2]string
}

type streamState struct {
	ctx     context.Context
	cancel  context.CancelFunc
	sendMu  sync.Mutex
	closed  bool // Guarded by sendMu: the handler has returned.
	conn    *connect.BidiStream[request, response]
	parked  map[uint64]context.CancelFunc // Guarded by Server.mu.
	piped   bool
	drained bool
}

// New starts a server that stops with the test.
func New(t testing.TB, opts Options) *Server {
	t.Helper()
	s := &Server{
		t: t, opts: opts, changed: make(chan struct{}), jobs: make(map[string]*stored), paused: make(map[string]bool),
		idempotent: make(map[string]string), unique: make(map[string]string),
		streams: make(map[*streamState]struct{}), calls: make(map[string]int),
	}
	mux := http.NewServeMux()
	path, h := corvov1connect.NewWorkerServiceHandler(s, connect.WithInterceptors(connect.UnaryInterceptorFunc(s.unary)), connect.WithReadMaxBytes(requestBytesMax))
	mux.Handle(path, h)
	s.routes(mux)
	var handler http.Handler = mux
	if opts.Prefix != "" {
		handler = http.StripPrefix(opts.Prefix, mux)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(!opts.HTTP1Only)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s.url = "http://" + ln.Addr().String() + opts.Prefix
	s.http = &http.Server{Handler: s.record(handler), Protocols: &protocols, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		s.KillStreams()
		if err := s.http.Close(); err != nil {
			t.Errorf("close server: %v", err)
		}
		<-done
	})
	return s
}

func (s *Server) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.headers = append(s.headers, r.Header.Clone())
		s.calls[r.Method+" "+r.URL.Path]++
		s.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// URL is the base address for clients.
func (s *Server) URL() string { return s.url }

// Set replaces the faults.
func (s *Server) Set(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// FetchRefusalsLeft is how many fetches are still to be refused.
func (s *Server) FetchRefusalsLeft() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.RefuseFetch
}

// take uses up one of a counted fault.
func (s *Server) take(fault *int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *fault == 0 {
		return false
	}
	*fault--
	return true
}

func (s *Server) touch() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Await waits until cond holds; it is looked at after every change.
func (s *Server) Await(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond) // For conditions over the client's state.
	defer poll.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-poll.C:
		case <-deadline.C:
			s.t.Fatalf("timed out waiting until %s; jobs: %+v", what, s.Jobs())
		}
	}
}

// AwaitState waits until a job is in a state.
func (s *Server) AwaitState(id, state string) Job {
	s.t.Helper()
	s.Await(fmt.Sprintf("%s is %s", id, state), func() bool { return s.Job(id).State == state })
	return s.Job(id)
}

// Add makes a pending job and returns its id.
func (s *Server) Add(queue, payload string, tags map[string]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.add(queue, payload, &corvov1.EnqueueOptions{Tags: tags})
	s.touch()
	return id
}

func (s *Server) add(queue, payload string, o *corvov1.EnqueueOptions) string {
	s.seq++
	j := &stored{Job: Job{
		ID: fmt.Sprintf("job_%026d", s.seq), Queue: queue, State: "pending", Payload: payload,
		MaxRetries: 3, Tags: o.GetTags(),
	}}
	if o != nil && o.MaxRetries != nil {
		j.MaxRetries = int(o.GetMaxRetries())
	}
	at := o.GetScheduledAt().AsTime()
	if o.GetDelayMs() > 0 {
		at = time.Now().Add(time.Duration(o.GetDelayMs()) * time.Millisecond)
	}
	if at.After(time.Now()) {
		j.State, j.ScheduledAt = "scheduled", at
	} else {
		s.order = append(s.order, j.ID)
	}
	s.jobs[j.ID] = j
	return j.ID
}

// Job is a copy of a job.
func (s *Server) Job(id string) Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil {
		return j.Job
	}
	return Job{}
}

// Jobs are copies of all jobs.
func (s *Server) Jobs() []Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Job
	for _, j := range s.jobs {
		out = append(out, j.Job)
	}
	return out
}

// Count is the number of jobs in a state.
func (s *Server) Count(state string) int {
	n := 0
	for _, j := range s.Jobs() {
		if j.State == state {
			n++
		}
	}
	return n
}

// Cancel asks the worker of an active job to stop.
func (s *Server) Cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[id].cancel = true
	s.touch()
}

// Expire ends the lease of an active job; it becomes ready again.
func (s *Server) Expire(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready(s.jobs[id])
	s.touch()
}

// Extend gives an active job a longer lease, as a new leader does.
func (s *Server) Extend(id string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[id].expires = time.Now().Add(d)
}

// Take leases a ready job to somebody else.
func (s *Server) Take(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = slices.DeleteFunc(s.order, func(o string) bool { return o == id })
	s.lease(s.jobs[id], "somebody-else", 60)
	s.touch()
}

func (s *Server) ready(j *stored) {
	j.State, j.token = "pending", ""
	s.order = append(s.order, j.ID)
}

// Streams is the number of open streams and how many were ever opened.
func (s *Server) Streams() (open, ever int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams), s.opened
}

// Parked is the number of fetches that wait.
func (s *Server) Parked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for st := range s.streams {
		n += len(st.parked)
	}
	return n
}

// Frames are all frames received so far.
func (s *Server) Frames() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frames)
}

// MaxSettling is the largest number of settlement frames that were served at once.
func (s *Server) MaxSettling() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxInSettle
}

// Headers are those of all HTTP requests so far.
func (s *Server) Headers() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.headers)
}

// Calls is the number of HTTP requests with this method and path.
func (s *Server) Calls(methodAndPath string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[methodAndPath]
}

// KillStreams cuts all open streams without a word.
func (s *Server) KillStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		st.cancel()
	}
}

// Drain tells all open pipelined streams to go elsewhere.
func (s *Server) Drain() {
	s.mu.Lock()
	var all []*streamState
	for st := range s.streams {
		if st.piped {
			st.drained = true
			all = append(all, st)
		}
	}
	s.mu.Unlock()
	for _, st := range all {
		st.send(&response{Drain: true})
	}
}

func (st *streamState) close() {
	st.sendMu.Lock()
	defer st.sendMu.Unlock()
	st.closed = true
}

func (st *streamState) send(r *response) {
	st.sendMu.Lock()
	defer st.sendMu.Unlock()
	if st.closed || st.ctx.Err() != nil {
		return // A dead process says nothing.
	}
	if err := st.conn.Send(r); err != nil {
		st.cancel()
	}
}

// lease grants a job. Called with mu held.
func (s *Server) lease(j *stored, worker string, seconds int32) *corvov1.FetchBatchJob {
	if seconds <= 0 {
		seconds = 60
	}
	j.State, j.worker = "active", worker
	j.Attempt++
	s.seq++
	j.token = fmt.Sprintf("%s/%d/%d", j.ID, j.Attempt, s.seq)
	j.lease = time.Duration(seconds) * time.Second
	j.expires = time.Now().Add(j.lease)
	tags := ""
	if len(j.Tags) > 0 {
		raw, err := json.Marshal(j.Tags)
		if err != nil {
			s.t.Errorf("encode tags: %v", err)
		}
		tags = string(raw)
	}
	return &corvov1.FetchBatchJob{
		JobId: j.ID, Queue: j.Queue, PayloadJson: j.Payload, Attempt: int32(j.Attempt), MaxRetries: int32(j.MaxRetries),
		LeaseDuration: seconds, CheckpointJson: j.Checkpoint, TagsJson: tags, LeaseToken: j.token,
	}
}

// grab leases up to n ready jobs. Called with mu held.
func (s *Server) grab(queues []string, worker string, seconds int32, n int) []*corvov1.FetchBatchJob {
	s.expireOverdue()
	n += s.faults.Extra
	var out []*corvov1.FetchBatchJob
	var rest []string
	for _, id := range s.order {
		j := s.jobs[id]
		if len(out) < n && slices.Contains(queues, j.Queue) && !s.paused[j.Queue] && j.State == "pending" {
			out = append(out, s.lease(j, worker, seconds))
			continue
		}
		rest = append(rest, id)
	}
	s.order = rest
	if len(out) > 0 {
		s.touch()
	}
	return out
}

func (s *Server) expireOverdue() {
	now := time.Now()
	for _, j := range s.jobs {
		if j.State == "active" && now.After(j.expires) {
			s.ready(j)
		}
	}
}

// holds checks a token. done means that this token has settled the job before.
// Called with mu held.
func (s *Server) holds(id, token string) (j *stored, code string, done bool) {
	j = s.jobs[id]
	switch {
	case j == nil:
		return nil, "NOT_FOUND", false
	case token != "" && token == j.lastToken:
		return j, "", true
	case j.State != "active":
		return j, "NOT_ACTIVE", false
	case token != j.token:
		return j, "LEASE_LOST", false
	}
	return j, "", false
}

func (s *Server) ack(a *corvov1.AckBatchItem) *corvov1.ItemOutcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &corvov1.ItemOutcome{JobId: a.GetJobId()}
	j, code, done := s.holds(a.GetJobId(), a.GetLeaseToken())
	switch {
	case code != "":
		out.Code, out.Error = code, "refused"
		return out
	case done:
		return out
	case s.faults.RefuseResult > 0:
		s.faults.RefuseResult--
		out.Code, out.Error = "VALIDATION_ERROR", "result: too large"
		return out
	}
	if refusal := badUsage(a.GetUsage()); refusal != "" {
		out.Code, out.Error = "VALIDATION_ERROR", refusal
		return out
	}
	j.Result, j.Used = a.GetResultJson(), a.GetUsage() != nil
	s.settle(j, "completed")
	return out
}

// badUsage is what is wrong with a report.
func badUsage(u *corvov1.UsageReport) string {
	if u.GetInputTokens() < 0 || u.GetOutputTokens() < 0 || math.IsNaN(u.GetCostUsd()) || u.GetCostUsd() < 0 {
		return "usage: must be 0 or more"
	}
	return ""
}

// delayMax is the longest delay of a retry.
const delayMax = 30 * 24 * time.Hour

// badFail is what is wrong with a failure.
func badFail(f *corvov1.LifecycleFailItem) string {
	if d := f.GetDelayMs(); d < 0 || d > delayMax.Milliseconds() {
		return "delay_ms: is out of range"
	}
	return badUsage(f.GetUsage())
}

func (s *Server) settle(j *stored, state string) {
	j.lastToken, j.lastState, j.token = j.token, state, ""
	j.State = state
	s.touch()
}

func (s *Server) fail(f *corvov1.LifecycleFailItem) *corvov1.LifecycleFailOutcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &corvov1.LifecycleFailOutcome{JobId: f.GetJobId()}
	j, code, done := s.holds(f.GetJobId(), f.GetLeaseToken())
	if code != "" {
		out.Code, out.Error = code, "refused"
		return out
	}
	if done {
		out.Status = j.lastState
		return out
	}
	if refusal := badFail(f); refusal != "" {
		out.Code, out.Error = "VALIDATION_ERROR", refusal
		return out
	}
	if f.DelayMs != nil {
		j.Delay = new(time.Duration(f.GetDelayMs()) * time.Millisecond)
	}
	switch {
	case s.faults.RefuseFail > 0:
		s.faults.RefuseFail--
		out.Code, out.Error = "VALIDATION_ERROR", "no"
		return out
	case f.GetRelease():
		j.Released++
		j.Attempt--
		j.Error = f.GetError()
		s.settle(j, "pending")
		s.order = append(s.order, j.ID)
	case j.cancel:
		j.Error = f.GetError()
		s.settle(j, "cancelled")
	default:
		j.Error, j.Backtrace = f.GetError(), f.GetBacktrace()
		// Retries stay where they are: no test waits for a backoff.
		state := "retrying"
		if j.Attempt >= j.MaxRetries {
			state = "dead"
		}
		s.settle(j, state)
	}
	out.Status = j.lastState
	return out
}

func (s *Server) beat(id string, u *corvov1.HeartbeatJobUpdate) *corvov1.HeartbeatJobResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireOverdue()
	j := s.jobs[id]
	if j == nil || j.State != "active" || j.token != u.GetLeaseToken() {
		return &corvov1.HeartbeatJobResponse{Status: "lost"}
	}
	j.Renewed++
	j.expires = time.Now().Add(j.lease)
	if u.GetProgressJson() != "" {
		j.Progress = u.GetProgressJson()
	}
	if u.GetCheckpointJson() != "" {
		j.Checkpoint = u.GetCheckpointJson()
	}
	s.touch()
	if j.cancel {
		return &corvov1.HeartbeatJobResponse{Status: "cancel"}
	}
	return &corvov1.HeartbeatJobResponse{Status: "ok"}
}

// waitJobs leases jobs, waiting for the first.
// heldWait is for how long a fetch waits while dispatch is held.
const heldWait = 100 * time.Millisecond

func (s *Server) held() *corvov1.DispatchHeld {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.Held
}

func (s *Server) waitJobs(ctx context.Context, queues []string, worker string, seconds int32, n int, wait time.Duration) []*corvov1.FetchBatchJob {
	if s.held() != nil {
		wait = min(wait, heldWait)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		s.mu.Lock()
		if ctx.Err() != nil {
			// A grant into a dead stream would wait for its lease to expire.
			s.mu.Unlock()
			return nil
		}
		var jobs []*corvov1.FetchBatchJob
		if s.faults.Held == nil {
			jobs = s.grab(queues, worker, seconds, n)
		}
		changed := s.changed
		s.mu.Unlock()
		if len(jobs) > 0 {
			return jobs
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func apiError(code, message string) []byte {
	raw, err := json.Marshal(map[string]any{"error": message, "code": code, "request_id": "req-1"})
	if err != nil {
		return []byte(`{}`)
	}
	return raw
}

package peertest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

var errAbort = http.ErrAbortHandler

// refusal is the configured answer to everything.
func (s *Server) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.Code == 0 {
		return nil
	}
	return connect.NewError(s.faults.Code, errors.New("refused"))
}

// unary is the bad days of plain calls.
func (s *Server) unary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		if err := s.refusal(); err != nil {
			return nil, err
		}
		if s.take(&s.faults.Unavailable) {
			return nil, s.unavailable("LEADER_UNAVAILABLE")
		}
		return next(ctx, r)
	}
}

func (s *Server) unavailable(word string) error {
	err := connect.NewError(connect.CodeUnavailable, errors.New("try again"))
	err.Meta().Set("Corvo-Error-Code", word)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.RetryAfter != "" {
		err.Meta().Set("Retry-After", s.faults.RetryAfter)
	}
	return err
}

// enqueue is called with mu held.
func (s *Server) enqueue(queue, payload string, o *corvov1.EnqueueOptions) *corvov1.EnqueueResponse {
	if id, ok := s.idempotent[o.GetIdempotencyKey()]; ok && o.GetIdempotencyKey() != "" {
		return &corvov1.EnqueueResponse{JobId: id, Status: s.jobs[id].State}
	}
	if id, ok := s.unique[queue+"/"+o.GetUniqueKey()]; ok && o.GetUniqueKey() != "" {
		return &corvov1.EnqueueResponse{JobId: id, Status: "duplicate", UniqueExisting: true}
	}
	id := s.add(queue, payload, o)
	if k := o.GetIdempotencyKey(); k != "" {
		s.idempotent[k] = id
	}
	if k := o.GetUniqueKey(); k != "" {
		s.unique[queue+"/"+k] = id
	}
	s.touch()
	return &corvov1.EnqueueResponse{JobId: id, Status: s.jobs[id].State}
}

// Enqueue implements the service.
func (s *Server) Enqueue(_ context.Context, r *connect.Request[corvov1.EnqueueRequest]) (*connect.Response[corvov1.EnqueueResponse], error) {
	if r.Msg.GetQueue() == "" || r.Msg.GetQueue()[0] == '-' {
		return nil, invalid("queue", "is not a queue name")
	}
	s.mu.Lock()
	out := s.enqueue(r.Msg.GetQueue(), r.Msg.GetPayloadJson(), r.Msg.GetOptions())
	s.mu.Unlock()
	if s.take(&s.faults.Unknown) {
		return nil, s.unavailable("UNKNOWN_OUTCOME")
	}
	resp := connect.NewResponse(out)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, name := range []string{"RateLimit-Policy", "RateLimit"} {
		if v := s.faults.Quota[i]; v != "" {
			resp.Header().Set(name, v)
		}
	}
	return resp, nil
}

func invalid(field, message string) error {
	err := connect.NewError(connect.CodeInvalidArgument, errors.New("the request has invalid fields"))
	err.Meta().Set("Corvo-Error-Code", "VALIDATION_ERROR")
	err.Meta().Set("X-Request-Id", "req-7")
	if d, derr := connect.NewErrorDetail(&corvov1.FieldViolation{Field: field, Message: message}); derr == nil {
		err.AddDetail(d)
	}
	return err
}

// EnqueueBatch implements the service.
func (s *Server) EnqueueBatch(_ context.Context, r *connect.Request[corvov1.EnqueueBatchRequest]) (*connect.Response[corvov1.EnqueueBatchResponse], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &corvov1.EnqueueBatchResponse{}
	for _, j := range r.Msg.GetJobs() {
		out.Results = append(out.Results, s.enqueue(j.GetQueue(), j.GetPayloadJson(), j.GetOptions()))
	}
	return connect.NewResponse(out), nil
}

// FetchBatch implements the service.
func (s *Server) FetchBatch(ctx context.Context, r *connect.Request[corvov1.FetchBatchRequest]) (*connect.Response[corvov1.FetchBatchResponse], error) {
	if s.take(&s.faults.RefuseFetch) {
		err := connect.NewError(connect.CodeResourceExhausted, errors.New("too many"))
		err.Meta().Set("Corvo-Error-Code", "RATE_LIMITED")
		err.Meta().Set("Retry-After", "1")
		return nil, err
	}
	m := r.Msg
	wait := time.Duration(m.GetWaitMs()) * time.Millisecond
	jobs := s.waitJobs(ctx, m.GetQueues(), m.GetWorkerId(), m.GetLeaseDuration(), int(m.GetCount()), wait)
	out := &corvov1.FetchBatchResponse{Jobs: jobs}
	if len(jobs) == 0 {
		out.Held = s.held()
	}
	return connect.NewResponse(out), nil
}

// AckBatch implements the service.
func (s *Server) AckBatch(_ context.Context, r *connect.Request[corvov1.AckBatchRequest]) (*connect.Response[corvov1.AckBatchResponse], error) {
	out := &corvov1.AckBatchResponse{}
	for _, a := range r.Msg.GetItems() {
		out.Outcomes = append(out.Outcomes, s.ack(a))
	}
	return connect.NewResponse(out), nil
}

// Fail implements the service.
func (s *Server) Fail(_ context.Context, r *connect.Request[corvov1.FailRequest]) (*connect.Response[corvov1.FailResponse], error) {
	o := s.fail(&corvov1.LifecycleFailItem{
		JobId: r.Msg.GetJobId(), Error: r.Msg.GetError(), Backtrace: r.Msg.GetBacktrace(),
		LeaseToken: r.Msg.GetLeaseToken(), Release: r.Msg.GetRelease(), DelayMs: r.Msg.DelayMs, Usage: r.Msg.GetUsage(),
	})
	if o.GetCode() != "" {
		err := connect.NewError(connect.CodeFailedPrecondition, errors.New("refused"))
		err.Meta().Set("Corvo-Error-Code", o.GetCode())
		return nil, err
	}
	return connect.NewResponse(&corvov1.FailResponse{Status: o.GetStatus()}), nil
}

// Heartbeat implements the service.
func (s *Server) Heartbeat(_ context.Context, r *connect.Request[corvov1.HeartbeatRequest]) (*connect.Response[corvov1.HeartbeatResponse], error) {
	out := &corvov1.HeartbeatResponse{Jobs: make(map[string]*corvov1.HeartbeatJobResponse)}
	for id, u := range r.Msg.GetJobs() {
		out.Jobs[id] = s.beat(id, u)
	}
	return connect.NewResponse(out), nil
}

// GetServerInfo implements the service.
func (s *Server) GetServerInfo(context.Context, *connect.Request[corvov1.GetServerInfoRequest]) (*connect.Response[corvov1.GetServerInfoResponse], error) {
	return connect.NewResponse(&corvov1.GetServerInfoResponse{ServerVersion: "1.2.3", ApiVersion: "v1"}), nil
}

// routes are the HTTP/JSON calls that the SDK makes.
func (s *Server) routes(mux *http.ServeMux) {
	handle := func(pattern string, h func(r *http.Request) (int, any)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if s.take(&s.faults.Unavailable) {
				w.WriteHeader(http.StatusServiceUnavailable)
				s.write(w, apiError("LEADER_UNAVAILABLE", "try again"))
				return
			}
			status, body := h(r)
			raw, err := json.Marshal(body)
			if err != nil {
				s.t.Errorf("encode answer: %v", err)
			}
			w.WriteHeader(status)
			s.write(w, raw)
		})
	}
	handle("GET /api/v1/info", func(*http.Request) (int, any) {
		return 200, map[string]string{"server_version": "1.2.3", "api_version": "v1"}
	})
	handle("GET /api/v1/jobs/{id}", func(r *http.Request) (int, any) {
		j := s.Job(r.PathValue("id"))
		if j.ID == "" {
			return 404, json.RawMessage(apiError("NOT_FOUND", "no such job"))
		}
		return 200, map[string]any{
			"id": j.ID, "queue": j.Queue, "state": j.State, "payload": json.RawMessage(j.Payload), "priority": 2,
			"attempt": j.Attempt, "max_retries": j.MaxRetries, "tags": j.Tags, "created_at": time.Now().UTC(),
		}
	})
	handle("GET /api/v1/queues", func(*http.Request) (int, any) {
		return 200, []map[string]any{{"name": "emails", "paused": s.isPaused("emails"), "pending": s.Count("pending")}}
	})
	handle("POST /api/v1/queues/{name}/pause", func(r *http.Request) (int, any) { return s.pause(r.PathValue("name"), true) })
	handle("POST /api/v1/queues/{name}/resume", func(r *http.Request) (int, any) { return s.pause(r.PathValue("name"), false) })
	handle("POST /api/v1/jobs/{id}/{verb}", func(r *http.Request) (int, any) { return s.verb(r.PathValue("id"), r.PathValue("verb")) })
	handle("DELETE /api/v1/jobs/{id}", func(r *http.Request) (int, any) { return s.verb(r.PathValue("id"), "delete") })
}

func (s *Server) write(w http.ResponseWriter, raw []byte) {
	if _, err := w.Write(raw); err != nil {
		s.t.Logf("write answer: %v", err)
	}
}

func (s *Server) isPaused(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused[queue]
}

func (s *Server) pause(queue string, on bool) (int, any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused[queue] = on
	s.touch()
	return 200, map[string]string{"status": "ok"}
}

func (s *Server) verb(id, verb string) (int, any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[id]
	if j == nil {
		return 404, json.RawMessage(apiError("NOT_FOUND", "no such job"))
	}
	defer s.touch()
	switch verb {
	case "cancel":
		if j.State == "active" {
			j.cancel = true
			return 200, map[string]string{"status": "cancelling"}
		}
		j.State = "cancelled"
		return 200, map[string]string{"status": "cancelled"}
	case "retry":
		if j.State == "active" {
			return 409, json.RawMessage(apiError("CONFLICT", "the job runs"))
		}
		s.ready(j)
		return 200, map[string]string{"status": "retried"}
	case "delete":
		delete(s.jobs, id)
		return 200, map[string]string{"status": "deleted"}
	}
	return 404, json.RawMessage(apiError("NOT_FOUND", "no such route"))
}

package standin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

// Handler serves the queue over HTTP/JSON and Connect.
func (q *Queue) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/enqueue", q.httpEnqueue)
	mux.HandleFunc("POST /api/v1/enqueue/batch", q.httpEnqueueBatch)
	mux.HandleFunc("POST /api/v1/fetch", q.httpFetch)
	mux.HandleFunc("POST /api/v1/fetch/batch", q.httpFetch)
	mux.HandleFunc("POST /api/v1/ack/batch", q.httpAckBatch)
	mux.HandleFunc("POST /api/v1/ack/{id}", q.httpAck)
	mux.HandleFunc("POST /api/v1/fail/{id}", q.httpFail)
	mux.HandleFunc("POST /api/v1/heartbeat", q.httpHeartbeat)
	mux.HandleFunc("GET /api/v1/jobs/{id}", q.httpJob)
	mux.HandleFunc("DELETE /api/v1/jobs/{id}", q.httpDelete)
	mux.HandleFunc("POST /api/v1/jobs/{id}/cancel", q.httpCancel)
	mux.HandleFunc("POST /api/v1/jobs/{id}/retry", q.httpRetry)
	mux.HandleFunc("GET /api/v1/queues", q.httpQueues)
	mux.HandleFunc("POST /api/v1/queues/{name}/{verb}", q.httpQueueVerb)
	mux.HandleFunc("GET /api/v1/cluster/status", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, map[string]any{"mode": "cluster", "node_id": "node-1", "raft_nosync": true})
	})
	mux.Handle(corvov1connect.NewWorkerServiceHandler(&service{queue: q}))
	guarded := http.NewServeMux()
	guarded.HandleFunc("GET /api/v1/info", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, map[string]string{"server_version": "0.0.0-standin", "api_version": "1.0.0"})
	})
	guarded.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, map[string]string{"status": "ok", "raft_state": "Leader", "leader": "node-1"})
	})
	guarded.Handle("/", q.guard(mux))
	return guarded
}

// NewServer is an HTTP server that also speaks HTTP/2 without TLS.
func (q *Queue) NewServer() *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: q.Handler(), Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second}
}

func (q *Queue) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q.Key != "" && r.Header.Get("X-API-Key") != q.Key && r.Header.Get("Authorization") != "Bearer "+q.Key {
			refuse(w, 401, "UNAUTHORIZED", "the API key is missing or not valid")
			return
		}
		next.ServeHTTP(w, r)
	})
}

type enqueueBody struct {
	Queue          string            `json:"queue"`
	Payload        json.RawMessage   `json:"payload"`
	Priority       string            `json:"priority"`
	MaxRetries     int               `json:"max_retries"`
	Tags           map[string]string `json:"tags"`
	IdempotencyKey string            `json:"idempotency_key"`
}

// record checks the body like the server: every bad field at once.
func (b *enqueueBody) record() (*record, []map[string]string) {
	var fields []map[string]string
	if b.Queue == "" || b.Queue[0] == '-' {
		fields = append(fields, map[string]string{"field": "queue", "message": "is not a queue name"})
	}
	priority, ok := map[string]int{"critical": 0, "high": 1, "normal": 2, "": 2}[b.Priority]
	if !ok {
		fields = append(fields, map[string]string{"field": "priority", "message": "is not critical, high or normal"})
	}
	return &record{queue: b.Queue, payload: string(b.Payload), priority: priority, maxRetries: b.MaxRetries, tags: b.Tags}, fields
}

func (q *Queue) httpEnqueue(w http.ResponseWriter, r *http.Request) {
	var body enqueueBody
	if !read(w, r, &body) {
		return
	}
	job, fields := body.record()
	if fields != nil {
		refuseFields(w, fields)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.faults.Overloads > 0 {
		q.faults.Overloads--
		w.Header().Set("Retry-After", "0.003")
		refuse(w, 429, "OVERLOADED", "too many jobs at once")
		return
	}
	if first := q.keys[body.IdempotencyKey]; body.IdempotencyKey != "" && first != nil {
		job = first
	} else {
		q.add(job)
		q.keys[body.IdempotencyKey] = job
	}
	write(w, 201, map[string]any{"job_id": job.id, "status": "pending", "unique_existing": false})
}

func (q *Queue) httpEnqueueBatch(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Jobs []enqueueBody `json:"jobs"`
	}
	if !read(w, r, &body) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	records := make([]*record, len(body.Jobs))
	for i := range body.Jobs {
		var fields []map[string]string
		if records[i], fields = body.Jobs[i].record(); fields != nil {
			refuseFields(w, fields)
			return
		}
	}
	ids := make([]string, len(records))
	for i, job := range records {
		q.add(job)
		ids[i] = job.id
	}
	write(w, 201, map[string]any{"job_ids": ids})
}

func grant(r *record) map[string]any {
	g := map[string]any{"job_id": r.id, "queue": r.queue, "payload": json.RawMessage(r.payload), "attempt": r.attempt,
		"max_retries": r.maxRetries, "lease_duration": 60, "lease_token": r.token}
	if r.tags != nil {
		g["tags"] = r.tags
	}
	return g
}

func (q *Queue) httpFetch(w http.ResponseWriter, r *http.Request) {
	body := struct {
		Queues   []string `json:"queues"`
		WorkerID string   `json:"worker_id"`
		Count    int      `json:"count"`
		Wait     string   `json:"wait"`
	}{Count: 1}
	if !read(w, r, &body) {
		return
	}
	wait, err := time.ParseDuration(body.Wait)
	if err != nil {
		refuseFields(w, []map[string]string{{"field": "wait", "message": "is not a duration"}})
		return
	}
	got := q.fetch(body.Queues, body.Count, body.WorkerID, wait, r.Context().Done())
	if r.URL.Path == "/api/v1/fetch" {
		if len(got) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		write(w, 200, grant(got[0]))
		return
	}
	grants := make([]map[string]any, len(got))
	for i, job := range got {
		grants[i] = grant(job)
	}
	write(w, 200, map[string]any{"jobs": grants})
}

type settleBody struct {
	JobID      string          `json:"job_id"`
	LeaseToken string          `json:"lease_token"`
	Result     json.RawMessage `json:"result"`
	Error      string          `json:"error"`
	Release    bool            `json:"release"`
}

func (q *Queue) httpAck(w http.ResponseWriter, r *http.Request) {
	var body settleBody
	if !read(w, r, &body) {
		return
	}
	if code := q.ack(r.PathValue("id"), body.LeaseToken, string(body.Result)); code != "" {
		refuseJob(w, code)
		return
	}
	write(w, 200, map[string]string{"status": "ok"})
}

func (q *Queue) httpAckBatch(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Acks []settleBody `json:"acks"`
	}
	if !read(w, r, &body) {
		return
	}
	acked := 0
	for _, a := range body.Acks {
		if q.ack(a.JobID, a.LeaseToken, string(a.Result)) == "" {
			acked++
		}
	}
	write(w, 200, map[string]any{"acked": acked})
}

func (q *Queue) httpFail(w http.ResponseWriter, r *http.Request) {
	var body settleBody
	if !read(w, r, &body) {
		return
	}
	job, code := q.fail(r.PathValue("id"), body.LeaseToken, body.Error, body.Release)
	if code != "" {
		refuseJob(w, code)
		return
	}
	write(w, 200, map[string]any{"status": job.state, "attempts_remaining": job.maxRetries - job.attempt})
}

func (q *Queue) httpHeartbeat(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Jobs map[string]struct {
			LeaseToken string          `json:"lease_token"`
			Progress   json.RawMessage `json:"progress"`
		} `json:"jobs"`
	}
	if !read(w, r, &body) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	answer := make(map[string]any)
	for id, update := range body.Jobs {
		status := "ok"
		if job, code := q.holder(id, update.LeaseToken); code != "" {
			status = "lost"
		} else if len(update.Progress) > 0 {
			job.progress = string(update.Progress)
		}
		answer[id] = map[string]string{"status": status}
	}
	write(w, 200, map[string]any{"jobs": answer})
}

func (q *Queue) httpJob(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	job := q.jobs[r.PathValue("id")]
	if job == nil {
		refuseJob(w, codeNotFound)
		return
	}
	out := map[string]any{"id": job.id, "queue": job.queue, "state": job.state, "payload": json.RawMessage(job.payload), "priority": job.priority,
		"attempt": job.attempt, "max_retries": job.maxRetries, "created_at": job.created}
	for name, text := range map[string]string{"result": job.result, "progress": job.progress} {
		if text != "" {
			out[name] = json.RawMessage(text)
		}
	}
	if job.tags != nil {
		out["tags"] = job.tags
	}
	if job.lastErr != "" {
		out["errors"] = []map[string]any{{"attempt": job.attempt, "error": job.lastErr, "created_at": job.created}}
	}
	write(w, 200, out)
}

func (q *Queue) httpDelete(w http.ResponseWriter, r *http.Request) {
	q.verb(w, r, "deleted", "pending", "completed", "dead", "cancelled", "retrying")
}
func (q *Queue) httpCancel(w http.ResponseWriter, r *http.Request) {
	q.verb(w, r, "cancelled", "pending", "retrying")
}
func (q *Queue) httpRetry(w http.ResponseWriter, r *http.Request) {
	q.verb(w, r, "retried", "dead", "cancelled", "completed")
}

// verb does one job action from the states that allow it.
func (q *Queue) verb(w http.ResponseWriter, r *http.Request, status string, from ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	job := q.jobs[r.PathValue("id")]
	if job == nil {
		refuseJob(w, codeNotFound)
		return
	}
	allowed := false
	for _, state := range from {
		allowed = allowed || job.state == state
	}
	if !allowed {
		refuse(w, 409, "CONFLICT", "a job that is "+job.state+" cannot be "+status)
		return
	}
	q.drop(job)
	switch status {
	case "deleted":
		delete(q.jobs, job.id)
	case "cancelled":
		job.state = "cancelled"
	case "retried":
		job.attempt = 0
		q.makeReady(job)
	}
	write(w, 200, map[string]string{"status": status})
}

// drop takes a job out of the ready order. The caller holds mu.
func (q *Queue) drop(job *record) {
	kept := q.ready[job.queue][:0]
	for _, r := range q.ready[job.queue] {
		if r.id != job.id {
			kept = append(kept, r)
		}
	}
	q.ready[job.queue] = kept
}

func (q *Queue) httpQueues(w http.ResponseWriter, _ *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rows := []map[string]any{}
	for _, name := range q.known {
		row := map[string]any{"name": name, "paused": q.paused[name]}
		counts := map[string]int{"pending": 0, "active": 0, "held": 0, "completed": 0, "dead": 0, "scheduled": 0, "retrying": 0, "cancelled": 0}
		for _, job := range q.jobs {
			if job.queue == name {
				counts[job.state]++
			}
		}
		for state, n := range counts {
			row[state] = n
		}
		rows = append(rows, row)
	}
	write(w, 200, rows)
}

func (q *Queue) httpQueueVerb(w http.ResponseWriter, r *http.Request) {
	verb, name := r.PathValue("verb"), r.PathValue("name")
	status := map[string]string{"pause": "paused", "resume": "resumed"}[verb]
	if status == "" {
		refuse(w, 404, "NOT_FOUND", "no such action")
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.paused[name] = verb == "pause"
	close(q.changed)
	q.changed = make(chan struct{})
	write(w, 200, map[string]string{"status": status})
}

func read(w http.ResponseWriter, r *http.Request, v any) bool {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		refuse(w, 400, "PARSE_ERROR", err.Error())
		return false
	}
	return true
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // A client that left is not our trouble.
}

func refuse(w http.ResponseWriter, status int, code, text string) {
	write(w, status, map[string]any{"error": text, "code": code, "status": status, "request_id": "req_standin"})
}

func refuseFields(w http.ResponseWriter, fields []map[string]string) {
	text := "the request has invalid fields"
	for _, f := range fields {
		text += "; " + f["field"] + ": " + f["message"]
	}
	write(w, 400, map[string]any{"error": text, "code": "VALIDATION_ERROR", "status": 400, "request_id": "req_standin", "fields": fields})
}

func refuseJob(w http.ResponseWriter, code string) {
	switch code {
	case codeNotFound:
		refuse(w, 404, code, "the job does not exist")
	case codeLeaseLost:
		refuse(w, 409, code, "the lease belongs to somebody else")
	default:
		refuse(w, 409, code, "the job is not active")
	}
}

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// object is a JSON object under construction; put leaves out what says nothing.
type object map[string]any

func (o object) put(name string, v any) object {
	switch v := v.(type) {
	case string:
		if v != "" {
			o[name] = v
		}
	case json.RawMessage:
		if len(v) > 0 {
			o[name] = v
		}
	case *int:
		if v != nil {
			o[name] = *v
		}
	case *time.Duration:
		if v != nil {
			o[name] = v.Milliseconds()
		}
	case bool:
		if v {
			o[name] = v
		}
	case time.Time:
		if !v.IsZero() {
			o[name] = v.UTC().Format(time.RFC3339Nano)
		}
	}
	return o
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// overHTTP speaks HTTP/JSON, the way curl and the clients of generation 1 do. The
// calls that only HTTP has are its methods too.
type overHTTP struct {
	target Target
	client *http.Client
}

func newHTTP(target Target) *overHTTP {
	return &overHTTP{target: target, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
}

func (h *overHTTP) Close() { h.client.CloseIdleConnections() }

// verbatim is a body that goes out as it is.
type verbatim []byte

// call makes one call and decodes the answer, if there is one, into out.
func (h *overHTTP) call(ctx context.Context, method, path string, in, out any) (status int, err error) {
	b := new(bytes.Buffer)
	if text, ok := in.(verbatim); ok {
		b.Write(text)
	} else if in != nil {
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false) // What a rule gives is what goes out.
		if err := enc.Encode(in); err != nil {
			return 0, fmt.Errorf("encode %s: %w", path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, h.target.URL+path, b)
	if err != nil {
		return 0, fmt.Errorf("call %s: %w", path, err)
	}
	h.target.identify(req.Header)
	res, err := h.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer res.Body.Close() //nolint:errcheck // Read to its end below.
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		return res.StatusCode, refusedOverHTTP(res.StatusCode, text)
	}
	if out != nil && len(text) > 0 {
		if err := json.Unmarshal(text, out); err != nil {
			return res.StatusCode, fmt.Errorf("%s %s answered %q: %w", method, path, text, err)
		}
	}
	return res.StatusCode, nil
}

func refusedOverHTTP(status int, text []byte) error {
	var p struct {
		Code   string `json:"code"`
		Error  string `json:"error"`
		Fields []struct {
			Field string `json:"field"`
		} `json:"fields"`
	}
	if err := json.Unmarshal(text, &p); err != nil || p.Code == "" || p.Error == "" {
		return fmt.Errorf("status %d without an error body: %q", status, text)
	}
	r := &Refusal{Code: p.Code, Text: p.Error}
	for _, f := range p.Fields {
		r.Fields = append(r.Fields, f.Field)
	}
	r.Fields = plainFields(r.Fields)
	return r
}

func enqueueObject(j *Job) object {
	o := object{"queue": j.Queue}
	o.put("payload", raw(j.Payload)).put("checkpoint", raw(j.Checkpoint)).put("priority", j.Priority)
	o.put("max_retries", j.MaxRetries).put("retry_backoff", j.Backoff)
	o.put("retry_base_delay_ms", j.BaseDelay).put("retry_max_delay_ms", j.MaxDelay)
	o.put("scheduled_at", j.ScheduledAt).put("delay_ms", j.Delay).put("expire_after_ms", j.ExpireAfter)
	o.put("unique_key", j.UniqueKey).put("unique_period", j.UniqueSeconds).put("idempotency_key", j.IdempotencyKey)
	o.put("on_dependency_failed", j.OnDependencyFailed).put("batch_id", j.BatchID).put("parent_id", j.ParentID)
	if j.Tags != nil {
		o["tags"] = j.Tags
	}
	if j.DependsOn != nil {
		o["depends_on"] = j.DependsOn
	}
	if a := j.Agent; a != nil {
		o["agent"] = object{"max_iterations": a.MaxIterations, "max_cost_usd": a.MaxCostUSD}.put("iteration_timeout", a.IterationTimeout)
	}
	if j.Chain != nil {
		o["chain"] = chainObject(j.Chain)
	}
	return o
}

func chainObject(c *Chain) object {
	step := func(s *Step) object { return object{"queue": s.Queue}.put("payload", raw(s.Payload)) }
	var steps []object
	for i := range c.Steps {
		steps = append(steps, step(&c.Steps[i]))
	}
	o := object{"steps": steps}
	switch {
	case c.OnFailure != nil:
		o["on_failure"] = step(c.OnFailure)
	case c.GoOn:
		o["on_failure"] = "continue"
	}
	if c.OnExit != nil {
		o["on_exit"] = step(c.OnExit)
	}
	return o
}

func usageObject(u *Usage) object {
	o := object{"input_tokens": u.Input, "output_tokens": u.Output, "cost_usd": u.CostUSD}
	return o.put("model", u.Model).put("provider", u.Provider).put("kind", u.Kind)
}

type enqueuedBody struct {
	JobID          string `json:"job_id"`
	Status         string `json:"status"`
	UniqueExisting bool   `json:"unique_existing"`
	ChainID        string `json:"chain_id"`
	BatchID        string `json:"batch_id"`
}

func (b enqueuedBody) enqueued() Enqueued {
	return Enqueued{b.JobID, b.Status, b.UniqueExisting, b.ChainID, b.BatchID}
}

func (h *overHTTP) Enqueue(ctx context.Context, j Job) (Enqueued, error) {
	var out enqueuedBody
	client := *h
	if j.TraceParent != "" {
		client.target = h.target.with("Traceparent", j.TraceParent)
	}
	_, err := client.call(ctx, http.MethodPost, "/api/v1/enqueue", enqueueObject(&j), &out)
	return out.enqueued(), err
}

func (h *overHTTP) EnqueueBatch(ctx context.Context, jobs []Job, b *Batch) (EnqueuedBatch, error) {
	list := make([]object, len(jobs))
	for i := range jobs {
		list[i] = enqueueObject(&jobs[i])
	}
	in := object{"jobs": list}
	if b != nil {
		in["batch"] = object{}.put("callback_queue", b.CallbackQueue).put("callback_payload", raw(b.CallbackPayload)).put("open", b.Open)
	}
	var out struct {
		Results []enqueuedBody `json:"results"`
		BatchID string         `json:"batch_id"`
	}
	_, err := h.call(ctx, http.MethodPost, "/api/v1/enqueue/batch", in, &out)
	res := EnqueuedBatch{BatchID: out.BatchID}
	for _, r := range out.Results {
		res.Jobs = append(res.Jobs, r.enqueued())
	}
	return res, err
}

type leaseBody struct {
	JobID         string            `json:"job_id"`
	Queue         string            `json:"queue"`
	Payload       json.RawMessage   `json:"payload"`
	Attempt       int               `json:"attempt"`
	MaxRetries    int               `json:"max_retries"`
	LeaseDuration int               `json:"lease_duration"`
	Checkpoint    json.RawMessage   `json:"checkpoint"`
	Tags          map[string]string `json:"tags"`
	LeaseToken    string            `json:"lease_token"`
	TraceParent   string            `json:"traceparent"`
	BatchID       string            `json:"batch_id"`
	ChainID       string            `json:"chain_id"`
	ChainStep     *int              `json:"chain_step"`
	ExpireAt      time.Time         `json:"expire_at"`
	Agent         *agentBody        `json:"agent"`
}

type agentBody struct {
	MaxIterations    int     `json:"max_iterations"`
	MaxCostUSD       float64 `json:"max_cost_usd"`
	IterationTimeout string  `json:"iteration_timeout"`
	Iteration        int     `json:"iteration"`
	TotalCostUSD     float64 `json:"total_cost_usd"`
}

func (b *leaseBody) lease() Lease {
	l := Lease{
		ID: b.JobID, Queue: b.Queue, Payload: string(b.Payload), Attempt: b.Attempt, MaxRetries: b.MaxRetries, Seconds: b.LeaseDuration,
		Checkpoint: string(b.Checkpoint), Tags: b.Tags, Token: b.LeaseToken, TraceParent: b.TraceParent,
		BatchID: b.BatchID, ChainID: b.ChainID, ChainStep: b.ChainStep, ExpireAt: b.ExpireAt,
	}
	if a := b.Agent; a != nil {
		l.Agent = &Agent{a.MaxIterations, a.MaxCostUSD, a.IterationTimeout, a.Iteration, a.TotalCostUSD}
	}
	return l
}

func (h *overHTTP) Fetch(ctx context.Context, f Fetch) ([]Lease, error) {
	in := object{"queues": f.Queues, "wait": f.Wait.String()}.put("worker_id", f.Worker).put("hostname", f.Hostname)
	if f.Lease != 0 {
		in["lease"] = f.Lease.String()
	}
	if f.Count > 1 {
		in["count"] = f.Count
		var out struct {
			Jobs []leaseBody `json:"jobs"`
		}
		_, err := h.call(ctx, http.MethodPost, "/api/v1/fetch/batch", in, &out)
		var leases []Lease
		for i := range out.Jobs {
			leases = append(leases, out.Jobs[i].lease())
		}
		return leases, err
	}
	var out leaseBody
	status, err := h.call(ctx, http.MethodPost, "/api/v1/fetch", in, &out)
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	return []Lease{out.lease()}, nil
}

func ackObject(a *Ack) object {
	o := object{}.put("lease_token", a.Token).put("worker_id", a.Worker).put("result", raw(a.Result)).put("checkpoint", raw(a.Checkpoint))
	o.put("agent_status", a.AgentStatus).put("hold_reason", a.HoldReason).put("step_status", a.StepStatus).put("exit_reason", a.ExitReason)
	if a.Usage != nil {
		o["usage"] = usageObject(a.Usage)
	}
	return o
}

func (h *overHTTP) Ack(ctx context.Context, a Ack) error {
	_, err := h.call(ctx, http.MethodPost, "/api/v1/ack/"+a.ID, ackObject(&a), nil)
	return err
}

type outcomeBody struct {
	JobID string `json:"job_id"`
	Code  string `json:"code"`
	Error string `json:"error"`
}

func (h *overHTTP) AckBatch(ctx context.Context, worker string, acks []Ack) ([]error, error) {
	list := make([]object, len(acks))
	for i := range acks {
		list[i] = ackObject(&acks[i])
		list[i]["job_id"] = acks[i].ID
	}
	var out struct {
		Outcomes []outcomeBody `json:"outcomes"`
	}
	_, err := h.call(ctx, http.MethodPost, "/api/v1/ack/batch", object{"acks": list}.put("worker_id", worker), &out)
	errs := make([]error, len(out.Outcomes))
	for i, o := range out.Outcomes {
		errs[i] = itemError(o.Code, o.Error)
	}
	return errs, err
}

func itemError(code, text string) error {
	if code == "" {
		return nil
	}
	return &Refusal{Code: code, Text: text}
}

func (h *overHTTP) Fail(ctx context.Context, f Fail) (Failed, error) {
	in := object{}.put("lease_token", f.Token).put("worker_id", f.Worker).put("error", f.Error).put("backtrace", f.Backtrace)
	in.put("release", f.Release).put("terminal", f.Terminal).put("delay_ms", f.Delay)
	if f.Usage != nil {
		in["usage"] = usageObject(f.Usage)
	}
	var out struct {
		Status            string    `json:"status"`
		NextAttemptAt     time.Time `json:"next_attempt_at"`
		AttemptsRemaining int       `json:"attempts_remaining"`
	}
	_, err := h.call(ctx, http.MethodPost, "/api/v1/fail/"+f.ID, in, &out)
	return Failed{out.Status, out.NextAttemptAt, out.AttemptsRemaining}, err
}

func (h *overHTTP) Heartbeat(ctx context.Context, hb Heartbeat) (map[string]Beat, error) {
	jobs := object{}
	for id, n := range hb.Jobs {
		o := object{}.put("lease_token", n.Token).put("progress", raw(n.Progress)).put("checkpoint", raw(n.Checkpoint))
		if n.Usage != nil {
			o["usage"] = usageObject(n.Usage)
		}
		jobs[id] = o
	}
	in := object{"jobs": jobs}.put("worker_id", hb.Worker)
	if hb.Lease != 0 {
		in["lease"] = hb.Lease.String()
	}
	var out struct {
		Jobs map[string]struct {
			Status         string `json:"status"`
			BudgetExceeded bool   `json:"budget_exceeded"`
		} `json:"jobs"`
	}
	_, err := h.call(ctx, http.MethodPost, "/api/v1/heartbeat", in, &out)
	beats := make(map[string]Beat, len(out.Jobs))
	for id, b := range out.Jobs {
		beats[id] = Beat{b.Status, b.BudgetExceeded}
	}
	return beats, err
}

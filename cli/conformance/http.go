package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
)

// object is a JSON object under construction; put leaves out a text that says nothing.
type object map[string]any

func (o object) put(name, text string) object {
	if text != "" {
		o[name] = text
	}
	return o
}

// with adds members, and takes the place of those that are there.
func (o object) with(more object) object {
	maps.Copy(o, more)
	return o
}

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
	return led(ctx, func() (int, error) { return h.once(ctx, method, path, in, out) })
}

func (h *overHTTP) once(ctx context.Context, method, path string, in, out any) (status int, err error) {
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
	defer res.Body.Close()
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

// headers makes a call and returns the headers of its answer.
func (h *overHTTP) headers(ctx context.Context, path string, in any) (http.Header, error) {
	seen := make(http.Header)
	client := overHTTP{target: h.target, client: &http.Client{Transport: headersOf{h.client.Transport, seen}}}
	_, err := client.call(ctx, http.MethodPost, path, in, nil)
	return seen, err
}

// headersOf keeps the headers of answers.
type headersOf struct {
	http.RoundTripper
	seen http.Header
}

func (t headersOf) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		maps.Copy(t.seen, res.Header)
	}
	return res, err
}

// Limits implements Client.
func (h *overHTTP) Limits(ctx context.Context, to, from string) (Limits, error) {
	enqueued, err := h.headers(ctx, "/api/v1/enqueue", Job{Queue: to})
	if err != nil {
		return Limits{}, err
	}
	fetched, err := h.headers(ctx, "/api/v1/fetch", object{"queues": []string{from}, "wait": "0s"})
	return limitsFrom(enqueued, fetched), err
}

// limitsFrom reads what the answers to an enqueue and an empty fetch say in headers.
func limitsFrom(enqueued, fetched http.Header) Limits {
	l := Limits{Held: fetched.Get("Corvo-Dispatch-Held")}
	var window, left, full int64
	_, _ = fmt.Sscanf(enqueued.Get("RateLimit-Policy"), `"enqueue_per_second";q=%d;w=%d`, &l.Quota, &window) // Nothing: no quota.
	n, _ := fmt.Sscanf(enqueued.Get("RateLimit"), `"enqueue_per_second";r=%d;t=%d`, &left, &full)            // The same.
	l.Left = n == 2 && left <= l.Quota
	return l
}

// jobBody is a job with what HTTP/JSON says otherwise than a rule.
type jobBody struct {
	Job
	BaseDelay   *int64 `json:"retry_base_delay_ms,omitempty"`
	MaxDelay    *int64 `json:"retry_max_delay_ms,omitempty"`
	Delay       *int64 `json:"delay_ms,omitempty"`
	ExpireAfter *int64 `json:"expire_after_ms,omitempty"`
	Chain       object `json:"chain,omitempty"`
}

func newJobBody(j Job) jobBody {
	j.ScheduledAt = j.ScheduledAt.UTC()
	return jobBody{j, millis(j.BaseDelay), millis(j.MaxDelay), millis(j.Delay), millis(j.ExpireAfter), chainObject(j.Chain)}
}

func chainObject(c *Chain) object {
	if c == nil {
		return nil
	}
	o := object{"steps": c.Steps}
	switch {
	case c.OnFailure != nil:
		o["on_failure"] = c.OnFailure
	case c.GoOn:
		o["on_failure"] = "continue"
	}
	if c.OnExit != nil {
		o["on_exit"] = c.OnExit
	}
	return o
}

func (h *overHTTP) Enqueue(ctx context.Context, j Job) (out Enqueued, err error) {
	client := *h
	if j.TraceParent != "" {
		client.target = h.target.with("Traceparent", j.TraceParent)
	}
	_, err = client.call(ctx, http.MethodPost, "/api/v1/enqueue", newJobBody(j), &out)
	return out, err
}

func (h *overHTTP) EnqueueBatch(ctx context.Context, jobs []Job, b *Batch) (out EnqueuedBatch, err error) {
	list := make([]jobBody, len(jobs))
	for i, j := range jobs {
		list[i] = newJobBody(j)
	}
	in := object{"jobs": list}
	if b != nil {
		in["batch"] = b
	}
	_, err = h.call(ctx, http.MethodPost, "/api/v1/enqueue/batch", in, &out)
	return out, err
}

func (h *overHTTP) Fetch(ctx context.Context, f Fetch) ([]Lease, error) {
	in := object{"queues": f.Queues, "wait": f.Wait.String()}.put("worker_id", f.Worker).put("hostname", f.Hostname)
	if f.Lease != 0 {
		in["lease"] = f.Lease.String()
	}
	if f.Count > 1 {
		in["count"] = f.Count
		var out struct {
			Jobs []Lease `json:"jobs"`
		}
		_, err := h.call(ctx, http.MethodPost, "/api/v1/fetch/batch", in, &out)
		return out.Jobs, err
	}
	var out Lease
	status, err := h.call(ctx, http.MethodPost, "/api/v1/fetch", in, &out)
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	return []Lease{out}, nil
}

func (h *overHTTP) Ack(ctx context.Context, a Ack) error {
	path := "/api/v1/ack/" + a.ID
	a.ID = ""
	_, err := h.call(ctx, http.MethodPost, path, a, nil)
	return err
}

func (h *overHTTP) AckBatch(ctx context.Context, worker string, acks []Ack) ([]error, error) {
	var out struct {
		Outcomes []struct {
			Code  string `json:"code"`
			Error string `json:"error"`
		} `json:"outcomes"`
	}
	_, err := h.call(ctx, http.MethodPost, "/api/v1/ack/batch", object{"acks": acks}.put("worker_id", worker), &out)
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

func (h *overHTTP) Fail(ctx context.Context, f Fail) (out Failed, err error) {
	_, err = h.call(ctx, http.MethodPost, "/api/v1/fail/"+f.ID, struct {
		Fail
		Delay *int64 `json:"delay_ms,omitempty"`
	}{f, millis(f.Delay)}, &out)
	return out, err
}

func (h *overHTTP) Heartbeat(ctx context.Context, hb Heartbeat) (map[string]HeartbeatResult, error) {
	in := object{"jobs": hb.Jobs}.put("worker_id", hb.Worker)
	if hb.Lease != 0 {
		in["lease"] = hb.Lease.String()
	}
	var out struct {
		Jobs map[string]HeartbeatResult `json:"jobs"`
	}
	_, err := h.call(ctx, http.MethodPost, "/api/v1/heartbeat", in, &out)
	return out.Jobs, err
}

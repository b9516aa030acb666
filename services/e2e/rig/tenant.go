package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

// Tenant speaks HTTP to a tenant URL as any client would.
type Tenant struct {
	URL string
	Key string
	// Namespace, if set, is selected by name.
	Namespace string

	client *http.Client
}

// NewTenant is a client with connections of its own.
func NewTenant(url, key string) Tenant {
	return Tenant{URL: url, Key: key, client: &http.Client{
		Timeout:   15 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}}
}

// Job is a fetched job or a job as it is shown.
type Job struct {
	JobID      string          `json:"job_id"`
	ID         string          `json:"id"`
	State      string          `json:"state"`
	Payload    json.RawMessage `json:"payload"`
	Attempt    int             `json:"attempt"`
	LeaseToken string          `json:"lease_token"`
}

// Refusal is an answer of 400 and above: the server did not do it, unless Status
// is 5xx and Code says otherwise.
type Refusal struct {
	Status int
	Body   string
}

func (r *Refusal) Error() string { return fmt.Sprintf("status %d: %s", r.Status, r.Body) }

// Call makes one call and decodes a 2xx answer into out. An error that is no
// *Refusal means that no answer was read: it may or may not have happened.
func (t Tenant) Call(ctx context.Context, method, path string, in, out any) (status int, err error) {
	header := http.Header{"X-Api-Key": {t.Key}}
	if t.Namespace != "" {
		header.Set("X-Corvo-Namespace", t.Namespace)
	}
	return exchange(ctx, t.client, method, t.URL+path, header, in, out)
}

// exchange makes one call with JSON both ways; in may be nil for no body, out to drop the
// answer.
func exchange(ctx context.Context, client *http.Client, method, url string, header http.Header, in, out any) (status int, err error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, err
	}
	maps.Copy(req.Header, header)
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return res.StatusCode, &Refusal{Status: res.StatusCode, Body: string(raw)}
	}
	if out != nil && len(raw) > 0 {
		return res.StatusCode, json.Unmarshal(raw, out)
	}
	return res.StatusCode, nil
}

// Enqueue adds one job; the id is of an acknowledged job.
func (t Tenant) Enqueue(ctx context.Context, queue string, payload any) (id string, err error) {
	var job Job
	_, err = t.Call(ctx, http.MethodPost, "/api/v1/enqueue", map[string]any{"queue": queue, "payload": payload}, &job)
	return job.JobID, err
}

// Fetch leases one job; ok is false when there was none within wait.
func (t Tenant) Fetch(ctx context.Context, queue, worker string, wait time.Duration) (job Job, ok bool, err error) {
	return t.FetchLease(ctx, queue, worker, wait, time.Minute)
}

// FetchLease is Fetch with a lease of its own length.
func (t Tenant) FetchLease(ctx context.Context, queue, worker string, wait, lease time.Duration) (job Job, ok bool, err error) {
	in := map[string]any{"queues": []string{queue}, "worker_id": worker, "wait": wait.String(), "lease": lease.String()}
	status, err := t.Call(ctx, http.MethodPost, "/api/v1/fetch", in, &job)
	return job, err == nil && status == http.StatusOK, err
}

// Ack finishes a fetched job.
func (t Tenant) Ack(ctx context.Context, job Job) error {
	in := map[string]any{"lease_token": job.LeaseToken, "result": map[string]any{"ok": true}}
	_, err := t.Call(ctx, http.MethodPost, "/api/v1/ack/"+job.JobID, in, nil)
	return err
}

// Job shows a job.
func (t Tenant) Job(ctx context.Context, id string) (job Job, err error) {
	_, err = t.Call(ctx, http.MethodGet, "/api/v1/jobs/"+id, nil, &job)
	return job, err
}

// Serving reports whether a read arrives at a leader.
func (t Tenant) Serving() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := t.Call(ctx, http.MethodGet, "/api/v1/queues", nil, nil)
	return err == nil
}

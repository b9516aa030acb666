package month_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

const (
	queue = "month"
	// lease outlasts the test: what a lost fetch has leased is found by its job, not by the end
	// of the lease.
	lease = 4 * time.Hour
	// clients call at the same time.
	clients = 6
)

// tenant is a customer, and the record of what its client was told.
type tenant struct {
	number         int
	name, id       string
	token          string // For the control API.
	via            []rig.Tenant
	subscription   string // At Stripe; empty: it pays nothing.
	customer       string
	told           map[int64]*bill.Counts // By hour.
	open           map[string]bool        // Jobs that have not ended.
	enqueued, lost int                    // lost: leases of which no answer told.
}

// at is the record of an hour.
func (t *tenant) at(hour int64) *bill.Counts {
	c := t.told[hour]
	if c == nil {
		c = new(bill.Counts)
		t.told[hour] = c
	}
	return c
}

// sends repeats a call, over one proxy after the other, until it is answered. It reports
// whether an answer was lost, so that it may have been done more than once.
func (t *tenant) sends(ctx context.Context, rng *rand.Rand, path string, in, out any) (unsure bool, _ error) {
	method := http.MethodPost
	if in == nil {
		method = http.MethodGet
	}
	for {
		_, err := t.via[rng.IntN(len(t.via))].Call(ctx, method, path, in, out)
		var refused *rig.Refusal
		switch {
		case err == nil:
			return unsure, nil
		case errors.As(err, &refused) && refused.Status != http.StatusTooManyRequests && refused.Status < http.StatusInternalServerError:
			return unsure, fmt.Errorf("%s of %s: %w", path, t.name, err)
		case ctx.Err() != nil:
			return unsure, fmt.Errorf("%s of %s isn't answered: %w", path, t.name, err)
		case refused == nil || strings.Contains(refused.Body, "UNKNOWN_OUTCOME"):
			unsure = true
		}
		time.Sleep(20 * time.Millisecond) // Bounded by ctx.
	}
}

// works is an hour of a tenant: it enqueues some jobs, and settles what it gets.
func (t *tenant) works(ctx context.Context, rng *rand.Rand, hour int64) error {
	if err := t.enqueues(ctx, rng, hour); err != nil {
		return err
	}
	return t.drains(ctx, rng, hour)
}

// drains settles what there is.
func (t *tenant) drains(ctx context.Context, rng *rand.Rand, hour int64) error {
	seen := make(map[string]bool)
	var got struct {
		Jobs []rig.Job `json:"jobs"`
	}
	in := map[string]any{"queues": []string{queue}, "worker_id": t.name, "count": len(t.open) + 1, "wait": "0s", "lease": lease.String()}
	unsure, err := t.sends(ctx, rng, "/api/v1/fetch/batch", in, &got)
	if err != nil {
		return err
	}
	for _, job := range got.Jobs {
		seen[job.JobID] = true
		if err := t.settles(ctx, rng, job, hour); err != nil {
			return err
		}
	}
	if unsure {
		time.Sleep(300 * time.Millisecond) // What the lost call still does, it has done by then.
	}
	return t.finds(ctx, rng, seen, hour)
}

// enqueues makes one to three jobs.
func (t *tenant) enqueues(ctx context.Context, rng *rand.Rand, hour int64) error {
	var jobs []map[string]any
	for range 1 + rng.IntN(3) {
		t.enqueued++
		payload, err := json.Marshal(map[string]string{"text": strings.Repeat("x", rng.IntN(4000))})
		if err != nil {
			return err
		}
		t.at(hour).PayloadBytes += int64(len(payload))
		jobs = append(jobs, map[string]any{"queue": queue, "payload": json.RawMessage(payload), "max_retries": 5,
			"idempotency_key": fmt.Sprintf("%s-%d", t.name, t.enqueued)})
	}
	t.at(hour).JobsEnqueued += int64(len(jobs))
	var made struct {
		JobID  string   `json:"job_id"`
		JobIDs []string `json:"job_ids"`
	}
	path, in := "/api/v1/enqueue", any(jobs[0])
	if len(jobs) > 1 {
		path, in = "/api/v1/enqueue/batch", map[string]any{"jobs": jobs}
	}
	if _, err := t.sends(ctx, rng, path, in, &made); err != nil {
		return err
	}
	if len(jobs) == 1 {
		made.JobIDs = []string{made.JobID}
	}
	for _, id := range made.JobIDs {
		t.open[id] = true
	}
	return nil
}

// settles ends an attempt: most are acked, some fail, some are given back.
func (t *tenant) settles(ctx context.Context, rng *rand.Rand, job rig.Job, hour int64) error {
	path, in := "/api/v1/ack/"+job.JobID, map[string]any{"lease_token": job.LeaseToken}
	n := rng.IntN(20)
	switch {
	case n < 2 && job.Attempt < 4:
		path, in["error"], in["delay"] = "/api/v1/fail/"+job.JobID, "it went wrong", "1s"
	case n < 3:
		path, in["release"] = "/api/v1/fail/"+job.JobID, true
	}
	if _, err := t.sends(ctx, rng, path, in, nil); err != nil { // A repeated call gets the first answer.
		return err
	}
	if in["release"] == nil {
		t.at(hour).Executions++
	}
	if in["error"] == nil && in["release"] == nil {
		delete(t.open, job.JobID)
	}
	return nil
}

// finds looks for jobs that a lost answer has leased, and ends their attempts.
func (t *tenant) finds(ctx context.Context, rng *rand.Rand, seen map[string]bool, hour int64) error {
	for id := range t.open {
		if seen[id] {
			continue
		}
		var job rig.Job
		if _, err := t.sends(ctx, rng, "/api/v1/jobs/"+id, nil, &job); err != nil {
			return err
		}
		if job.State != "active" {
			continue
		}
		t.lost++
		_, err := t.sends(ctx, rng, "/api/v1/ack/"+id, map[string]any{"worker_id": t.name}, nil)
		if err != nil {
			// An ack without a token can't be repeated, so its job tells.
			if _, again := t.sends(ctx, rng, "/api/v1/jobs/"+id, nil, &job); again != nil || job.State != "completed" {
				return errors.Join(err, again)
			}
		}
		t.at(hour).Executions++
		delete(t.open, id)
	}
	return nil
}

// work lets some of the tenants work in the hour that it is, and returns when every call has
// been answered.
func (w *world) work(some []*tenant, do func(*tenant, context.Context, *rand.Rand, int64) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	hour := w.now().Unix() / 3600
	todo := make(chan *tenant, len(some))
	for _, t := range some {
		todo <- t
	}
	close(todo)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for t := range todo {
				if err := do(t, ctx, w.rng(ofClients, uint64(t.number), uint64(hour)), hour); err != nil {
					w.t.Errorf("at %s: %v", w.now().UTC().Format(time.RFC3339), err)
				}
			}
		})
	}
	all.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
}

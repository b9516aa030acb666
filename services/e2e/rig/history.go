package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// History is what the service has acknowledged. "Acknowledged" means that the
// client has read a 2xx; everything else may have happened or not.
type History struct {
	mu sync.Mutex // Guards the rest.
	// enqueued and acked are by job id, with the time of the answer.
	enqueued map[string]time.Time
	acked    map[string]time.Time
	wrong    []string
}

// NewHistory returns an empty one.
func NewHistory() *History {
	return &History{enqueued: map[string]time.Time{}, acked: map[string]time.Time{}}
}

// Enqueued records an acknowledged enqueue.
func (h *History) Enqueued(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enqueued[id] = time.Now()
}

// Fetched records a job that was handed out to a call that began at asked.
func (h *History) Fetched(id string, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.acked[id]; ok && at.Before(asked) {
		h.wrong = append(h.wrong, fmt.Sprintf("%s was handed out again %s after its acknowledged end", id, asked.Sub(at)))
	}
}

// Acked records an acknowledged end of a job.
func (h *History) Acked(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked[id] = time.Now()
}

// Counts returns how much was acknowledged so far.
func (h *History) Counts() (enqueued, acked int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.enqueued), len(h.acked)
}

const (
	auditors    = 8
	wrongsShown = 10
)

// Audit looks up every acknowledged job and fails the test for each that is lost:
// an acknowledged enqueue that is in no state, an acknowledged end that is not.
func (h *History) Audit(ctx context.Context, t testing.TB, tenant Tenant) {
	t.Helper()
	h.mu.Lock()
	ids := make(chan string, len(h.enqueued)+len(h.acked))
	for id := range h.enqueued {
		ids <- id
	}
	for id := range h.acked {
		if _, seen := h.enqueued[id]; !seen { // Its enqueue was never answered.
			ids <- id
		}
	}
	h.mu.Unlock()
	close(ids)
	var auditing sync.WaitGroup
	for range auditors {
		auditing.Go(func() {
			for id := range ids {
				h.audit(ctx, tenant, id)
			}
		})
	}
	auditing.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.wrong)
	for i, w := range h.wrong {
		if i == wrongsShown {
			t.Errorf("... and %d more", len(h.wrong)-i)
			break
		}
		t.Error(w)
	}
}

func (h *History) audit(ctx context.Context, tenant Tenant, id string) {
	job, err := patiently(ctx, func() (Job, error) { return tenant.Job(ctx, id) })
	h.mu.Lock()
	defer h.mu.Unlock()
	_, acked := h.acked[id]
	switch {
	case err != nil:
		h.wrong = append(h.wrong, fmt.Sprintf("%s (end acknowledged: %v) is lost: %v", id, acked, err))
	case acked && job.State != "completed":
		h.wrong = append(h.wrong, fmt.Sprintf("%s was acknowledged as done and is %s", id, job.State))
	}
}

// patiently repeats a read until it gets an answer other than "not now".
func patiently[T any](ctx context.Context, read func() (T, error)) (T, error) {
	for {
		v, err := read()
		var refused *Refusal
		if err == nil || ctx.Err() != nil || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
			return v, err
		}
		time.Sleep(pollEvery) // Bounded by ctx.
	}
}

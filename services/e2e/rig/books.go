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

// Books hold what the service has acknowledged. "Acknowledged" means that the
// client has read a 2xx; everything else may have happened or not.
type Books struct {
	mu sync.Mutex // Guards the rest.
	// enqueued and acked are by job id, with the time of the answer.
	enqueued map[string]time.Time
	acked    map[string]time.Time
	wrong    []string
}

// NewBooks are empty.
func NewBooks() *Books {
	return &Books{enqueued: map[string]time.Time{}, acked: map[string]time.Time{}}
}

// Enqueued notes an acknowledged enqueue.
func (b *Books) Enqueued(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enqueued[id] = time.Now()
}

// Fetched notes a job that was handed out to a call that began at asked.
func (b *Books) Fetched(id string, asked time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.acked[id]; ok && at.Before(asked) {
		b.wrong = append(b.wrong, fmt.Sprintf("%s was handed out again %s after its acknowledged end", id, asked.Sub(at)))
	}
}

// Acked notes an acknowledged end of a job.
func (b *Books) Acked(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked[id] = time.Now()
}

// Counts says how much was acknowledged so far.
func (b *Books) Counts() (enqueued, acked int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.enqueued), len(b.acked)
}

// FirstEnqueueAfter is the first enqueue that was acknowledged after at.
func (b *Books) FirstEnqueueAfter(at time.Time) (first time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.enqueued {
		if t.After(at) && (!ok || t.Before(first)) {
			first, ok = t, true
		}
	}
	return first, ok
}

const (
	auditors    = 8
	wrongsShown = 10
)

// Audit looks every acknowledged job up and fails the test for each that is lost:
// an acknowledged enqueue that is in no state, an acknowledged end that is not.
func (b *Books) Audit(ctx context.Context, t testing.TB, tenant Tenant) {
	t.Helper()
	b.mu.Lock()
	ids := make(chan string, len(b.enqueued)+len(b.acked))
	for id := range b.enqueued {
		ids <- id
	}
	for id := range b.acked {
		if _, seen := b.enqueued[id]; !seen { // Its enqueue was never answered.
			ids <- id
		}
	}
	b.mu.Unlock()
	close(ids)
	var auditing sync.WaitGroup
	for range auditors {
		auditing.Go(func() {
			for id := range ids {
				b.audit(ctx, tenant, id)
			}
		})
	}
	auditing.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.wrong)
	for i, w := range b.wrong {
		if i == wrongsShown {
			t.Errorf("... and %d more", len(b.wrong)-i)
			break
		}
		t.Error(w)
	}
}

func (b *Books) audit(ctx context.Context, tenant Tenant, id string) {
	job, err := patiently(ctx, func() (Job, error) { return tenant.Job(ctx, id) })
	b.mu.Lock()
	defer b.mu.Unlock()
	_, acked := b.acked[id]
	switch {
	case err != nil:
		b.wrong = append(b.wrong, fmt.Sprintf("%s (end acknowledged: %v) is lost: %v", id, acked, err))
	case acked && job.State != "completed":
		b.wrong = append(b.wrong, fmt.Sprintf("%s was acknowledged as done and is %s", id, job.State))
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

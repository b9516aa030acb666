// Package standin is a queue in memory behind the worker protocol, for tests of
// clients: it answers in the shapes of the contract and can be told to break
// promises that the real server keeps, so that a test sees a client notice.
//
// It owns no truth about Corvo's behaviour; what the server does is tested
// against the server. It must not be imported by anything but tests.
//
// The surprising fact: its faults are counted, not random. "Lose every 100th
// job" fails the same way in every run.
package standin

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Faults are promises to break. Zero breaks none.
type Faults struct {
	LoseEvery   int // Accept every n-th job and forget it.
	RepeatEvery int // Hand out every n-th job a second time.
	RefuseEvery int // Refuse every n-th ack.
	// Overloads is how many enqueue calls are refused first.
	Overloads int
	// Moves is how many frames are answered NOT_LEADER first.
	Moves int
}

// Queue is the queue in memory.
type Queue struct {
	faults Faults
	// Key, when set, is asked of every call.
	Key string

	mu       sync.Mutex // Guards everything below.
	jobs     map[string]*record
	ready    map[string][]*record // By queue, in order.
	paused   map[string]bool
	known    []string // Queue names in order of appearance.
	enqueues int
	grants   int
	acks     int
	keys     map[string]*record // Idempotency keys.
	changed  chan struct{}      // Closed and replaced when something becomes ready.
}

type record struct {
	id, queue, state, payload string
	priority                  int
	attempt, maxRetries       int
	tags                      map[string]string
	token, workerID           string
	result, progress, lastErr string
	created                   time.Time
}

// New makes an empty queue.
func New(f Faults) *Queue {
	return &Queue{faults: f, jobs: make(map[string]*record), ready: make(map[string][]*record), paused: make(map[string]bool),
		keys: make(map[string]*record), changed: make(chan struct{})}
}

func every(n, count int) bool { return n > 0 && count%n == 0 }

// add puts a job in. The caller holds mu.
func (q *Queue) add(r *record) {
	q.enqueues++
	r.id = fmt.Sprintf("job_%026d", q.enqueues)
	r.state, r.created = "pending", time.Now().UTC()
	if r.maxRetries == 0 {
		r.maxRetries = 3
	}
	if r.payload == "" {
		r.payload = "{}"
	}
	if !slices.Contains(q.known, r.queue) {
		q.known = append(q.known, r.queue)
	}
	q.jobs[r.id] = r
	if !every(q.faults.LoseEvery, q.enqueues) {
		q.makeReady(r)
	}
}

func (q *Queue) makeReady(r *record) {
	r.state = "pending"
	q.ready[r.queue] = append(q.ready[r.queue], r)
	close(q.changed)
	q.changed = make(chan struct{})
}

// take leases up to n jobs. The caller holds mu.
func (q *Queue) take(queues []string, n int, worker string) []*record {
	var got []*record
	for _, name := range queues {
		for len(got) < n && len(q.ready[name]) > 0 && !q.paused[name] {
			r := q.ready[name][0]
			q.grants++
			if every(q.faults.RepeatEvery, q.grants) {
				copied := *r
				got = append(got, &copied)
			} else {
				q.ready[name] = q.ready[name][1:]
				got = append(got, r)
			}
			r.attempt++
			r.state, r.token, r.workerID = "active", fmt.Sprintf("lt_%d", q.grants), worker
			*got[len(got)-1] = *r
			q.jobs[r.id] = got[len(got)-1]
		}
	}
	return got
}

// fetch waits for a first job.
func (q *Queue) fetch(queues []string, n int, worker string, wait time.Duration, gone <-chan struct{}) []*record {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		q.mu.Lock()
		got, changed := q.take(queues, n, worker), q.changed
		q.mu.Unlock()
		if len(got) > 0 || wait == 0 {
			return got
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-gone:
			return nil
		}
	}
}

// Refusals of single jobs.
const (
	codeNotFound  = "NOT_FOUND"
	codeNotActive = "NOT_ACTIVE"
	codeLeaseLost = "LEASE_LOST"
)

// holder finds an active job. The caller holds mu.
func (q *Queue) holder(id, token string) (*record, string) {
	r := q.jobs[id]
	switch {
	case r == nil:
		return nil, codeNotFound
	case r.state != "active":
		return nil, codeNotActive
	case token != "" && token != r.token:
		return nil, codeLeaseLost
	}
	return r, ""
}

// ack completes a job; the answer is a refusal or empty.
func (q *Queue) ack(id, token, result string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.acks++
	if every(q.faults.RefuseEvery, q.acks) {
		return codeLeaseLost
	}
	r, code := q.holder(id, token)
	if code == "" {
		r.state, r.result = "completed", result
	}
	return code
}

func (q *Queue) fail(id, token, text string, release bool) (*record, string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, code := q.holder(id, token)
	if code != "" {
		return nil, code
	}
	r.lastErr = text
	switch {
	case release:
		r.attempt--
		q.makeReady(r)
	case r.attempt >= r.maxRetries:
		r.state = "dead"
	default:
		r.state = "retrying" // For ever: nothing here has a clock.
	}
	return r, ""
}

// CompletedResult is the result of a completed job.
func (q *Queue) CompletedResult(id string) (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.jobs[id]
	if r == nil || r.state != "completed" {
		return "", false
	}
	return r.result, true
}

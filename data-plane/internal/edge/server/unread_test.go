package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// unreadMax is what these tests let answers hold: some of the answers below.
const unreadMax = 1 << 20

// stalled is a client that reads nothing of its answer until it is told to.
type stalled struct {
	header http.Header
	writes chan struct{} // Receives once, when the answer begins to be written.
	reads  <-chan struct{}
	status int
}

func (w *stalled) Header() http.Header    { return w.header }
func (w *stalled) WriteHeader(status int) { w.status = status }
func (w *stalled) Flush()                 {}

func (w *stalled) Write(p []byte) (int, error) {
	select {
	case w.writes <- struct{}{}:
	default:
	}
	<-w.reads
	return len(p), nil
}

// asks makes a call whose client reads when reads is closed. It returns once the answer is
// being written, with what waits for its end.
func (b *bench) asks(id identity.Identity, path, body string, reads <-chan struct{}) (end func() *stalled) {
	b.Helper()
	w := &stalled{header: http.Header{}, writes: make(chan struct{}, 1), reads: reads}
	r, err := http.NewRequestWithContext(context.WithoutCancel(b.Context()), http.MethodPost, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = "127.0.0.1:1"
	for h := headersFor(b, id, path); len(h) > 0; h = h[2:] {
		r.Header.Set(h[0], h[1])
	}
	done := make(chan struct{})
	go func() { defer close(done); b.srv.ServeHTTP(w, r) }()
	eventually.Returns(b, patience, "the answer begins", func() { <-w.writes })
	return func() *stalled {
		b.Helper()
		eventually.Returns(b, patience, "the call ends", func() { <-done })
		return w
	}
}

// postAs is post for a caller of a cell.
func (b *bench) postAs(id identity.Identity, path, body string, header ...string) answerOf {
	b.Helper()
	header = append(header, headersFor(b, id, path)...)
	return b.doWith(b.h2, http.MethodPost, path, body, append(header, "Content-Type", "application/json")...)
}

// stall leaves answers unread until one more is refused, and returns that one.
func (b *bench) stall(id identity.Identity, path, body string, reads <-chan struct{}) (ends []func() *stalled, refused answerOf) {
	b.Helper()
	for range 2 * unreadMax / answerSmallMax {
		if refused = b.postAs(id, path, body); refused.status != 200 {
			return ends, refused
		}
		ends = append(ends, b.asks(id, path, body, reads))
	}
	b.Fatalf("%d unread answers, and none is refused", len(ends))
	return nil, answerOf{}
}

func tenants() (mine, theirs identity.Identity) {
	mine, theirs = signed(nsA, "admin"), signed(nsB, "admin")
	theirs.TenantID = "tn_1"
	return mine, theirs
}

// large is a job of which an answer is counted.
var large = `{"queue":"q","payload":"` + strings.Repeat("x", 2*answerSmallMax) + `"}`

func TestUnread_ATenantsReadsAreBoundedAndItsNeighboursAreAnswered(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{Options: Options{UnreadBytesMax: unreadMax}})
	mine, theirs := tenants()
	b.postAs(mine, "/api/v1/enqueue", large).want(t, 201)
	ask := fmt.Sprintf(`{"job_ids":[%q]}`, b.jobs.nth(1))
	b.postAs(theirs, "/api/v1/enqueue", large).want(t, 201)
	const path = "/api/v1/jobs/bulk-get"

	reads := make(chan struct{})
	ends, refused := b.stall(mine, path, ask, reads)
	if p := refused.problem(t); refused.status != 429 || p.Code != "OVERLOADED" || p.RetryAfterMS <= 0 || refused.header.Get("Retry-After") == "" {
		t.Errorf("beyond the bound: %d %s", refused.status, refused.body)
	}
	b.postAs(mine, path, `{"job_ids":[]}`).want(t, 200) // A small one.
	got := b.postAs(theirs, "/api/v1/fetch", `{"queues":["q"]}`).want(t, 200)
	if len(got.body) < 2*answerSmallMax {
		t.Errorf("the neighbour's answer: %s", got.body)
	}

	close(reads)
	for _, end := range ends {
		if w := end(); w.status != 200 {
			t.Errorf("an answer that waited for its reader: %d", w.status)
		}
	}
	if n := b.srv.unread.Used(); n != 0 {
		t.Errorf("%d bytes are counted when all is read", n)
	}
	b.postAs(mine, path, ask).want(t, 200)
}

// A refusal says that nothing was done, so what was done is answered.
func TestUnread_WhatACallDidIsAlwaysAnswered(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{Options: Options{UnreadBytesMax: unreadMax}})
	mine, _ := tenants()
	b.postAs(mine, "/api/v1/enqueue", large).want(t, 201)
	reads := make(chan struct{})
	ends, _ := b.stall(mine, "/api/v1/jobs/bulk-get", fmt.Sprintf(`{"job_ids":[%q]}`, b.jobs.nth(1)), reads)
	many := `{"jobs":[` + strings.TrimSuffix(strings.Repeat(`{"queue":"q"},`, 1000), ",") + `]}`
	for _, header := range [][]string{nil, {"Idempotency-Key", "k"}} {
		if a := b.postAs(mine, "/api/v1/enqueue/batch", many, header...).want(t, 201); len(a.body) <= answerSmallMax {
			t.Errorf("an answer of %d bytes is not counted anyway", len(a.body))
		}
	}
	close(reads)
	for _, end := range ends {
		end()
	}
}

func TestUnread_JobsOfARefusedAnswerAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string][2]string{
		"one":             {"/api/v1/fetch", `{"queues":["q"],"wait":"0s"}`},
		"batch":           {"/api/v1/fetch/batch", `{"queues":["q"],"wait":"0s"}`},
		"RPC":             {"/corvo.v1.WorkerService/FetchBatch", `{"queues":["q"],"count":1,"waitMs":"0"}`},
		"frame in a call": {"/corvo.v1.WorkerService/StreamLifecycle", `{"queues":["q"],"fetchCount":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newCellBench(t, benchOptions{Options: Options{UnreadBytesMax: unreadMax}})
			mine, _ := tenants()
			b.postAs(mine, "/api/v1/enqueue", large).want(t, 201)
			reads := make(chan struct{})
			ends, _ := b.stall(mine, "/api/v1/jobs/bulk-get", fmt.Sprintf(`{"job_ids":[%q]}`, b.jobs.nth(1)), reads)
			a := b.postAs(mine, ask[0], ask[1])
			if !strings.Contains(string(a.body), "OVERLOADED") && a.header.Get("Corvo-Error-Code") != "OVERLOADED" {
				t.Errorf("a fetch beyond the bound: %d %.200s", a.status, a.body)
			}
			if seen := b.states(); seen[job.Pending] != 1 {
				t.Errorf("the job is %v", seen)
			}
			close(reads)
			for _, end := range ends {
				end()
			}
			if a := b.postAs(mine, ask[0], ask[1]); len(a.body) < 2*answerSmallMax {
				t.Errorf("a fetch when all is read: %d %.200s", a.status, a.body)
			}
			if n := b.srv.unread.Used(); n != 0 {
				t.Errorf("%d bytes are counted when all is read", n)
			}
		})
	}
}

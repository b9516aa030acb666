package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// eventFollower reads the event stream of a tenant and reconnects, after the last event it saw,
// whenever the stream ends, as our clients do.
type eventFollower struct {
	t   *testing.T
	url string
	key string

	mu    sync.Mutex // Guards the rest.
	last  uint64
	jobs  map[string]bool
	wrong string
	opens int
}

type seenEvent struct {
	Seq   uint64 `json:"seq"`
	Type  string `json:"type"`
	JobID string `json:"job_id"`
}

func (f *eventFollower) run(ctx context.Context) {
	for ctx.Err() == nil {
		f.once(ctx)
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (f *eventFollower) once(ctx context.Context) {
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/api/v1/events", nil)
	if err != nil {
		f.t.Error(err)
		return
	}
	req.Header.Set("X-Api-Key", f.key)
	req.Header.Set("Last-Event-ID", fmt.Sprint(last))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return
	}
	f.mu.Lock()
	f.opens++
	f.mu.Unlock()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			f.take(data)
		}
	}
}

func (f *eventFollower) take(data string) {
	var e seenEvent
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return // Cut off in the middle: it comes again.
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case e.Type == "end":
	case e.Seq != f.last+1 && f.wrong == "":
		f.wrong = fmt.Sprintf("event %d (%s) after %d", e.Seq, e.Type, f.last)
	default:
		f.last = e.Seq
		if e.Type == "enqueued" {
			f.jobs[e.JobID] = true
		}
	}
}

// Nodes are killed one after the other. Who follows the events gets each exactly
// once and in order, and a list of the jobs has them all.
func TestViews_EventsAndListsSurviveTheirLeader(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	tenant := c.Tenant(0)
	ctx := ctxFor(t, 2*time.Minute)
	f := &eventFollower{t: t, url: tenant.URL, key: c.Key, jobs: map[string]bool{}}
	following, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { f.run(following) })
	defer ended.Wait()
	defer stop()

	acknowledged := map[string]bool{}
	enqueueSome := func() {
		for range 50 {
			acknowledged[enqueueUntil(ctx, t, tenant)] = true
		}
	}
	for range 2 {
		enqueueSome()
		leader := c.Leader(c.Shard, 10*time.Second)
		c.Nodes[leader].Kill()
		enqueueSome()
		c.Nodes[leader].Start()
		c.Nodes[leader].WaitReady(30 * time.Second)
	}

	missing := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		n := 0
		for id := range acknowledged {
			if !f.jobs[id] {
				n++
			}
		}
		return n
	}
	for missing() > 0 {
		if ctx.Err() != nil {
			t.Fatalf("%d jobs never were in an event", missing())
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.mu.Lock()
	if f.wrong != "" {
		t.Error(f.wrong)
	}
	t.Logf("%d events over %d connections", f.last, f.opens)
	f.mu.Unlock()

	for id := range listAll(ctx, t, tenant) {
		delete(acknowledged, id)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d acknowledged jobs are in no list", len(acknowledged))
	}
}

// listAll reads every page, once the list is whole.
func listAll(ctx context.Context, t *testing.T, tenant rig.Tenant) map[string]bool {
	t.Helper()
	ids, cursor := map[string]bool{}, ""
	for {
		var page struct {
			Jobs []struct {
				ID string `json:"id"`
			} `json:"jobs"`
			Cursor     string `json:"cursor"`
			Rebuilding bool   `json:"rebuilding"`
			LagMS      int64  `json:"lag_ms"`
		}
		status, err := tenant.Call(ctx, "GET", "/api/v1/jobs?limit=30&cursor="+cursor, nil, &page)
		if ctx.Err() != nil {
			t.Fatalf("the list is never whole: %d %v %+v", status, err, page)
		}
		if err != nil || page.Rebuilding || page.LagMS > 0 {
			ids, cursor = map[string]bool{}, ""
			continue
		}
		for _, j := range page.Jobs {
			if ids[j.ID] {
				t.Fatalf("job %s is listed twice", j.ID)
			}
			ids[j.ID] = true
		}
		if cursor = page.Cursor; cursor == "" {
			return ids
		}
	}
}

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// listed is a job as shown in a list, and on its own.
type listed struct {
	ID          string            `json:"id"`
	Queue       string            `json:"queue"`
	State       string            `json:"state"`
	Priority    any               `json:"priority"`
	Attempt     int               `json:"attempt"`
	MaxRetries  int               `json:"max_retries"`
	Tags        map[string]string `json:"tags"`
	CreatedAt   time.Time         `json:"created_at"`
	ScheduledAt time.Time         `json:"scheduled_at"`
	StartedAt   time.Time         `json:"started_at"`
	CompletedAt time.Time         `json:"completed_at"`
	FailedAt    time.Time         `json:"failed_at"`
	WorkerID    string            `json:"worker_id"`
}

type listPage struct {
	Jobs       []listed `json:"jobs"`
	Cursor     string   `json:"cursor"`
	Rebuilding bool     `json:"rebuilding"`
	LagMS      int64    `json:"lag_ms"`
	// AsOf is the time of the page's data.
	AsOf time.Time `json:"as_of"`
}

// mixer runs every operation on jobs, whatever the answers are.
type mixer struct {
	tenant  rig.Tenant
	working sync.WaitGroup
	stop    context.CancelFunc

	mu sync.Mutex // Guards the rest.
	// settled is when the enqueue of an untouched job was acknowledged.
	settled map[string]time.Time
	ids     []string // Of jobs that anything may be done to.
}

func startMixer(tenant rig.Tenant) *mixer {
	ctx, cancel := context.WithCancel(context.Background())
	m := &mixer{tenant: tenant, stop: cancel, settled: make(map[string]time.Time)}
	for i := range 4 {
		m.working.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				m.step(ctx, n)
				select {
				case <-time.After(2 * time.Millisecond): // Its pace.
				case <-ctx.Done():
				}
			}
		})
	}
	return m
}

// end returns when no call is in progress.
func (m *mixer) end() { m.stop(); m.working.Wait() }

// some is a random job; "" if there is none yet.
func (m *mixer) some() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ids) == 0 {
		return ""
	}
	return m.ids[rand.IntN(len(m.ids))]
}

func (m *mixer) step(ctx context.Context, n int) {
	queue := fmt.Sprintf("q%d", n%4)
	id := m.some()
	switch what := rand.IntN(20); {
	case what < 3:
		if id, err := m.tenant.Enqueue(ctx, "untouched", nil); err == nil {
			m.mu.Lock()
			m.settled[id] = time.Now()
			m.mu.Unlock()
		}
	case what < 9:
		in := map[string]any{"queue": queue, "payload": n, "tags": map[string]string{"team": fmt.Sprint(n % 3)}, "max_retries": 1 + n%3, "priority": []string{"low", "normal", "high"}[n%3]}
		if what == 8 {
			in["scheduled_at"] = time.Now().Add(time.Hour)
		}
		var job rig.Job
		if _, err := m.tenant.Call(ctx, http.MethodPost, "/api/v1/enqueue", in, &job); err == nil {
			m.mu.Lock()
			m.ids = append(m.ids, job.JobID)
			m.mu.Unlock()
		}
	case what < 14:
		job, ok, err := m.tenant.Fetch(ctx, queue, fmt.Sprintf("w%d", n%2), 10*time.Millisecond)
		if err != nil || !ok || what == 9 { // Some stay with a worker that says nothing more.
			return
		}
		if what < 12 {
			_ = m.tenant.Ack(ctx, job) // Or not.
			return
		}
		_, _ = m.tenant.Call(ctx, http.MethodPost, "/api/v1/fail/"+job.JobID, map[string]any{"lease_token": job.LeaseToken, "error": "no luck"}, nil) // Or not.
	case what < 16 && id != "":
		_, _ = m.tenant.Call(ctx, http.MethodPost, "/api/v1/jobs/"+id+"/cancel", map[string]any{}, nil) // Or not.
	case what < 18 && id != "":
		_, _ = m.tenant.Call(ctx, http.MethodPost, "/api/v1/jobs/"+id+"/retry", map[string]any{}, nil) // Or not.
	case what == 18 && id != "":
		_, _ = m.tenant.Call(ctx, http.MethodDelete, "/api/v1/jobs/"+id, nil, nil) // Or not.
	case n%50 == 0:
		_, _ = m.tenant.Call(ctx, http.MethodDelete, "/api/v1/queues/"+queue+"?confirm=true", nil, nil) // Or not.
	}
}

// wait for n more untouched jobs.
func (m *mixer) more(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.settled)
	}
	before := count()
	eventually.True(t, 30*time.Second, fmt.Sprintf("%d more jobs", n), func() bool { return count() >= before+n })
}

// walk reads every page. They contain everything from before asOf, unless whole is false:
// a page says that rows may be missing, or the walk was interrupted.
func walk(ctx context.Context, tenant rig.Tenant, limit int) (jobs []listed, asOf time.Time, whole bool, _ error) {
	cursor, refusals := "", 0
	whole, asOf = true, time.Now()
	for ctx.Err() == nil {
		var page listPage
		_, err := tenant.Call(ctx, http.MethodGet, fmt.Sprintf("/api/v1/jobs?limit=%d&cursor=%s", limit, cursor), nil, &page)
		if err != nil {
			// The leader is gone: read the same page again. A cursor is valid on every node.
			var refused *rig.Refusal
			if errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
				return nil, asOf, false, err
			}
			if refusals++; refusals > 2000 {
				return nil, asOf, false, err
			}
			time.Sleep(10 * time.Millisecond) // Bounded by the line before.
			continue
		}
		whole = whole && !page.Rebuilding
		if page.AsOf.Before(asOf) {
			asOf = page.AsOf
		}
		jobs = append(jobs, page.Jobs...)
		if cursor = page.Cursor; cursor == "" {
			return jobs, asOf, whole, nil
		}
	}
	return nil, asOf, false, nil
}

// wantOrder: newest first, each once.
func wantOrder(jobs []listed) error {
	seen := make(map[string]bool)
	for i, j := range jobs {
		if seen[j.ID] {
			return fmt.Errorf("%s is listed twice", j.ID)
		}
		seen[j.ID] = true
		if i > 0 && j.CreatedAt.After(jobs[i-1].CreatedAt) {
			return fmt.Errorf("%s of %s after %s of %s", j.ID, j.CreatedAt, jobs[i-1].ID, jobs[i-1].CreatedAt)
		}
	}
	return nil
}

// wantTruth compares the list with each of its jobs, and with the counters of the queues,
// which are kept with the state. Nothing may change meanwhile.
func wantTruth(ctx context.Context, tenant rig.Tenant) error {
	var page listPage
	if _, err := tenant.Call(ctx, http.MethodGet, "/api/v1/jobs?limit=1", nil, &page); err != nil {
		return err
	}
	if page.Rebuilding || page.LagMS > 0 {
		return fmt.Errorf("rebuilding %v, lag %d ms", page.Rebuilding, page.LagMS)
	}
	jobs, _, whole, err := walk(ctx, tenant, 100)
	if err != nil || !whole {
		return fmt.Errorf("walk: whole %v, %w", whole, err)
	}
	if err := wantOrder(jobs); err != nil {
		return err
	}
	var queues []map[string]any
	if _, err := tenant.Call(ctx, http.MethodGet, "/api/v1/queues", nil, &queues); err != nil {
		return err
	}
	want, got := make(map[string]int), make(map[string]int)
	for _, q := range queues {
		for _, state := range []string{"pending", "active", "cancelling", "held", "completed", "dead", "cancelled", "scheduled", "retrying"} {
			if n, _ := q[state].(float64); n > 0 {
				want[fmt.Sprint(q["name"], " ", state)] = int(n)
			}
		}
	}
	for _, j := range jobs {
		got[j.Queue+" "+j.State]++
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("listed %v, counted %v", got, want)
	}
	for _, j := range jobs {
		var is listed
		if _, err := tenant.Call(ctx, http.MethodGet, "/api/v1/jobs/"+j.ID, nil, &is); err != nil {
			return fmt.Errorf("job %s is listed as %s: %w", j.ID, j.State, err)
		}
		if fmt.Sprint(is) != fmt.Sprint(j) {
			return fmt.Errorf("listed %+v, is %+v", j, is)
		}
	}
	return nil
}

func eventuallyTrue(ctx context.Context, t *testing.T, what string, tenant rig.Tenant) {
	t.Helper()
	eventually.NoError(t, 40*time.Second, what, func() error { return wantTruth(ctx, tenant) })
}

// Nodes are killed while jobs change in every way. Afterwards the list on every node
// equals the state, even after a node's files were removed or truncated.
func TestViews_ListsEqualTheStateOnEveryNodeAfterKills(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	tenant := c.Tenant(0)
	ctx := ctxFor(t, 2*time.Minute)
	m := startMixer(tenant)
	for round := range 4 {
		m.more(t, 30)
		victim := c.Leader(c.Shard, 20*time.Second)
		if round == 1 {
			victim = (victim + 1) % len(c.Nodes)
		}
		c.Nodes[victim].Kill()
		m.more(t, 30)
		c.Nodes[victim].Start()
		c.Nodes[victim].WaitReady(30 * time.Second)
	}
	m.end()
	for i, n := range c.Nodes {
		lead(ctx, t, c, i)
		eventuallyTrue(ctx, t, "with "+n.ID+" leading", tenant)
	}
	harm := map[int]func(dir string) error{
		0: os.RemoveAll,
		1: func(dir string) error { return eachFile(dir, "-wal", os.Remove) },
		2: func(dir string) error {
			return eachFile(dir, ".db", func(f string) error { return os.Truncate(f, 8192) })
		},
	}
	for i, n := range c.Nodes {
		n.Kill()
		if err := harm[i](filepath.Join(n.Dir, "readmodel")); err != nil {
			t.Fatal(err)
		}
		n.Start()
		n.WaitReady(30 * time.Second)
		lead(ctx, t, c, i)
		eventuallyTrue(ctx, t, "after harm to "+n.ID, tenant)
	}
	jobs, _, _, err := walk(ctx, tenant, 1000)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d jobs", len(jobs))
}

func eachFile(dir, suffix string, f func(string) error) error {
	found, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	for _, path := range found {
		err = errors.Join(err, f(path))
	}
	return err
}

// lead gives the shard to node number i.
func lead(ctx context.Context, t *testing.T, c *rig.Cell, i int) {
	t.Helper()
	eventually.NoError(t, 30*time.Second, c.Nodes[i].ID+" leads", func() error {
		if c.Leader(c.Shard, 20*time.Second) == i {
			return nil
		}
		return errors.Join(errors.New("another does"), c.Admin.Transfer(ctx, c.Shard, c.Nodes[i].ID))
	})
}

// Somebody pages through a list while leaders change. No job comes twice or out of
// order, and none is missed that was there before: unless a page says so.
func TestViews_WalkOverAChangeOfLeaderMissesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	tenant := c.Tenant(0)
	ctx := ctxFor(t, 2*time.Minute)
	m := startMixer(tenant)
	defer m.end()
	m.more(t, 100)
	var changing sync.WaitGroup
	changes, stop := context.WithCancel(ctx)
	changing.Go(func() {
		for n := 0; changes.Err() == nil; n++ {
			leader := c.Leader(c.Shard, 20*time.Second)
			if n%4 == 3 {
				c.Nodes[leader].Kill()
				c.Nodes[leader].Start()
				c.Nodes[leader].WaitReady(30 * time.Second)
			} else if err := c.Admin.Transfer(changes, c.Shard, c.Nodes[(leader+1)%len(c.Nodes)].ID); err != nil && changes.Err() == nil {
				t.Logf("transfer: %v", err)
			}
			select {
			case <-time.After(300 * time.Millisecond): // Some pages between two changes.
			case <-changes.Done():
			}
		}
	})
	defer changing.Wait()
	defer stop()
	walks, wholes, looked := 0, 0, 0
	for until := time.Now().Add(12 * time.Second); time.Now().Before(until) || wholes < 3 && ctx.Err() == nil; walks++ {
		jobs, asOf, whole, err := walk(ctx, tenant, 7)
		if err != nil {
			t.Fatal(err)
		}
		if err := wantOrder(jobs); err != nil {
			t.Fatal(err)
		}
		if !whole {
			continue
		}
		wholes++
		m.mu.Lock()
		before := maps.Clone(m.settled)
		m.mu.Unlock()
		for _, j := range jobs {
			delete(before, j.ID)
		}
		for id, at := range before {
			if at.Before(asOf) {
				t.Errorf("walk %d of %d jobs is whole, as of %s, and misses %s of %s", walks, len(jobs), asOf, id, at)
			}
		}
		looked += len(jobs)
	}
	t.Logf("%d of %d walks were whole, with %d jobs", wholes, walks, looked)
}

package clocks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

const hours = 8 * time.Hour

// patience is how long a test waits for what must happen.
const patience = 3 * time.Minute

func ctxFor(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// customers keep calling through the proxy and record the answers.
type customers struct {
	t    *testing.T
	stop context.CancelFunc
	wait sync.WaitGroup

	paused sync.RWMutex // Held for reading while a round goes on.

	mu      sync.Mutex // Guards the rest.
	done    int
	refused map[string]int
}

func startCustomers(t *testing.T, tenant rig.Tenant) *customers {
	c := &customers{t: t, refused: map[string]int{}}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(t.Context())
	t.Cleanup(c.end)
	for i := range 2 {
		worker := fmt.Sprint("w", i)
		c.wait.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c.paused.RLock()
				in := map[string]any{"queue": "wallClocks", "idempotency_key": fmt.Sprintf("%s-%d", worker, n)}
				_, err := tenant.Call(ctx, http.MethodPost, "/api/v1/enqueue", in, nil)
				c.note(ctx, err)
				job, ok, err := tenant.FetchLease(ctx, "wallClocks", worker, 100*time.Millisecond, 10*time.Second)
				c.note(ctx, err)
				if ok {
					c.note(ctx, tenant.Ack(ctx, job))
				}
				c.paused.RUnlock()
				time.Sleep(20 * time.Millisecond) // A pace, not a wait.
			}
		})
	}
	return c
}

func (c *customers) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var refusal *rig.Refusal
	switch {
	case err == nil:
		c.done++
	case errors.As(err, &refusal):
		c.refused[fmt.Sprint(refusal.Status, " ", refusal.Body)]++
		if refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusForbidden {
			c.t.Errorf("a wrong clock was answered with %v", refusal)
		}
	default:
		c.refused[err.Error()]++
	}
}

func (c *customers) end() {
	c.stop()
	c.wait.Wait()
}

// goOn waits until n more calls have succeeded.
func (c *customers) goOn(ctx context.Context, n int) {
	c.t.Helper()
	count := func() int { c.mu.Lock(); defer c.mu.Unlock(); return c.done }
	from := count()
	eventually.True(c.t, patience, "calls go on", func() bool { return count() >= from+n })
}

// pause keeps the customers away while f runs.
func (c *customers) pause(f func()) {
	c.paused.Lock()
	defer c.paused.Unlock()
	f()
}

func (c *customers) expectNoRefusal(what string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for text, times := range c.refused {
		if n += times; n <= 3 {
			c.t.Logf("%d times: %s", times, text)
		}
	}
	if n > 0 {
		c.t.Errorf("%s: %d calls were refused", what, n)
	}
	clear(c.refused)
}

// odd waits until a node says that its clock is off and leads nothing.
func odd(ctx context.Context, t *testing.T, c *rig.Cell, i int) {
	t.Helper()
	eventually.True(t, patience, "the odd one says so and leads nothing", func() bool {
		return strings.Contains(ready(t, c, i), "those of most nodes") && leads(t, c, i) == 0
	})
}

func fit(ctx context.Context, t *testing.T, c *rig.Cell, i int) {
	t.Helper()
	eventually.True(t, patience, "it is ready again", func() bool { return strings.HasPrefix(ready(t, c, i), "200") })
}

func ready(t *testing.T, c *rig.Cell, i int) string { return get(t, c.Nodes[i].URL+"/readyz") }

// leads counts the groups that some node holds for led by node i.
func leads(t *testing.T, c *rig.Cell, i int) int {
	status, err := c.Status()
	if err != nil {
		return -1
	}
	n := 0
	for _, s := range status {
		if s.GetNode().GetId() != c.Nodes[i].ID {
			continue
		}
		for _, g := range s.GetGroups() {
			if g.GetRole() == "leader" {
				n++
			}
		}
	}
	return n
}

// suspend acts like a machine after a suspend: it stood still, and its wall clock went on.
func suspend(p *rig.Process, wall *rig.WallClock, slept time.Duration) {
	p.Signal(syscall.SIGSTOP)
	wall.Move(slept)
	p.Signal(syscall.SIGCONT)
}

// state of a job, after asking until somebody answers.
func state(ctx context.Context, t *testing.T, tenant rig.Tenant, id string) string {
	t.Helper()
	for {
		job, err := tenant.Job(ctx, id)
		if err == nil {
			return job.State
		}
		if ctx.Err() != nil {
			t.Fatalf("job %s: %v", id, err)
		}
	}
}

func enqueue(ctx context.Context, t *testing.T, tenant rig.Tenant, in map[string]any) string {
	t.Helper()
	var job rig.Job
	if _, err := tenant.Call(ctx, http.MethodPost, "/api/v1/enqueue", in, &job); err != nil {
		t.Fatal(err)
	}
	return job.JobID
}

// One process of the cell has a wrong clock, from its start or from one moment to the
// next. It leads nothing, nobody's time moves, and no customer is refused.
func TestWallClocks_TheOddOneLeadsNothingAndNobodyIsRefused(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{WallClocks: []time.Duration{}})
	ctx := ctxFor(t, 4*time.Minute)
	tenant := c.Tenant(0)
	inAnHour := enqueue(ctx, t, tenant, map[string]any{"queue": "later", "scheduled_at": time.Now().Add(time.Hour).Format(time.RFC3339)})
	ends := enqueue(ctx, t, tenant, map[string]any{"queue": "ends", "expire_after": "1h"})
	enqueue(ctx, t, tenant, map[string]any{"queue": "held"})
	held, ok, err := tenant.FetchLease(ctx, "held", "holder", time.Second, 10*time.Minute)
	if err != nil || !ok {
		t.Fatalf("fetch: %v, %v", ok, err)
	}
	load := startCustomers(t, tenant)
	load.goOn(ctx, 20)

	for _, by := range []time.Duration{hours, -hours} {
		n := c.Nodes[2]
		n.Signal(syscall.SIGTERM)
		n.WaitExit(time.Minute)
		n.WallClock.Move(by)
		n.Start()
		odd(ctx, t, c, 2)
		load.goOn(ctx, 50)
		out, talk, exit := c.Command("status")
		if exit != 0 || !strings.Contains(out, "clock (") {
			t.Errorf("cell status with a node %s off: exit %d\n%s%s", by, exit, out, talk)
		}
		n.WallClock.Move(0)
		fit(ctx, t, c, 2)
		load.expectNoRefusal("a node started " + by.String() + " off")
	}
	for _, by := range []time.Duration{hours, -hours} {
		i := c.Leader(c.Shard, 10*time.Second)
		n, began := c.Nodes[i], time.Now()
		suspend(n.Process, n.WallClock, by)
		odd(ctx, t, c, i)
		load.goOn(ctx, 50)
		t.Logf("the leader's clock jumped by %s: calls went on after %s", by, time.Since(began).Round(time.Millisecond))
		n.WallClock.Move(0)
		fit(ctx, t, c, i)
		load.expectNoRefusal("the leader's clock jumped by " + by.String())
		if lines := strings.Count(n.Stderr(), "signed in another time"); lines > 5 {
			t.Errorf("the log of the odd one says %d times that calls were signed in another time", lines)
		}
	}
	for _, by := range []time.Duration{hours, -hours} {
		p := c.Proxies[0]
		p.WallClock.Move(by)
		load.goOn(ctx, 200)
		load.expectNoRefusal("the proxy's clock jumped by " + by.String())
		load.pause(func() {
			p.Signal(syscall.SIGTERM)
			p.WaitExit(time.Minute)
			p.Start()
			p.WaitReady(time.Minute)
		})
		load.goOn(ctx, 100)
		load.expectNoRefusal("a proxy started " + by.String() + " off")
		p.WallClock.Move(0)
	}

	if got := state(ctx, t, tenant, inAnHour); got != "scheduled" {
		t.Errorf("the job of in an hour is %s", got)
	}
	if got := state(ctx, t, tenant, ends); got != "pending" {
		t.Errorf("the job that ends in an hour is %s", got)
	}
	if err := tenant.Ack(ctx, held); err != nil {
		t.Errorf("a lease of ten minutes ended: %v", err)
	}
}

// followed is how long the calendar may take to be right again (R-T2).
const followed = time.Minute

// All machines of the cell sleep for eight hours. Leases stand; within a minute the
// calendar is right, and a schedule runs once for all the ticks that it slept through,
// or as its policy says.
func TestWallClocks_ACellThatSleptFiresEachScheduleOnce(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{WallClocks: []time.Duration{}})
	ctx := ctxFor(t, 3*time.Minute)
	tenant := c.Tenant(0)
	schedules := map[string]string{}
	for _, policy := range []string{"once", "skip"} {
		var made struct {
			ID string `json:"id"`
		}
		in := map[string]any{"name": policy, "cron": "0 * * * *", "queue": policy, "catch_up": policy}
		if _, err := tenant.Call(ctx, http.MethodPost, "/api/v1/schedules", in, &made); err != nil {
			t.Fatal(err)
		}
		schedules[policy] = made.ID
	}
	due := enqueue(ctx, t, tenant, map[string]any{"queue": "later", "scheduled_at": time.Now().Add(time.Hour).Format(time.RFC3339)})
	ends := enqueue(ctx, t, tenant, map[string]any{"queue": "ends", "expire_after": "1h"})
	enqueue(ctx, t, tenant, map[string]any{"queue": "held"})
	held, ok, err := tenant.FetchLease(ctx, "held", "holder", time.Second, 2*time.Minute)
	if err != nil || !ok {
		t.Fatalf("fetch: %v, %v", ok, err)
	}

	for _, n := range c.Nodes {
		n.Signal(syscall.SIGSTOP)
	}
	c.Proxies[0].Signal(syscall.SIGSTOP)
	for _, n := range c.Nodes {
		n.WallClock.Move(hours)
	}
	c.Proxies[0].WallClock.Move(hours)
	for _, n := range c.Nodes {
		n.Signal(syscall.SIGCONT)
	}
	c.Proxies[0].Signal(syscall.SIGCONT)
	woken := time.Now()

	eventually.True(t, patience, "what was due is due", func() bool { return state(ctx, t, tenant, due) == "pending" })
	job, ok, err := tenant.Fetch(ctx, "once", "w", followed)
	if err != nil || !ok {
		t.Fatalf("the late run of the schedule: %v, %v", ok, err)
	}
	took := time.Since(woken)
	t.Logf("the calendar followed after %s", took.Round(time.Millisecond))
	if took > followed {
		t.Errorf("the calendar followed after %s", took)
	}
	eventually.True(t, patience, "what has ended has ended", func() bool { s := state(ctx, t, tenant, ends); return s != "pending" })
	if err := tenant.Ack(ctx, held); err != nil {
		t.Errorf("a lease of two minutes ended in a suspend: %v", err)
	}
	if err := tenant.Ack(ctx, job); err != nil {
		t.Error(err)
	}
	for policy, most := range map[string]int{"once": 1, "skip": 0} {
		var s struct {
			Missed    uint64    `json:"missed"`
			NextRunAt time.Time `json:"next_run_at"`
		}
		eventually.True(t, patience, "the schedule "+policy+" has gone on", func() bool {
			_, err := tenant.Call(ctx, http.MethodGet, "/api/v1/schedules/"+schedules[policy], nil, &s)
			return err == nil && s.NextRunAt.After(time.Now().Add(hours))
		})
		if want := uint64(int(hours/time.Hour) - most); s.Missed != want {
			t.Errorf("schedule %s counts %d missed ticks, want %d", policy, s.Missed, want)
		}
		if extra, ok, err := tenant.Fetch(ctx, policy, "w", 0); ok || err != nil {
			t.Errorf("schedule %s made one more job: %+v, %v", policy, extra, err)
		}
	}
}

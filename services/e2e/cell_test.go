package e2e_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/services/e2e/rig"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

func ctxFor(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func TestCell_JobsGoOnWhenANodeIsKilled(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	tenant := c.Tenant(0)
	ctx := ctxFor(t, time.Minute)
	before, err := tenant.Enqueue(ctx, "mail", map[string]any{"n": 1})
	if err != nil {
		t.Fatal(err)
	}

	leader := c.Leader(c.Shard, 10*time.Second)
	killed := time.Now()
	c.Nodes[leader].Kill()
	after := enqueueUntil(ctx, t, tenant)
	t.Logf("writes resumed after %s", time.Since(killed).Round(time.Millisecond))

	missing := map[string]bool{before: true, after: true}
	for len(missing) > 0 { // An enqueue without an answer may have put in more.
		job, ok, err := tenant.Fetch(ctx, "mail", "w", 5*time.Second)
		if err != nil || !ok {
			t.Fatalf("fetch: %v %v, missing %v", ok, err, missing)
		}
		if err := tenant.Ack(ctx, job); err != nil {
			t.Fatal(err)
		}
		delete(missing, job.JobID)
	}
	c.Nodes[leader].Start()
	c.Nodes[leader].WaitReady(30 * time.Second)
}

// enqueueUntil tries until one is acknowledged.
func enqueueUntil(ctx context.Context, t *testing.T, tenant rig.Tenant) string {
	t.Helper()
	for {
		id, err := tenant.Enqueue(ctx, "mail", map[string]any{"n": 2})
		if err == nil {
			return id
		}
		if ctx.Err() != nil {
			t.Fatalf("no enqueue was acknowledged: %v", err)
		}
	}
}

func TestCell_SpeaksMutualTLSInside(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{TLS: true})
	ctx := ctxFor(t, time.Minute)
	client := newClient(t, c.Tenant(0))
	w := startWorker(ctx, t, client, "hello")
	defer w.stop()
	id, err := c.Tenant(0).Enqueue(ctx, "hello", map[string]any{"name": "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-w.handled; got != id {
		t.Errorf("the worker handled %s, want %s", got, id)
	}
	plain, err := http.Get(strings.Replace(c.Nodes[0].URL, "https:", "http:", 1) + "/readyz")
	if err == nil {
		defer plain.Body.Close()
		if plain.StatusCode < http.StatusBadRequest {
			t.Errorf("a node answered clear text with %s", plain.Status)
		}
	}
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if res, err := stranger.Get(c.Nodes[0].URL + "/readyz"); err == nil {
		t.Errorf("a node answered a caller without a certificate: %s, %v", res.Status, res.Body.Close())
	}
}

// worker is an SDK worker that records which jobs it handled.
type worker struct {
	handled chan string
	// stop ends the worker; call it while the service runs, or it waits for the service.
	stop func()
}

// startWorker runs a worker until stop.
func startWorker(ctx context.Context, t *testing.T, client *corvo.Client, queue string) *worker {
	t.Helper()
	w := &worker{handled: make(chan string, 10_000)}
	runtime := corvo.NewWorker(client, corvo.Queue(queue, 4))
	corvo.HandleRaw(runtime, queue, func(_ context.Context, j *corvo.Job[json.RawMessage]) (json.RawMessage, error) {
		w.handled <- j.ID
		return json.RawMessage(`{}`), nil
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- runtime.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("worker: %v", err)
		}
	}
	return w
}

// waitHandled waits for the next job and says how long that took.
func (w *worker) waitHandled(t *testing.T, limit time.Duration) time.Duration {
	t.Helper()
	from := time.Now()
	select {
	case <-w.handled:
		return time.Since(from)
	case <-time.After(limit):
		t.Fatalf("a worker had no job for %s", limit)
		return 0
	}
}

// forget drops the record so far.
func (w *worker) forget() {
	for {
		select {
		case <-w.handled:
		default:
			return
		}
	}
}

const streamsBackLimit = 5 * time.Second

func TestCell_StreamsAreBackSoonAfterAProxyRestart(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "told to stop": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := rig.StartCell(t, rig.CellOptions{})
			ctx := ctxFor(t, 2*time.Minute)
			tenant := c.Tenant(0)
			var workers []*worker
			for range 3 {
				w := startWorker(ctx, t, newClient(t, tenant), "load")
				defer w.stop()
				workers = append(workers, w)
			}
			history := rig.NewHistory()
			load := rig.StartLoad(history, rig.LoadOptions{Workers: -1}, tenant)
			defer load.Stop()
			for _, w := range workers {
				w.waitHandled(t, 20*time.Second)
			}

			c.Proxies[0].Signal(signal)
			c.Proxies[0].WaitExit(10 * time.Second)
			for _, w := range workers {
				w.forget()
			}
			c.Proxies[0].Start()
			restarted := time.Now()
			for _, w := range workers {
				w.waitHandled(t, streamsBackLimit-time.Since(restarted))
			}
			t.Logf("all streams are back %s after the start", time.Since(restarted).Round(time.Millisecond))
			load.Stop()
			history.Audit(ctx, t, tenant)
		})
	}
}

func TestCell_ProxyStartsFromItsDiskWhileNoNodeAnswers(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	ctx := ctxFor(t, time.Minute)
	tenant := c.Tenant(0)
	id, err := tenant.Enqueue(ctx, "mail", map[string]any{"n": 1})
	if err != nil {
		t.Fatal(err)
	}
	c.Proxies[0].Signal(syscall.SIGTERM) // It has saved what it knows when it ends.
	c.Proxies[0].WaitExit(10 * time.Second)
	for _, n := range c.Nodes {
		n.Kill()
	}
	c.Proxies[0].Start()
	waitStatus(ctx, t, tenant, http.StatusServiceUnavailable)
	other := rig.NewTenant(strings.Replace(tenant.URL, "/t/acme", "/t/other", 1), tenant.Key)
	waitStatus(ctx, t, other, http.StatusForbidden) // The key is known without a node.

	for _, n := range c.Nodes {
		n.Start()
	}
	c.WaitServing(0, 30*time.Second)
	job, ok, err := tenant.Fetch(ctx, "mail", "w", 10*time.Second)
	if err != nil || !ok || job.JobID != id {
		t.Fatalf("fetched %+v %v %v, want %s", job, ok, err, id)
	}
}

// waitStatus asks until the answer has that status.
func waitStatus(ctx context.Context, t *testing.T, tenant rig.Tenant, want int) {
	t.Helper()
	eventually.NoError(t, time.Minute, fmt.Sprintf("status %d", want), func() error {
		status, err := tenant.Call(ctx, http.MethodGet, "/api/v1/queues", nil, nil)
		if status == want {
			return nil
		}
		return fmt.Errorf("%d (%v)", status, err)
	})
}

// wantRetention waits until the key works, and compares what counts for the queue mail.
func wantRetention(ctx context.Context, t *testing.T, tenant rig.Tenant, want wire.QueueRetention) {
	t.Helper()
	waitStatus(ctx, t, tenant, http.StatusOK)
	eventually.NoError(t, 10*time.Second, "the retention counts", func() error {
		var q wire.Queue
		if status, err := tenant.Call(ctx, http.MethodGet, "/api/v1/queues/mail", nil, &q); err != nil || q.EffectiveRetention != want {
			return fmt.Errorf("status %d, %w: %+v counts, want %+v", status, err, q.EffectiveRetention, want)
		}
		return nil
	})
}

func TestCell_AStoppingNodeHandsOverItsLeadership(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	ctx := ctxFor(t, time.Minute)
	tenant := c.Tenant(0)
	w := startWorker(ctx, t, newClient(t, tenant), "load")
	defer w.stop()
	history := rig.NewHistory()
	load := rig.StartLoad(history, rig.LoadOptions{Workers: -1}, tenant)
	defer load.Stop()
	w.waitHandled(t, 20*time.Second)

	leader := c.Nodes[c.Leader(c.Shard, 10*time.Second)]
	asked := time.Now()
	leader.Signal(syscall.SIGTERM)
	if code := leader.WaitExit(10 * time.Second); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	t.Logf("the leader ended after %s", time.Since(asked).Round(time.Millisecond))
	w.forget()
	t.Logf("a worker had a job %s later", w.waitHandled(t, 5*time.Second).Round(time.Millisecond))
	load.Stop()
	history.Audit(ctx, t, tenant)
	leader.Start()
	leader.WaitReady(30 * time.Second)
}

func TestCell_CommandsMakeTenantsAndMoveNodes(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	ctx := ctxFor(t, 2*time.Minute)
	must := func(into any, args ...string) {
		t.Helper()
		out, talk, exit := c.Command(append(args, "--output", "json")...)
		if exit != 0 {
			t.Fatalf("%v: exit %d: %s", args, exit, talk)
		}
		if into != nil {
			if err := json.Unmarshal([]byte(out), into); err != nil {
				t.Fatalf("%v printed %q: %v", args, out, err)
			}
		}
	}
	// A hand-over of leadership may fail for a moment (R5: nobody repeats it unasked).
	repeated := func(args ...string) {
		t.Helper()
		for {
			out, talk, exit := c.Command(args...)
			if exit == 0 {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%v: exit %d: %s%s", args, exit, out, talk)
			}
			t.Logf("%v: exit %d: %s%s", args, exit, out, talk)
		}
	}
	refused := func(exit int, args ...string) {
		t.Helper()
		if out, talk, got := c.Command(args...); got != exit {
			t.Errorf("%v: exit %d, want %d: %s%s", args, got, exit, out, talk)
		}
	}

	must(nil, "tenant", "create", "globex", "--weight", "3", "--retention-dead", "2d", "--retention-limit-completed", "24h")
	refused(5, "tenant", "create", "globex")
	refused(2, "tenant", "create", "No Such Name")
	refused(2, "tenant", "create", "brief", "--retention-dead", "1s")
	must(nil, "namespace", "create", "staging", "--tenant", "globex", "--retention-cancelled", "90m", "--retention-finished-max", "50")
	refused(3, "namespace", "create", "staging", "--tenant", "nobody")
	var key struct {
		ID     string `json:"id"`
		APIKey string `json:"api_key"`
	}
	must(&key, "key", "create", "--tenant", "globex", "--role", "producer", "--namespace", "staging")
	var known struct {
		Index   uint64
		Proxies []struct {
			Index uint64
			Ready bool
		}
	}
	for must(&known, "proxies"); len(known.Proxies) != len(c.Proxies) || !known.Proxies[0].Ready || known.Proxies[0].Index != known.Index; must(&known, "proxies") {
		if ctx.Err() != nil {
			t.Fatalf("after a key was made the proxies know %+v", known)
		}
	}
	tenant := rig.NewTenant(c.Proxies[0].URL+"/t/globex", key.APIKey)
	enqueueUntil(ctx, t, tenant)
	var viewer struct {
		APIKey string `json:"api_key"`
	}
	must(&viewer, "key", "create", "--tenant", "globex", "--role", "viewer", "--namespace", "staging")
	staging := rig.NewTenant(c.Proxies[0].URL+"/t/globex", viewer.APIKey)
	wantRetention(ctx, t, staging,
		wire.QueueRetention{CompletedMS: 24 * 3_600_000, DeadMS: 48 * 3_600_000, CancelledMS: 90 * 60_000, FinishedMax: 50})
	must(nil, "tenant", "set", "globex", "--retention-dead", "off", "--retention-limit-completed", "2d")
	must(nil, "namespace", "set", "staging", "--tenant", "globex", "--retention-completed", "36h", "--retention-finished-max", "0")
	refused(2, "namespace", "set", "staging", "--tenant", "globex", "--retention-completed", "3d")
	refused(3, "namespace", "set", "nowhere", "--tenant", "globex", "--retention-completed", "1d")
	refused(2, "tenant", "set", "globex", "--weight", "1001")
	wantRetention(ctx, t, staging, wire.QueueRetention{CompletedMS: 36 * 3_600_000, DeadMS: 30 * 24 * 3_600_000, CancelledMS: 90 * 60_000})
	var tenants struct {
		Tenants []struct {
			Name   string
			Limits struct{ Weight string }
		}
	}
	must(&tenants, "tenant", "list")
	if at := slices.IndexFunc(tenants.Tenants, func(t struct {
		Name   string
		Limits struct{ Weight string }
	}) bool {
		return t.Name == "globex"
	}); at < 0 || tenants.Tenants[at].Limits.Weight != "3" {
		t.Errorf("after other changes the tenants are %+v", tenants)
	}
	must(nil, "key", "revoke", key.ID)
	waitStatus(ctx, t, tenant, http.StatusUnauthorized)

	n4 := c.Join(30 * time.Second)
	var status struct {
		Nodes []struct {
			Node   struct{ ID string }
			Groups []struct {
				Group  int
				Role   string
				Voters []string
			}
		}
	}
	voting := func(id string) bool {
		must(&status, "status")
		for _, n := range status.Nodes {
			for _, g := range n.Groups {
				if g.Role == "leader" && !slices.Contains(g.Voters, id) {
					return false
				}
			}
		}
		return len(status.Nodes) > 0
	}
	for !voting(n4.ID) {
		if ctx.Err() != nil {
			t.Fatalf("node %s has no vote: %+v", n4.ID, status)
		}
	}
	repeated("transfer", "--group", "1", "--to", n4.ID)
	repeated("remove-node", "--id", "n1")
	c.Nodes[0].Kill()
	enqueueUntil(ctx, t, c.Tenant(0))
}

// While a shard has no leader, calls are held if they were not sent yet or may be sent
// again. None of them is refused.
func TestCell_CallsAreHeldWhileALeaderIsElected(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	ctx := ctxFor(t, 2*time.Minute)
	var calls atomic.Int64
	refused := make(chan error, 1000)
	loadCtx, stop := context.WithCancel(ctx)
	var load sync.WaitGroup
	for i := range 16 {
		tenant := c.Tenant(i % len(c.Proxies))
		load.Go(func() {
			for n := 0; loadCtx.Err() == nil; n++ {
				in := map[string]any{"queue": "held", "idempotency_key": fmt.Sprintf("%d-%d", i, n)}
				_, err := tenant.Call(loadCtx, http.MethodPost, "/api/v1/enqueue", in, nil)
				if err != nil && loadCtx.Err() == nil {
					refused <- err
				}
				job, ok, err := tenant.FetchLease(loadCtx, "held", fmt.Sprint("w", i), time.Second, 10*time.Second)
				if err == nil && ok {
					err = tenant.Ack(loadCtx, job)
				}
				if err != nil && loadCtx.Err() == nil {
					refused <- err
				}
				calls.Add(1)
			}
		})
	}
	for range 3 {
		before := calls.Load()
		leader := c.Leader(c.Shard, 10*time.Second)
		c.Nodes[leader].Kill()
		for calls.Load() < before+100 { // Until calls go on.
			if ctx.Err() != nil {
				t.Fatal("calls do not go on")
			}
			time.Sleep(10 * time.Millisecond)
		}
		c.Nodes[leader].Start()
		c.Nodes[leader].WaitReady(30 * time.Second)
	}
	stop()
	load.Wait()
	close(refused)
	n := 0
	for err := range refused {
		if n++; n <= 5 {
			t.Log(err)
		}
	}
	t.Logf("%d rounds, %d refused", calls.Load(), n)
	if n > 0 {
		t.Errorf("%d calls were refused over three changes of leader", n)
	}
}

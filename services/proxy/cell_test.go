package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
	"github.com/corvo-cloud/corvo/services/ingress"
	"github.com/corvo-cloud/corvo/services/proxy"
)

// patience is how long a test waits for what must happen.
const patience = 10 * time.Second

// cell is three real nodes and a proxy in this process.
type cell struct {
	*nodetest.Cell
	t     *testing.T
	base  string
	admin *http.Client
}

func startCell(t *testing.T) *cell { return startCellOf(t, 3) }

func startCellOf(t *testing.T, nodes int) *cell {
	t.Helper()
	c := &cell{t: t, Cell: nodetest.NewCell(t, nodes)}
	c.Change = func(_ int, cfg *node.Config) { cfg.Fatal = func(err error) { t.Error(err) } }
	c.Found()
	c.Ready()
	transport := forward.NewTransport(forward.TransportOptions{})
	t.Cleanup(transport.CloseIdleConnections)
	signer, err := identity.NewSigner(cellsecret.Must([]byte(nodetest.Secret)))
	if err != nil {
		t.Fatal(err)
	}
	c.admin = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if err := signer.SignRequest(r, identity.CellPrincipal("test", time.Now())); err != nil {
			return nil, err
		}
		return transport.RoundTrip(r)
	})}
	c.startProxy()
	return c
}

func (c *cell) startProxy() string { return c.startProxyBehind(nil) }

// startProxyBehind starts a proxy, which call then asks, and returns its address.
func (c *cell) startProxyBehind(front func(http.Handler) http.Handler) string {
	c.t.Helper()
	p, err := proxy.New(proxy.Options{Domain: "corvo.test", CellSecrets: cellsecret.Must([]byte(nodetest.Secret)), Nodes: c.URLs(), DataDir: c.t.TempDir(), Front: front})
	if err != nil {
		c.t.Fatal(err)
	}
	p.LookPatiently()
	ln := nodetest.Listen(c.t)
	c.base = "http://" + ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- p.Serve(ln) }()
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.Shutdown(ctx) // Late if the test left something open.
		if err := <-served; err != nil {
			c.t.Error(err)
		}
	})
	eventually.True(c.t, patience, "the proxy is ready", p.Ready)
	return c.base
}

// tenant makes a tenant with the namespace default and a key that may do all.
func (c *cell) tenant(name string) apikey.Key {
	c.t.Helper()
	key, err := apikey.Generate(apikey.DataPlane)
	if err != nil {
		c.t.Fatal(err)
	}
	admin := c.Admin()
	tenant, err := admin.CreateTenant(c.t.Context(), name, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := admin.Apply(c.t.Context(), celladmin.KeyChange(celladmin.KeyRecord(key, tenant.GetId(), "k", permission.Grants{{Permissions: celladmin.RoleSet([]string{"admin"})}}))); err != nil {
		c.t.Fatal(err)
	}
	return key
}

// call makes one API call with a key.
func (c *cell) call(key apikey.Key, method, path string, body any) (int, map[string]any) {
	c.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, bytes.NewReader(data))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key.Reveal())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]any{}
	if len(text) > 0 && text[0] == '{' {
		if err := json.Unmarshal(text, &out); err != nil {
			c.t.Fatal(err)
		}
	}
	return resp.StatusCode, out
}

func (c *cell) worker(key apikey.Key) corvov1connect.WorkerServiceClient {
	transport := forward.NewTransport(forward.TransportOptions{})
	c.t.Cleanup(transport.CloseIdleConnections)
	return corvov1connect.NewWorkerServiceClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		r.Header.Set("X-API-Key", key.Reveal())
		return transport.RoundTrip(r)
	})}, c.base)
}

func TestCell_JobGoesInAtATenantURLAndComesOutOfAWorker(t *testing.T) {
	t.Parallel()
	c := startCell(t)
	// Enough tenants that some lie on a shard led elsewhere than where they arrive.
	var keys []apikey.Key
	for i := range 4 {
		keys = append(keys, c.tenant(fmt.Sprintf("tenant-%d", i)))
	}
	for i, k := range keys {
		path := fmt.Sprintf("/t/tenant-%d/api/v1", i)
		eventually.True(t, patience, "the tenant's shard is led", func() bool { status, _ := c.call(k, "GET", "/api/v1/queues", nil); return status != 503 })
		status, job := c.call(k, "POST", path+"/enqueue", map[string]any{"queue": "mail", "payload": map[string]any{"tenant": i}})
		if status != 201 {
			t.Fatalf("enqueue: %d %v", status, job)
		}
		for j, other := range keys { // The same queue name everywhere; only the owner sees the job.
			status, got := c.call(other, "GET", "/api/v1/jobs/"+fmt.Sprint(job["job_id"]), nil)
			if want := map[bool]int{true: 200, false: 404}[i == j]; status != want {
				t.Errorf("job of %d asked by %d: %d %v", i, j, status, got)
			}
		}
		status, got := c.call(k, "POST", path+"/fetch", map[string]any{"queues": []string{"mail"}, "worker_id": "w"})
		if status != 200 || fmt.Sprint(got["payload"]) != fmt.Sprintf("map[tenant:%d]", i) {
			t.Fatalf("fetch: %d %v", status, got)
		}
		if status, got := c.call(k, "POST", fmt.Sprintf("%s/ack/%v", path, got["job_id"]), map[string]any{}); status != 200 {
			t.Fatalf("ack: %d %v", status, got)
		}
	}
	for _, k := range keys {
		c.checkStream(k)
	}
}

// checkStream sends a job around a worker stream. Leadership may move meanwhile, which a worker is
// told in a frame, and begins anew.
func (c *cell) checkStream(k apikey.Key) {
	c.t.Helper()
	tries := 0
	eventually.NoError(c.t, patience, "a job goes around a worker stream", func() error {
		tries++
		return c.tryStream(k, fmt.Sprintf("s-%d", tries))
	})
}

// tryStream is an error only if leadership moved.
func (c *cell) tryStream(k apikey.Key, queue string) error {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	s := c.worker(k).StreamLifecycle(ctx)
	defer s.CloseResponse()
	defer s.CloseRequest()
	ask := func(req *corvov1.LifecycleStreamRequest) (*corvov1.LifecycleStreamResponse, error) {
		c.t.Helper()
		if err := s.Send(req); err != nil && !errors.Is(err, io.EOF) {
			c.t.Fatal(err)
		}
		got, err := s.Receive()
		switch {
		case err != nil:
			c.t.Fatal(err)
		case got.GetCode() == "NOT_LEADER":
			return nil, errors.New(got.GetError())
		case got.GetError() != "" || got.GetRequestId() != req.GetRequestId():
			c.t.Fatalf("got %v", got)
		}
		return got, nil
	}
	if _, err := ask(&corvov1.LifecycleStreamRequest{RequestId: 1, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: queue, PayloadJson: `{"a":1}`}}}); err != nil {
		return err
	}
	got, err := ask(&corvov1.LifecycleStreamRequest{RequestId: 2, Queues: []string{queue}, WorkerId: "w", FetchCount: 1})
	if err != nil {
		return err
	}
	if len(got.GetJobs()) != 1 {
		c.t.Fatalf("got %v", got)
	}
	got, err = ask(&corvov1.LifecycleStreamRequest{RequestId: 3, Acks: []*corvov1.AckBatchItem{{JobId: got.GetJobs()[0].GetJobId()}}})
	if err == nil && got.GetAcked() != 1 {
		c.t.Fatalf("got %v", got)
	}
	return err
}

func TestCell_WritesResumeWhenANodeLeavesAndRevokedKeysStayOut(t *testing.T) {
	t.Parallel()
	c := startCell(t)
	k := c.tenant("acme")
	enqueue := func() bool {
		status, _ := c.call(k, "POST", "/api/v1/enqueue", map[string]any{"queue": "q"})
		return status == 201
	}
	eventually.True(t, patience, "writes work", enqueue)
	c.Stop(0)
	start := time.Now()
	eventually.True(t, patience, "writes resume", enqueue)
	t.Logf("resumed after %v", time.Since(start))
	c.checkStream(k)
	client := cellv1connect.NewCellServiceClient(c.admin, c.Places[1].APIURL)
	eventually.True(t, patience, "the key is revoked", func() bool {
		state, err := client.GetState(t.Context(), connect.NewRequest(&cellv1.GetStateRequest{}))
		if err != nil {
			return false
		}
		rec := state.Msg.GetState().GetKeys()[0]
		rec.Revoked = true
		_, err = client.Apply(t.Context(), connect.NewRequest(&cellv1.ApplyRequest{Changes: []*cellv1.Change{{Change: &cellv1.Change_Key{Key: rec}}}}))
		return err == nil
	})
	start = time.Now()
	eventually.True(t, patience, "it is refused", func() bool { status, _ := c.call(k, "GET", "/api/v1/queues", nil); return status == 401 })
	if took := time.Since(start); took > time.Second {
		t.Errorf("refused after %v", took)
	}
}

func TestCell_ConfirmedChangesApplyAtEveryProxy(t *testing.T) {
	t.Parallel()
	c := startCell(t)
	bases := []string{c.base, c.startProxy()}
	admin := c.Admin()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	eventually.True(t, patience, "both proxies count", func() bool { _, live, err := admin.WaitProxies(ctx, 1); return err == nil && live == 2 })

	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := apikey.Generate(apikey.Management)
	if err != nil {
		t.Fatal(err)
	}
	tenant := celladmin.NewTenant("acme")
	ns := celladmin.NewNamespace(tenant.GetId(), celladmin.DefaultNamespace)
	record := celladmin.KeyRecord(key, tenant.GetId(), "k", permission.Grants{{Permissions: celladmin.RoleSet([]string{"admin"})}})
	user := "usr_" + newULID()
	now := time.Now()
	token, err := usertoken.Sign(private, usertoken.KeyID(public), usertoken.Claims{
		TenantID: tenant.GetId(), NamespaceID: ns.GetId(), UserID: user, Grants: permission.Here{All: celladmin.RoleSet([]string{"viewer"})},
		IssuedAt: now.Add(-time.Second), ExpiresAt: now.Add(usertoken.Life),
	})
	if err != nil {
		t.Fatal(err)
	}
	statuses := func(credential string) (out []int) {
		for _, c.base = range bases {
			out = append(out, c.status(credential, "/t/acme/api/v1/queues"))
		}
		return out
	}
	generation := uint64(0)
	apply := func(changes ...*cellv1.Change) {
		t.Helper()
		generation++
		index, err := admin.ApplyAs(ctx, "test", generation, changes...)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if confirmed, live, err := admin.WaitProxies(ctx, index); err != nil || confirmed != 2 || live != 2 {
			t.Fatalf("confirmed by %d of %d, %v", confirmed, live, err)
		}
		if took := time.Since(start); took > 5*time.Second { // Milliseconds, on a machine that is not busy.
			t.Errorf("confirmed after %v", took)
		}
	}
	apply(celladmin.TenantChange(tenant), celladmin.NamespaceChange(ns), celladmin.KeyChange(record), celladmin.TokenKeyChange(celladmin.TokenKey(public, time.Time{})))
	for what, credential := range map[string]string{"key": key.Reveal(), "token": token} {
		if got := statuses(credential); !slices.Equal(got, []int{200, 200}) {
			t.Errorf("%s: %v", what, got)
		}
	}
	record.Revoked = true
	apply(celladmin.KeyChange(record), celladmin.UserCutoffChange(tenant.GetId(), user, now))
	for what, credential := range map[string]string{"key": key.Reveal(), "token": token} {
		if got := statuses(credential); !slices.Equal(got, []int{401, 401}) {
			t.Errorf("%s, withdrawn: %v", what, got)
		}
	}
	stale := new(celladmin.StaleError)
	if _, err := admin.ApplyAs(ctx, "test", generation, celladmin.KeyChange(record)); !errors.As(err, &stale) || stale.Index == 0 {
		t.Errorf("a repetition: %v, index %d", err, stale.Index)
	}
}

// follower reads a tenant's events, as a console does that was signed in at the
// same origin.
type follower struct {
	c     *cell
	key   apikey.Key
	last  string // The newest event's id.
	body  io.Closer
	lines *bufio.Scanner
	end   context.CancelFunc
}

func (f *follower) open() {
	f.c.t.Helper()
	f.close()
	ctx, cancel := context.WithTimeout(f.c.t.Context(), 20*time.Second)
	f.end = cancel
	eventually.True(f.c.t, patience, "the events are told", func() bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.c.base+"/t/acme/api/v1/events", nil)
		if err != nil {
			f.c.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+f.key.Reveal())
		req.Header.Set("Cookie", "corvo_session=of-the-console")
		if f.last != "" {
			req.Header.Set("Last-Event-Id", f.last)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			f.c.t.Fatal(err)
		}
		if resp.StatusCode != 200 || len(resp.Cookies()) > 0 {
			_ = resp.Body.Close()
			return false
		}
		f.body, f.lines = resp.Body, bufio.NewScanner(resp.Body)
		return true
	})
}

func (f *follower) close() {
	if f.body != nil {
		_ = f.body.Close()
		f.end()
	}
}

// until reads on to an event of a job. A stream ends when its shard's leader moves.
func (f *follower) until(job string) {
	f.c.t.Helper()
	for opened := 0; opened < 5; opened++ {
		for f.lines.Scan() {
			if id, ok := strings.CutPrefix(f.lines.Text(), "id: "); ok {
				f.last = id
			}
			if strings.HasPrefix(f.lines.Text(), "data:") && strings.Contains(f.lines.Text(), job) {
				return
			}
		}
		f.open()
	}
	f.c.t.Fatalf("no event of %s: %v", job, f.lines.Err())
}

// startControl is a control plane that answers everything with its name.
func startControl(t *testing.T) (url string, kill func()) {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{Protocols: &protocols, ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "console")
	})}
	ln := nodetest.Listen(t)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	kill = sync.OnceFunc(func() { _ = srv.Close(); <-done })
	t.Cleanup(kill)
	return "http://" + ln.Addr().String(), kill
}

func TestCell_ADeadControlPlaneTouchesNoJob(t *testing.T) {
	t.Parallel()
	c := startCell(t)
	control, kill := startControl(t)
	carrier, err := ingress.NewCarrier(control, ingress.CarrierOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(carrier.Close)
	c.startProxyBehind(func(data http.Handler) http.Handler {
		return ingress.New(data, ingress.Options{Domain: "corvo.test", Control: carrier})
	})
	k := c.tenant("acme")
	eventually.True(t, patience, "writes work", func() bool { status, _ := c.call(k, "GET", "/t/acme/api/v1/queues", nil); return status == 200 })
	f := &follower{c: c, key: k, last: "0"} // From the first event: a stream may end before it told one.
	defer f.close()
	f.open()
	round := func(when string) {
		t.Helper()
		var job any
		eventually.True(t, patience, when+" a job goes in", func() bool { // A young cell still moves its leaders: 503.
			status, got := c.call(k, "POST", "/t/acme/api/v1/enqueue", map[string]any{"queue": "q"})
			job = got["job_id"]
			return status == 201
		})
		f.until(fmt.Sprint(job))
	}
	if status := c.statusNow("", "/"); status != 200 {
		t.Errorf("the console: %d", status)
	}
	round("while it lives")
	kill()
	if status := c.statusNow("", "/"); status != 503 {
		t.Errorf("the console, dead: %d", status)
	}
	round("while it is dead")
	for _, host := range []string{"acme.corvo.test", "app.acme.corvo.test"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 404 {
			t.Errorf("the root of %s: %d, want 404", host, resp.StatusCode)
		}
	}
}

func TestCell_AKeyWorksTheMomentItWasMade(t *testing.T) {
	t.Parallel()
	c := startCell(t)
	for i := range 20 {
		k := c.tenant(fmt.Sprintf("tenant-%d", i))
		eventually.True(t, patience, "the key works", func() bool { // A young cell still moves its leaders: 503.
			status, got := c.call(k, "GET", "/api/v1/queues", nil)
			if status == 401 {
				t.Fatalf("key %d: %v", i, got)
			}
			return status == 200
		})
	}
}

// status is the answer to a GET with a bearer credential, once it is not 503: a
// young cell still moves its leaders.
func (c *cell) status(credential, path string) (got int) {
	c.t.Helper()
	eventually.True(c.t, patience, "an answer", func() bool { got = c.statusNow(credential, path); return got != 503 })
	return got
}

func (c *cell) statusNow(credential, path string) int {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.base+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+credential)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// newULID has the form of one; nothing here depends on its time.
func newULID() string {
	id := []byte{'0'}
	for len(id) < 26 {
		id = append(id, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[rand.IntN(32)])
	}
	return string(id)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/services/proxy"
)

// cell is three real nodes and a proxy in this process.
type cell struct {
	t      *testing.T
	nodes  []*node.Node
	urls   []string
	secret []byte
	base   string
	admin  *http.Client
}

func startCell(t *testing.T) *cell {
	t.Helper()
	c := &cell{t: t, secret: []byte("the secret of a cell under test!")}
	var peers []node.Peer
	var apis, rafts []net.Listener
	for i := range 3 {
		api, raft := listen(t), listen(t)
		apis, rafts = append(apis, api), append(rafts, raft)
		c.urls = append(c.urls, "http://"+api.Addr().String())
		peers = append(peers, node.Peer{ID: fmt.Sprintf("n%d", i+1), RaftAddress: raft.Addr().String(), APIURL: c.urls[i]})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i, p := range peers {
		n, err := node.Start(ctx, node.Config{
			ID: p.ID, Dir: t.TempDir(), API: apis[i], Raft: rafts[i], Peers: peers, Secret: c.secret, Access: node.Signed,
			Heartbeat: 200 * time.Millisecond, Fatal: func(err error) { t.Error(err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, n)
		t.Cleanup(func() { c.stop(i) })
	}
	for _, n := range c.nodes {
		if err := n.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	transport := forward.NewTransport(forward.TransportOptions{})
	t.Cleanup(transport.CloseIdleConnections)
	signer, err := identity.NewSigner(c.secret)
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

func (c *cell) startProxy() {
	c.t.Helper()
	p, err := proxy.New(proxy.Options{Domain: "corvo.test", CellSecret: c.secret, Nodes: c.urls, DataDir: c.t.TempDir()})
	if err != nil {
		c.t.Fatal(err)
	}
	ln := listen(c.t)
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
	eventually(c.t, "the proxy is ready", p.Ready)
}

// stop ends node i once.
func (c *cell) stop(i int) {
	n := c.nodes[i]
	if n == nil {
		return
	}
	c.nodes[i] = nil
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := n.Shutdown(ctx, true); err != nil {
		c.t.Logf("node %d: %v", i+1, err)
	}
}

// tenant makes a tenant with the namespace default and a key that may do all.
func (c *cell) tenant(name string) apikey.Key {
	c.t.Helper()
	key, err := apikey.Generate(apikey.DataPlane)
	if err != nil {
		c.t.Fatal(err)
	}
	digest := key.Digest()
	id := "tn_" + newULID()
	client := cellv1connect.NewCellServiceClient(c.admin, c.urls[0])
	_, err = client.Apply(c.t.Context(), connect.NewRequest(&cellv1.ApplyRequest{Changes: []*cellv1.Change{
		{Change: &cellv1.Change_Tenant{Tenant: &cellv1.Tenant{Id: id, Name: name}}},
		{Change: &cellv1.Change_Namespace{Namespace: &cellv1.Namespace{Id: "ns_" + newULID(), TenantId: id, Name: "default"}}},
		{Change: &cellv1.Change_Key{Key: &cellv1.Key{Id: key.ID(), TenantId: id, Digests: [][]byte{digest[:]}, Roles: []string{"admin"}}}},
	}}))
	if err != nil {
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
	for _, k := range keys {
		eventually(t, "the key is known", func() bool { status, _ := c.call(k, "GET", "/api/v1/queues", nil); return status == 200 })
	}
	for i, k := range keys {
		path := fmt.Sprintf("/t/tenant-%d/api/v1", i)
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

// checkStream sends a job around a worker stream.
func (c *cell) checkStream(k apikey.Key) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	s := c.worker(k).StreamLifecycle(ctx)
	defer s.CloseResponse() //nolint:errcheck // Ended below.
	defer s.CloseRequest()  //nolint:errcheck // Ended below.
	ask := func(req *corvov1.LifecycleStreamRequest) *corvov1.LifecycleStreamResponse {
		c.t.Helper()
		if err := s.Send(req); err != nil && !errors.Is(err, io.EOF) {
			c.t.Fatal(err)
		}
		got, err := s.Receive()
		if err != nil {
			c.t.Fatal(err)
		}
		if got.GetError() != "" || got.GetRequestId() != req.GetRequestId() {
			c.t.Fatalf("got %v", got)
		}
		return got
	}
	ask(&corvov1.LifecycleStreamRequest{RequestId: 1, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "s", PayloadJson: `{"a":1}`}}})
	got := ask(&corvov1.LifecycleStreamRequest{RequestId: 2, Queues: []string{"s"}, WorkerId: "w", FetchCount: 1})
	if len(got.GetJobs()) != 1 {
		c.t.Fatalf("got %v", got)
	}
	got = ask(&corvov1.LifecycleStreamRequest{RequestId: 3, Acks: []*corvov1.AckBatchItem{{JobId: got.GetJobs()[0].GetJobId()}}})
	if got.GetAcked() != 1 {
		c.t.Fatalf("got %v", got)
	}
}

func TestCell_WritesResumeWhenANodeLeavesAndRevokedKeysStayOut(t *testing.T) {
	t.Parallel()
	c := startCell(t)
	k := c.tenant("acme")
	enqueue := func() bool {
		status, _ := c.call(k, "POST", "/api/v1/enqueue", map[string]any{"queue": "q"})
		return status == 201
	}
	eventually(t, "writes work", enqueue)
	c.stop(0)
	start := time.Now()
	eventually(t, "writes resume", enqueue)
	t.Logf("resumed after %v", time.Since(start))
	c.checkStream(k)
	client := cellv1connect.NewCellServiceClient(c.admin, c.urls[1])
	eventually(t, "the key is revoked", func() bool {
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
	eventually(t, "it is refused", func() bool { status, _ := c.call(k, "GET", "/api/v1/queues", nil); return status == 401 })
	if took := time.Since(start); took > time.Second {
		t.Errorf("refused after %v", took)
	}
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

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

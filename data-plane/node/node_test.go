package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/node"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func quiet() *slog.Logger {
	level := slog.LevelError
	if os.Getenv("CORVO_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// alone starts a node alone in dir and returns it ready.
func alone(t *testing.T, dir string) *node.Node {
	t.Helper()
	api, raft := listen(t), listen(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	n, err := node.Start(ctx, node.Config{
		ID: "n1", Dir: dir, API: api, Raft: raft, Shards: 1, Access: node.Open, Logger: quiet(),
		Peers: []node.Peer{{ID: "n1", RaftAddress: raft.Addr().String(), APIURL: "http://" + api.Addr().String()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.SettleAlone(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return n
}

func stop(t *testing.T, n *node.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := n.Shutdown(ctx, true); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// startWithKeys starts a node alone that checks keys, ready.
func startWithKeys(t *testing.T, dir string) (*node.Node, error) {
	t.Helper()
	api, raft := listen(t), listen(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	n, err := node.Start(ctx, node.Config{
		ID: "n1", Dir: dir, API: api, Raft: raft, Shards: 1, Access: node.Keys, Logger: quiet(),
		Peers: []node.Peer{{ID: "n1", RaftAddress: raft.Addr().String(), APIURL: "http://" + api.Addr().String()}},
	})
	if err != nil {
		return nil, errors.Join(err, api.Close(), raft.Close())
	}
	if _, err := n.SettleAlone(ctx); err != nil {
		return n, err
	}
	return n, n.Ready(ctx)
}

// callWithKey makes one API call with a key.
func callWithKey(t *testing.T, method, url, key string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// call makes one API call and decodes its JSON answer.
func call(t *testing.T, method, url string, body any) (int, map[string]any) {
	t.Helper()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, url, in)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if len(b) > 0 && b[0] == '{' {
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatalf("%s %s: %q: %v", method, url, b, err)
		}
	}
	return res.StatusCode, out
}

func TestNodeAlone_AJobGoesInAndComesOutAndARestartForgetsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := alone(t, dir)
	status, job := call(t, "POST", n.URL()+"/api/v1/enqueue", map[string]any{"queue": "mail", "payload": map[string]any{"to": "a@b"}})
	if status != http.StatusCreated {
		t.Fatalf("enqueue: %d %v", status, job)
	}
	status, got := call(t, "POST", n.URL()+"/api/v1/fetch", map[string]any{"queues": []string{"mail"}, "worker_id": "w"})
	if status != http.StatusOK || got["job_id"] != job["job_id"] {
		t.Fatalf("fetch: %d %v, want %v", status, got, job)
	}
	_, second := call(t, "POST", n.URL()+"/api/v1/enqueue", map[string]any{"queue": "mail"})
	stop(t, n)

	n = alone(t, dir)
	defer stop(t, n)
	id, _ := got["job_id"].(string)
	status, ack := call(t, "POST", n.URL()+"/api/v1/ack/"+id, map[string]any{"lease_token": got["lease_token"], "result": map[string]any{"ok": true}})
	if status != http.StatusOK {
		t.Fatalf("ack after restart: %d %v", status, ack)
	}
	status, view := call(t, "GET", n.URL()+"/api/v1/jobs/"+id, nil)
	if status != http.StatusOK || view["state"] != "completed" {
		t.Fatalf("job: %d %v", status, view)
	}
	status, got = call(t, "POST", n.URL()+"/api/v1/fetch", map[string]any{"queues": []string{"mail"}})
	if status != http.StatusOK || got["job_id"] != second["job_id"] {
		t.Fatalf("fetch after restart: %d %v, want %v", status, got, second)
	}
}

// A browser on this machine carries what any page of any site asks for.
func TestNodeAlone_WithoutKeysNoPageOfAnotherSiteGetsIn(t *testing.T) {
	t.Parallel()
	n := alone(t, t.TempDir())
	defer stop(t, n)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(n.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		host   string
		header http.Header
		want   int
	}{
		"a program":                       {"127.0.0.1:" + port, nil, 201},
		"by name":                         {"localhost:" + port, nil, 201},
		"over IPv6":                       {"[::1]:" + port, nil, 201},
		"a page of this server":           {"localhost:" + port, http.Header{"Sec-Fetch-Site": {"same-origin"}}, 201},
		"a name that was made point here": {"evil.example:" + port, http.Header{"Sec-Fetch-Site": {"same-origin"}}, 403},
		"a name that begins like ours":    {"localhost.evil.example", nil, 403},
		"another machine's address":       {"203.0.113.7", nil, 403},
		"another site":                    {"localhost:" + port, http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		"another site, an old browser":    {"localhost:" + port, http.Header{"Origin": {"http://evil.example"}}, 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL()+"/api/v1/enqueue", strings.NewReader(`{"queue":"mail"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tc.host
		for k, v := range tc.header {
			r.Header[k] = v
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != tc.want {
			t.Errorf("%s: %d, want %d", name, res.StatusCode, tc.want)
		}
	}
}

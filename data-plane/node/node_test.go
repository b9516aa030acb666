package node_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// alone starts a node alone in dir and returns it ready.
func alone(t *testing.T, dir string) *node.Node {
	t.Helper()
	n, err := nodetest.Open(t, dir, node.Open)
	if err != nil {
		t.Fatal(err)
	}
	return n
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
	nodetest.Stop(t, n)

	n = alone(t, dir)
	defer nodetest.Stop(t, n)
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

// A browser on this machine sends what any page of any site requests.
func TestNodeAlone_WithoutKeysNoPageOfAnotherSiteGetsIn(t *testing.T) {
	t.Parallel()
	n := alone(t, t.TempDir())
	defer nodetest.Stop(t, n)
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

// Of jobs that are added one after the other each waits for a sync of its own.
func TestStatus_CountsTheSyncsOfTheLog(t *testing.T) {
	t.Parallel()
	n := alone(t, t.TempDir())
	defer nodetest.Stop(t, n)
	before := statusShown(t, n)
	const jobs = 3
	for range jobs {
		if code, answer := call(t, "POST", n.URL()+"/api/v1/enqueue", map[string]any{"queue": "q", "payload": 1}); code != http.StatusCreated {
			t.Fatal(code, answer)
		}
	}
	if after := statusShown(t, n); before.LogSyncs == 0 || after.LogSyncs < before.LogSyncs+jobs {
		t.Errorf("%d syncs before %d jobs, %d after", before.LogSyncs, jobs, after.LogSyncs)
	}
}

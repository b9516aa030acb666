package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// outcome is the result of an invocation.
type outcome struct {
	exit           int
	stdout, stderr string
}

func run(t *testing.T, url string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := map[string]string{"CORVO_URL": url}
	exit := Main(t.Context(), args, Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Env: func(name string) string { return env[name] }})
	return outcome{exit, stdout.String(), stderr.String()}
}

func answer(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

func TestEnqueue_OverloadIsRetriedUntilAccepted(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) < 4 {
			w.Header().Set("Retry-After", "0.003")
			w.WriteHeader(429)
			_, _ = w.Write([]byte(`{"error":"too many jobs at once","code":"OVERLOADED"}`))
			return
		}
		w.WriteHeader(201)
		_, _ = w.Write([]byte(`{"job_id":"job_1","status":"pending"}`))
	})
	if got := run(t, url, "enqueue", "emails", "{}"); got.exit != ExitOK || got.stdout != "job_1\n" || calls.Load() != 4 {
		t.Fatalf("%d calls, %+v", calls.Load(), got)
	}
}

func TestEnqueue_UnknownOutcomeIsRepeatedWithTheSameIdempotencyKey(t *testing.T) {
	t.Parallel()
	var keys []string
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Key string `json:"idempotency_key"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if keys = append(keys, body.Key); len(keys) < 3 {
			w.WriteHeader(503)
			_, _ = w.Write([]byte(`{"error":"leadership was lost","code":"UNKNOWN_OUTCOME"}`))
			return
		}
		w.WriteHeader(201)
		_, _ = w.Write([]byte(`{"job_id":"job_1","status":"pending"}`))
	})
	got := run(t, url, "enqueue", "emails", "{}")
	if got.exit != ExitOK || got.stdout != "job_1\n" {
		t.Fatalf("%+v", got)
	}
	if len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
		t.Fatalf("the three tries carried the keys %q", keys)
	}
}

func TestCancel_UnknownOutcomeIsNotRepeated(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(503)
		_, _ = w.Write([]byte(`{"error":"leadership was lost","code":"UNKNOWN_OUTCOME"}`))
	})
	got := run(t, url, "cancel", "job_1")
	if got.exit != ExitTimeout || calls.Load() != 1 || !strings.Contains(got.stderr, "may have taken effect") {
		t.Fatalf("%d calls, %+v", calls.Load(), got)
	}
}

func TestRequest_NoAnswerInTimeExits7AndSaysWhatIsUnknown(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	url := answer(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	read := run(t, url, "queues", "--timeout", "50ms")
	if read.exit != ExitTimeout || strings.Contains(read.stderr, "may have taken effect") {
		t.Errorf("a read changes nothing: %+v", read)
	}
	write := run(t, url, "cancel", "job_1", "--timeout", "50ms", "-o", "json")
	var line struct {
		Code string `json:"code"`
		Why  string `json:"why"`
		Exit int    `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(write.stderr), &line); err != nil || line.Code != "TIMEOUT" || line.Exit != ExitTimeout || !strings.Contains(line.Why, "may have taken effect") {
		t.Errorf("%v %+v", err, write)
	}
}

func TestRequest_RedirectIsNotFollowedSoTheKeyStaysHere(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	elsewhere := answer(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	url := answer(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) })
	got := run(t, url, "queues", "--api-key", "secret")
	if got.exit != ExitFail || reached.Load() || !strings.Contains(got.stderr, elsewhere) {
		t.Fatalf("followed: %v, %+v", reached.Load(), got)
	}
}

func TestRequest_CarriesKeyNamespaceAndTenantPath(t *testing.T) {
	t.Parallel()
	var path, key, namespace string
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		path, key, namespace = r.URL.Path, r.Header.Get("X-API-Key"), r.Header.Get("X-Corvo-Namespace")
		_, _ = w.Write([]byte("[]"))
	})
	if got := run(t, url+"/t/acme/", "queues", "--api-key", "k1", "--namespace", "staging"); got.exit != ExitOK {
		t.Fatalf("%+v", got)
	}
	if path != "/t/acme/api/v1/queues" || key != "k1" || namespace != "staging" {
		t.Fatalf("path %q, key %q, namespace %q", path, key, namespace)
	}
}

func TestRequest_AForeignResponseIsReported(t *testing.T) {
	t.Parallel()
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) })
	if got := run(t, url, "queues"); got.exit != ExitFail || !strings.Contains(got.stderr, "isn't a Corvo server") {
		t.Errorf("%+v", got)
	}
	missing := answer(t, http.NotFound)
	if got := run(t, missing, "inspect", "job_1"); got.exit != ExitFail || !strings.Contains(got.stderr, "no Corvo API") {
		t.Errorf("a page of somebody else is not a missing job: %+v", got)
	}
}

func TestStatus_ClusterThatMayNotBeSeenIsNoError(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{403: ExitOK, 404: ExitOK, 501: ExitOK, 401: ExitAuth} {
		url := answer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/cluster/status" {
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"error":"no","code":"NO"}`))
				return
			}
			_, _ = w.Write([]byte(`{"status":"ok","server_version":"1"}`))
		})
		if got := run(t, url, "status"); got.exit != want || !strings.Contains(got.stdout, "healthy") {
			t.Errorf("cluster status %d: want exit %d, %+v", status, want, got)
		}
	}
}

func TestStatus_SaysWhatTheLastScrubFound(t *testing.T) {
	t.Parallel()
	for scrub, want := range map[string]string{
		`null`: "",
		`{"ended_at":"2026-03-04T05:06:07Z","files":9,"bytes":1,"damaged_files":[],"rebuilt_files":[]}`:             "scrubbed       2026-03-04T05:06:07Z, 9 files, nothing damaged\n",
		`{"ended_at":"2026-03-04T05:06:07Z","files":9,"bytes":1,"damaged_files":["a/b"],"rebuilt_files":["c","d"]}`: "scrubbed       2026-03-04T05:06:07Z, 9 files, DAMAGED: a/b; rebuilt: c, d\n",
	} {
		url := answer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/cluster/status" {
				_, _ = w.Write([]byte(`{"node_id":"n1","scrub":` + scrub + `}`))
				return
			}
			_, _ = w.Write([]byte(`{"status":"ok","server_version":"1"}`))
		})
		got := run(t, url, "status")
		if got.exit != ExitOK || !strings.Contains(got.stdout, want) || strings.Contains(got.stdout, "scrub") != (want != "") {
			t.Errorf("%s: %+v", scrub, got)
		}
	}
}

// TestExitCodes is the table scripts depend on.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{
		400: ExitUsage, 401: ExitAuth, 403: ExitAuth, 404: ExitNotFound, 409: ExitConflict, 413: ExitUsage, 429: ExitRate, 500: ExitFail,
		501: ExitFail, 504: ExitTimeout,
	} {
		url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":"no","code":"RATE_LIMITED","request_id":"r1"}`))
		})
		got := run(t, url, "inspect", "job_1")
		if got.exit != want || !strings.Contains(got.stderr, "request id: r1") {
			t.Errorf("status %d: want exit %d, %+v", status, want, got)
		}
	}
}

// After sign-up the profile holds a key for jobs and one that may also set up queues.
func TestProfile_ManagementKeyDoesWhatTheAPIKeyMayNot(t *testing.T) {
	t.Parallel()
	const rules = `{"name":"emails","max_concurrency":5}`
	var used []string
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		used = append(used, r.Header.Get("X-API-Key")+" "+r.Header.Get("X-Corvo-Namespace"))
		if r.Header.Get("X-API-Key") != "corvo_mg_1" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"error":"may not operate","code":"FORBIDDEN"}`))
			return
		}
		_, _ = w.Write([]byte(rules))
	})
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "corvo"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("current = \"a\"\n[profile.a]\nurl = %q\nnamespace = \"default\"\napi_key = \"corvo_dp_1\"\ntoken = \"corvo_mg_1\"\n", url)
	if err := os.WriteFile(filepath.Join(home, "corvo", "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]int{"": ExitOK, "corvo_dp_2": ExitAuth} {
		var stdout, stderr bytes.Buffer
		env := map[string]string{"XDG_CONFIG_HOME": home, "CORVO_API_KEY": given}
		exit := Main(t.Context(), []string{"queue", "get", "emails"}, Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
			Env: func(name string) string { return env[name] }})
		if exit != want {
			t.Errorf("with key %q: exit %d, want %d: %s", given, exit, want, stderr.String())
		}
	}
	if !slices.Contains(used, "corvo_mg_1 default") || slices.Contains(used, "corvo_mg_1 ") {
		t.Errorf("keys and namespaces sent: %q", used)
	}
}

func TestTable_NothingIsCutInAPipe(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	long := strings.Repeat("x", 500)
	s := newSession(Process{Stdout: &out, Env: func(string) string { return "" }})
	s.table(&out, []string{"A", "B"}, [][]string{{"1", long}, {"ünï", "2"}})
	if !strings.Contains(out.String(), "1    "+long+"\n") || !strings.Contains(out.String(), "ünï  2\n") {
		t.Fatal(out.String())
	}
	if got := cut(long, 10); got != "xxxxxxxxx…" {
		t.Fatalf("cut to 10 on a terminal: %q", got)
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, at := range map[string]time.Time{
		"-": {}, "just now": now, "5 s ago": now.Add(-5 * time.Second), "3 min ago": now.Add(-3 * time.Minute), "47 h ago": now.Add(-47 * time.Hour),
		"2 d ago": now.Add(-48 * time.Hour), "in 10 min": now.Add(10 * time.Minute),
	} {
		if got := ago(at, now); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
}

func TestDuration_HasAtMostTwoUnits(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0 ms": 0, "340 ms": 340 * time.Millisecond, "4.2 s": 4250 * time.Millisecond, "5 s": 5 * time.Second, "42 s": 42900 * time.Millisecond,
		"2 min 5 s": 125 * time.Second, "10 min": 10 * time.Minute, "1 h": time.Hour + 5*time.Second, "1 d 2 h": 26*time.Hour + 3*time.Minute,
	} {
		if got := duration(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestOutputBuffers_KeepTheRightEnd(t *testing.T) {
	t.Parallel()
	head, end := &firstBytes{limit: 4}, &lastBytes{limit: 4}
	for _, part := range []string{"12", "34", "5"} {
		for _, w := range []interface{ Write([]byte) (int, error) }{head, end} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("a command must not see a short write: %d, %v", n, err)
			}
		}
	}
	if head.String() != "1234" || head.json() != nil || end.String() != "2345" {
		t.Fatalf("first %q, as JSON %q, last %q", head.String(), head.json(), end.String())
	}
}

func TestMain_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url := answer(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	var stderr bytes.Buffer
	exit := Main(ctx, []string{"queues", "--server", url}, Process{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &stderr,
		Env: func(string) string { return "" }})
	if exit != ExitFail || !strings.Contains(stderr.String(), "interrupted") {
		t.Fatalf("exit %d, %s", exit, stderr.String())
	}
}

// A server tells a worker without a token to cancel a job it lost, and reports it as lost too.
func TestHeartbeat_ALostLeaseIsNoCancel(t *testing.T) {
	t.Parallel()
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"jobs":{"job_1":{"status":"ok"},"job_2":{"status":"cancel"},"job_3":{"status":"cancel"}},"unknown":["job_3"]}`))
	})
	for _, c := range []struct {
		ids  []string
		exit int
		last string
	}{
		{[]string{"job_1", "job_2"}, ExitOK, "job_2  cancel\n"},
		{[]string{"job_1", "job_3"}, ExitPartial, "job_3  lost\n"},
		{[]string{"job_3"}, ExitConflict, "job_3  lost\n"},
	} {
		if got := run(t, url, append([]string{"heartbeat"}, c.ids...)...); got.exit != c.exit || !strings.HasSuffix(got.stdout, c.last) {
			t.Errorf("%v: %+v", c.ids, got)
		}
	}
}

func TestKeyFile_StandardInputServesACommandOfSeveralCalls(t *testing.T) {
	t.Parallel()
	var keys []string
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("X-API-Key"))
		_, _ = w.Write([]byte(`{"schedules":[{"id":"sched_1","name":"nightly"}],"id":"sched_1"}`))
	})
	var stdout, stderr bytes.Buffer
	exit := Main(t.Context(), []string{"schedule", "get", "nightly", "--server", url, "--api-key-file", "-"}, Process{
		Stdin: strings.NewReader("key-1\n"), Stdout: &stdout, Stderr: &stderr, Env: func(string) string { return "" },
	})
	if exit != ExitOK || !slices.Equal(keys, []string{"key-1", "key-1"}) {
		t.Fatalf("exit %d, keys %v: %s", exit, keys, stderr.String())
	}
}

func TestStatus_TheHealthCheckHasATimeoutToo(t *testing.T) {
	t.Parallel()
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte(`{}`))
	})
	began := time.Now()
	if got := run(t, url, "status", "--timeout", "200ms"); got.exit != ExitTimeout || time.Since(began) > 10*time.Second {
		t.Errorf("after %s: %+v", time.Since(began), got)
	}
}

package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// gatewayPage is what a gateway answers for a server that it lost in the middle of a call.
const gatewayPage = "upstream connect error or disconnect/reset before headers"

func TestRequest_AGatewaysOwnPageLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for line, calls := range map[string]int32{
		"schedule run sched_1":       1,
		"job replay job_1 --from 1":  1,
		"fetch emails":               1,
		"cancel job_1":               1,
		"queues":                     triesMax, // A read may be repeated.
		"ack job_1 --token TOKEN":    triesMax,
		"enqueue emails {}":          triesMax,
		"api POST /enqueue --body 1": 1,
	} {
		for _, page := range []string{gatewayPage, `{"message":"Service Unavailable"}`, `{"code":503,"error":"no healthy upstream"}`} {
			var seen atomic.Int32
			url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
				seen.Add(1)
				w.Header().Set("Retry-After", "0.001")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write([]byte(page))
			})
			got := run(t, url, append(strings.Fields(line), "-o", "json")...)
			if seen.Load() != calls || got.exit != ExitTimeout || !strings.Contains(got.stderr, "UNKNOWN_OUTCOME") {
				t.Errorf("%s, answered %s: %d calls, want %d; %+v", line, page, seen.Load(), calls, got)
			}
		}
	}
}

// A server that ends in the middle of a call is not there for the next try. What became of the call
// stays unknown, and the key that makes it safe to repeat is told.
func TestRequest_AnUnknownOutcomeOutlivesTheServer(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"enqueue emails {}":                            "repeat it with --idempotency-key cli-",
		"enqueue-batch --queue q --payloads --chunk 1": "its lines may have taken effect",
	} {
		var srv *httptest.Server
		var calls atomic.Int32
		crash := int32(strings.Count(line, "--queue") + 1) // The second chunk.
		srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if calls.Add(1) == crash {
				_ = srv.Listener.Close()
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte(`{"job_ids":["job_1"]}`))
		}))
		t.Cleanup(srv.Close)
		if got := runWith(t, "1\n2\n3\n", srv.URL, strings.Fields(line)...); got.exit != ExitTimeout || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v, want %q", line, got, want)
		}
	}
}

// A call that was put off says nothing of the try before it.
func TestRequest_AnUnknownOutcomeOutlivesARefusalThatPutsOff(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Retry-After", "0.001")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":"no leader","code":"LEADER_UNAVAILABLE"}`))
	})
	if got := run(t, url, "enqueue", "emails", "{}", "-o", "json"); got.exit != ExitTimeout || !strings.Contains(got.stderr, "UNKNOWN_OUTCOME") {
		t.Errorf("after %d calls: %+v", calls.Load(), got)
	}
}

func TestRequest_AReadWithoutAnOutcomeChangedNothing(t *testing.T) {
	t.Parallel()
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "0.001")
		w.WriteHeader(http.StatusBadGateway)
	})
	if got := run(t, url, "queues"); got.exit != ExitTimeout || strings.Contains(got.stderr, "may have taken effect") {
		t.Errorf("%+v", got)
	}
}

// A heartbeat adds its usage to the usage before, so a second one counts it twice.
func TestHeartbeat_WithUsageIsSentOnce(t *testing.T) {
	t.Parallel()
	for line, calls := range map[string]int32{
		"heartbeat job_1":                        triesMax,
		`heartbeat job_1 --usage {"cost_usd":1}`: 1,
		"heartbeat job_1 --usage null":           triesMax,
	} {
		var seen atomic.Int32
		url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
			seen.Add(1)
			w.Header().Set("Retry-After", "0.001")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":"leadership was lost","code":"UNKNOWN_OUTCOME"}`))
		})
		if got := run(t, url, strings.Fields(line)...); seen.Load() != calls || got.exit != ExitTimeout {
			t.Errorf("%s: %d calls, want %d; %+v", line, seen.Load(), calls, got)
		}
	}
}

// A connection that broke after a call was sent tells as little as a gateway.
func TestRequest_ALostConnectionLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for line, c := range map[string]struct {
		calls int32
		exit  int
	}{
		"schedule run sched_1": {1, ExitTimeout},
		"cancel job_1":         {1, ExitTimeout},
		"enqueue emails {}":    {3, ExitOK}, // Repeated with its idempotency key.
	} {
		var seen atomic.Int32
		url := answer(t, func(w http.ResponseWriter, r *http.Request) {
			if seen.Add(1) < 3 {
				_, _ = io.Copy(io.Discard, r.Body) // The call has come whole.
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte(`{"job_id":"job_1","status":"pending"}`))
		})
		got := run(t, url, strings.Fields(line)...)
		if seen.Load() != c.calls || got.exit != c.exit || c.exit != ExitOK && !strings.Contains(got.stderr, "may have taken effect") {
			t.Errorf("%s: %d calls, want %d; %+v", line, seen.Load(), c.calls, got)
		}
	}
}

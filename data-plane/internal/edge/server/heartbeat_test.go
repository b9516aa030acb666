package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/messages"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

// A worker whose report about a job is invalid is still alive: losing the leases of all
// its jobs would run them all again.
func TestHeartbeat_AnInvalidUpdateCostsNoLease(t *testing.T) {
	t.Parallel()
	overHTTP := func(body string) []queue.HeartbeatInput {
		var d shape.Decoder
		_, in, _ := readHeartbeats(&d, []byte(body))
		return in
	}
	overRPC := func(body string) []queue.HeartbeatInput {
		var m corvov1.HeartbeatRequest
		if err := shape.UnmarshalJSON([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		return messages.ReadHeartbeats("jobs", m.GetJobs(), "", 0).In
	}
	inFrame := func(body string) []queue.HeartbeatInput {
		var m frameIn
		if err := shape.UnmarshalJSON([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		return messages.ReadHeartbeats("heartbeats", m.GetHeartbeats(), "", 0).In
	}
	const halves = `{"usage":{"input_tokens":1,"model":5}}`
	for _, row := range []struct {
		name, path, body, field string
		none                    bool // The problem is about all jobs: no update counts.
		read                    func(body string) []queue.HeartbeatInput
	}{
		{"a wrong type over HTTP", "/api/v1/heartbeat", `{"jobs":{"A":` + halves + `,"B":{"progress":1}}}`, `"jobs.A.usage.model"`, false, overHTTP},
		{"no object over HTTP", "/api/v1/heartbeat", `{"jobs":{"A":5,"B":{"progress":1}}}`, `"jobs.A"`, false, overHTTP},
		{"a lease that is none over HTTP", "/api/v1/heartbeat", `{"jobs":{"A":{},"B":{"progress":1}},"lease":"soon"}`, `"lease"`, true, overHTTP},
		{"no JSON over RPC", service + "Heartbeat", `{"jobs":{"A":{"progress_json":"{"},"B":{"progress_json":"1"}}}`, `jobs["A"].progress_json`, false, overRPC},
		{"no JSON in a frame", service + "StreamLifecycle", `{"heartbeats":{"A":{"checkpoint_json":"{"},"B":{"progress_json":"1"}}}`,
			`heartbeats["A"].checkpoint_json`, false, inFrame},
	} {
		s := newBench(t, benchOptions{})
		s.post("/api/v1/enqueue/batch", `{"jobs":[{"queue":"q"},{"queue":"q"}]}`).want(t, 201)
		s.post("/api/v1/fetch/batch", `{"queues":["q"],"count":2,"wait":0}`).want(t, 200)
		a, b := s.jobs.nth(1), s.jobs.nth(2)
		named := strings.NewReplacer("A", a, "B", b)
		got := s.post(row.path, named.Replace(row.body), "Content-Type", "application/json")
		if stream := strings.HasSuffix(row.path, "Lifecycle"); (got.status == http.StatusBadRequest) == stream {
			t.Errorf("%s: status %d", row.name, got.status)
		}
		if text := strings.ReplaceAll(string(got.body), `\"`, `"`); !strings.Contains(text, named.Replace(row.field)) {
			t.Errorf("%s: %s", row.name, text)
		}
		said := make(map[string]string)
		for _, h := range row.read(named.Replace(row.body)) {
			said[h.JobID.String()] = fmt.Sprintf("%s %v %v %v", h.Progress, h.Checkpoint, h.Usage, h.Lease)
		}
		want := map[string]string{a: " [] <nil> 0s", b: "1 [] <nil> 0s"}
		if row.none {
			want[b] = want[a]
		}
		if fmt.Sprint(said) != fmt.Sprint(want) {
			t.Errorf("%s: renewed %v, want %v", row.name, said, want)
		}
	}
}

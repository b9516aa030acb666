package clocks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// row is an hour of a namespace, as corvo usage export writes it.
type row struct {
	Kind, Namespace              string
	Hour, ClosedTo               time.Time
	JobsEnqueued, Executions     int64
	PayloadBytes, StreamsPeak    int64
	StoredByteHours, EgressBytes int64
}

// UnmarshalJSON takes the names of the file.
func (r *row) UnmarshalJSON(text []byte) error {
	var f map[string]json.RawMessage
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	for name, into := range map[string]any{"kind": &r.Kind, "namespace": &r.Namespace, "hour": &r.Hour, "closed_to": &r.ClosedTo, "jobs_enqueued": &r.JobsEnqueued,
		"executions": &r.Executions, "payload_bytes": &r.PayloadBytes, "streams_peak": &r.StreamsPeak, "stored_byte_hours": &r.StoredByteHours, "egress_bytes": &r.EgressBytes} {
		if raw, there := f[name]; there {
			if err := json.Unmarshal(raw, into); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// meters is a service whose hours pass as the test says, and its customer.
type meters struct {
	t     *testing.T
	ctx   context.Context
	up    *rig.Up
	corvo string
	file  string // Of the last export.
	at    time.Duration
	rig.Tenant
}

// startMeters starts it one minute after a full hour.
func startMeters(t *testing.T) *meters {
	now := time.Now()
	m := &meters{t: t, ctx: ctxFor(t, 5*time.Minute), corvo: rig.BuildCorvo(t), file: filepath.Join(t.TempDir(), "month.ndjson")}
	m.at = now.Truncate(time.Hour).Add(time.Hour + time.Minute).Sub(now)
	m.up = rig.StartUpAt(t, m.at, filepath.Join(t.TempDir(), "data"), "--nodes", "1", "--shards", "1", "--test-payments")
	m.Tenant = rig.NewTenant(m.up.Tenant.URL, m.up.API.Token)
	return m
}

// in is the customer in a namespace, which is made.
func (m *meters) in(namespace string) rig.Tenant {
	m.t.Helper()
	if err := m.up.API.Call(m.ctx, "NamespaceService/CreateNamespace", map[string]any{"tenant": "demo", "name": namespace}, nil); err != nil {
		m.t.Fatal(err)
	}
	one := m.Tenant
	one.Namespace = namespace
	return one
}

// later moves the clocks, and waits until the cell has followed.
func (m *meters) later(by time.Duration) {
	m.t.Helper()
	m.at += by
	m.up.WallClock.Move(m.at)
	eventually.True(m.t, time.Minute, "the cell follows its clocks", func() bool {
		time.Sleep(200 * time.Millisecond) // A pace, not a wait.
		var shown struct {
			CreatedAt time.Time `json:"created_at"`
		}
		id, err := m.Enqueue(m.ctx, "clock", "tick")
		if err == nil {
			_, err = m.Call(m.ctx, http.MethodGet, "/api/v1/jobs/"+id, nil, &shown)
		}
		return err == nil && time.Until(shown.CreatedAt) > m.at-30*time.Second
	})
}

// call is a call that works.
func (m *meters) call(of rig.Tenant, path string, in, out any) {
	m.t.Helper()
	if _, err := of.Call(m.ctx, http.MethodPost, "/api/v1"+path, in, out); err != nil {
		m.t.Fatalf("%s: %v", path, err)
	}
}

func (m *meters) fetch(of rig.Tenant, queue string) rig.Job {
	m.t.Helper()
	job, ok, err := of.Fetch(m.ctx, queue, "w", 10*time.Second)
	if err != nil || !ok {
		m.t.Fatalf("fetch from %s: %v, %v", queue, ok, err)
	}
	return job
}

// run is what a customer types.
func (m *meters) run(args ...string) string {
	m.t.Helper()
	cmd := exec.CommandContext(m.ctx, m.corvo, args...)
	cmd.Env = []string{"HOME=" + m.t.TempDir(), "CORVO_ENDPOINT=" + m.up.API.URL, "CORVO_TOKEN=" + m.up.API.Token}
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		m.t.Fatalf("corvo %s: %v\n%s%s", strings.Join(args, " "), err, out, talk.String())
	}
	return string(out)
}

// export writes the month, and gives the closed rows by namespace, with "" for the header.
func (m *meters) export() map[string]row {
	m.t.Helper()
	month := time.Now().Add(m.at).UTC().Format("2006-01")
	text := m.run("usage", "export", "--month", month)
	if err := os.WriteFile(m.file, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	rows := make(map[string]row)
	for line := range strings.Lines(text) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			m.t.Fatalf("%s: %v", line, err)
		}
		if r.Kind == "hour" || r.Kind == "header" {
			rows[r.Namespace] = r
		}
	}
	return rows
}

// The examples of docs/billing.md, done to a real service, are what its closed hours say, and
// what a customer sees of them on the command line.
func TestMeters_AClosedHourCountsAsTheExamplesSay(t *testing.T) {
	t.Parallel()
	m := startMeters(t)
	if header := m.export()[""]; header.ClosedTo.Day() != 1 || time.Since(header.ClosedTo) > 32*24*time.Hour {
		t.Errorf("before any hour is closed, the export says it is closed to %s", header.ClosedTo)
	}
	if got := m.run("usage", "verify", m.file); !strings.Contains(got, "valid") {
		t.Errorf("verify: %s", got)
	}

	repeated := m.in("repeated")
	for range 3 {
		m.call(repeated, "/enqueue", map[string]any{"queue": "q", "payload": 1, "idempotency_key": "the same"}, nil)
	}
	tried := m.in("tried")
	m.call(tried, "/enqueue", map[string]any{"queue": "q", "payload": 1, "max_retries": 5, "retry_backoff": "none"}, nil)
	for range 2 {
		job := m.fetch(tried, "q")
		m.call(tried, "/fail/"+job.JobID, map[string]any{"lease_token": job.LeaseToken, "error": "no luck"}, nil)
	}
	if err := tried.Ack(m.ctx, m.fetch(tried, "q")); err != nil {
		t.Fatal(err)
	}
	returned := m.in("returned")
	m.call(returned, "/enqueue", map[string]any{"queue": "q", "payload": 1}, nil)
	job := m.fetch(returned, "q")
	m.call(returned, "/fail/"+job.JobID, map[string]any{"lease_token": job.LeaseToken, "error": "worker_shutdown"}, nil)

	payloads := m.in("payloads")
	var batch []map[string]any
	for range 1000 {
		batch = append(batch, map[string]any{"queue": "q", "payload": strings.Repeat("x", 2046)}) // With its quotes 2 KB.
	}
	for at := 0; at < len(batch); at += 100 {
		m.call(payloads, "/enqueue/batch", map[string]any{"jobs": batch[at : at+100]}, nil)
	}
	waiting := m.in("waiting")
	var fetches sync.WaitGroup
	for n := range 3 {
		fetches.Go(func() { _, _, _ = waiting.Fetch(m.ctx, "nothing", fmt.Sprint("w", n), 3*time.Second) })
	}
	fetches.Wait()
	stored := m.in("stored")
	for range 4 {
		m.call(stored, "/enqueue", map[string]any{"queue": "q", "payload": strings.Repeat("x", 256<<10-2)}, nil)
	}
	m.later(30 * time.Minute)
	m.call(stored, "/queues/q/clear", nil, nil)

	first := time.Now().Add(m.at).UTC().Truncate(time.Hour)
	m.later(35 * time.Minute)
	var closed map[string]row
	eventually.True(t, patience, "the hour is closed", func() bool {
		closed = m.export()
		return closed[""].ClosedTo.After(first)
	})
	if got := m.run("usage", "verify", m.file); !strings.Contains(got, "valid: the invoice follows from the rows") {
		t.Errorf("verify: %s", got)
	}
	is := func(what string, got, from, to int64) {
		t.Helper()
		if got < from || got > to {
			t.Errorf("%s: %d, want %d to %d", what, got, from, to)
		}
	}
	is("a repeated call with the same idempotency key", closed["repeated"].JobsEnqueued, 1, 1)
	is("a job that fails twice and then completes", closed["tried"].Executions, 3, 3)
	is("one that a worker gives back", closed["returned"].Executions, 0, 0)
	is("jobs of 2 KB", closed["payloads"].JobsEnqueued, 1000, 1000)
	is("their payloads", closed["payloads"].PayloadBytes, 2_048_000, 2_048_000)
	is("1 MB for 30 minutes", closed["stored"].StoredByteHours, 524_288, 524_288*105/100) // And for the time that the test takes.
	is("fetches that wait at a time", closed["waiting"].StreamsPeak, 3, 3)
	is("bytes of answers", closed["repeated"].EgressBytes, 300, 30_000)

	usage := m.run("usage", "show", "--interval", "hour", "--by-namespace")
	if row := regexp.MustCompile(`(?m)^` + first.Format("2006-01-02 15:04") + ` +payloads +1,000 +0 +2\.0 MB .* yes$`); !row.MatchString(usage) {
		t.Errorf("usage show:\n%s", usage)
	}
	for line := range strings.Lines(usage) {
		if strings.HasPrefix(line, first.Format("2006-01-02 15:04")) && !strings.HasSuffix(strings.TrimSpace(line), "yes") {
			t.Errorf("an hour that is closed isn't final: %s", line)
		}
	}
}

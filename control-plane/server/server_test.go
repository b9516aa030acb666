package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
)

// stage is a control plane over a real database, served over real HTTP. Nobody carries
// its changes to a cell.
type stage struct {
	*Server
	http *httptest.Server
	log  *lines
	// inner answers behind http.
	inner *atomic.Value
}

func newStage(t testing.TB) *stage {
	t.Helper()
	return newStageOn(t, cloudtest.SQLite(t))
}

func newStageOn(t testing.TB, database string, edits ...func(*Config)) *stage {
	t.Helper()
	// The address is known before the handler: it is part of the configuration.
	inner := new(atomic.Value)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.Load().(http.Handler).ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	log := new(lines)
	// Each call comes from an address of its own: what is limited per network has its own tests.
	var callers atomic.Uint32
	config := Config{
		Database:            database,
		PublicURL:           front.URL,
		TenantURL:           func(name string) string { return front.URL + "/t/" + name },
		Cells:               []Cell{{Name: "cell-1", URLs: []string{"http://127.0.0.1:1"}, Secrets: cellsecret.Must(bytes.Repeat([]byte{7}, 32))}},
		MasterKeys:          [][]byte{seal.NewKey()},
		Mail:                Mail{URL: "smtp://127.0.0.1:1", From: "Corvo <no-reply@corvo.test>"},
		AllowPrivateIssuers: true,
		DNS:                 "127.0.0.1:1", // Nobody answers.
		Peer: func(*http.Request) string {
			n := callers.Add(1)
			return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
		},
		Console: fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>Console</title>")}, "assets/a-1.js": {Data: []byte("1")}},
		Version: "test",
		Logger:  slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, edit := range edits {
		edit(&config)
	}
	s, err := New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	// Nobody will confirm anything.
	s.tenancy.ObserveWait, s.principals.ObserveWait = time.Millisecond, time.Millisecond
	s.signup.Ready = func(context.Context, string, ...string) bool { return false }
	s.exchange.Ready = s.signup.Ready
	inner.Store(s.Handler())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &stage{Server: s, http: front, log: log, inner: inner}
}

// seed makes a tenant with an owner's management key and a key for jobs.
func (s *stage) seed(t testing.TB, tenant string) (seed Seed, manage, jobs apikey.Key) {
	t.Helper()
	manage, jobs = newKey(t, apikey.Management), newKey(t, apikey.DataPlane)
	now := time.Now()
	seed = Seed{
		Tenant: tenant, TenantID: s.kit.IDs.New(ids.Tenant, now), NamespaceID: s.kit.IDs.New(ids.Namespace, now),
		Email: "owner@" + tenant + ".test", Keys: []apikey.Key{manage, jobs},
	}
	if err := s.Ensure(t.Context(), seed); err != nil {
		t.Fatal(err)
	}
	return seed, manage, jobs
}

func newKey(t testing.TB, kind apikey.Kind) apikey.Key {
	t.Helper()
	k, err := apikey.Generate(kind)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// reply is a response.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) json(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		t.Fatalf("answer %d %q: %v", r.status, r.body, err)
	}
	return m
}

// call posts JSON as curl would.
func (s *stage) call(t testing.TB, procedure, body string, headers ...string) reply {
	t.Helper()
	return s.do(t, http.MethodPost, procedure, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

func (s *stage) do(t testing.TB, method, path, body string, headers ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, s.http.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // It was read.
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{status: res.StatusCode, header: res.Header, body: string(raw)}
}

// bearer is the header of a key.
func bearer(k apikey.Key) []string { return []string{"Authorization", "Bearer " + k.Reveal()} }

func TestEnsure_MakesATenantOnceThatItsKeysCanUse(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	seed, manage, _ := s.seed(t, "demo1")
	if err := s.Ensure(t.Context(), seed); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	r := s.call(t, "/corvo.cloud.v1.AuthService/GetCurrentIdentity", "{}", bearer(manage)...)
	if r.status != http.StatusOK {
		t.Fatalf("GetCurrentIdentity: %d %s", r.status, r.body)
	}
	tenants := r.json(t)["tenants"].([]any)
	if len(tenants) != 1 || tenants[0].(map[string]any)["tenant"] != "demo1" {
		t.Errorf("tenants = %v", tenants)
	}
	r = s.call(t, "/corvo.cloud.v1.NamespaceService/ListNamespaces", "{}", bearer(manage)...)
	if list := r.json(t)["namespaces"].([]any); len(list) != 1 || list[0].(map[string]any)["id"] != seed.NamespaceID {
		t.Errorf("namespaces = %s", r.body)
	}
	r = s.call(t, "/corvo.cloud.v1.AuditService/ListAuditEvents", "{}", bearer(manage)...)
	if events := r.json(t)["events"].([]any); len(events) != 7 {
		t.Errorf("%d audit events, want 7: %s", len(events), r.body)
	}
}

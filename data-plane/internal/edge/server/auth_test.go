package server

import (
	"bytes"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// concrete fills a route's pattern with something that does not exist.
func concrete(rt Route) string {
	return strings.NewReplacer("{id}", jobNumber(77).String(), "{name}", "no-such-queue").Replace(rt.Pattern)
}

// signed is the identity a proxy would vouch for.
func signed(ns job.Namespace, roles ...string) identity.Identity {
	return identity.Identity{
		TenantID: "tn_0", TenantName: "acme", NamespaceID: ns.String(), Namespace: "default", Principal: "key_000000000001",
		Grants: permission.Here{All: celladmin.RoleSet(roles)}, Peer: "192.0.2.1", TenantURL: "https://acme.example", ExpiresAt: time.Now().Add(30 * time.Second),
	}
}

// everything is what a forger would like to have: every bit of a set.
const everything = "____________________9w"

// granted is what a key with these roles may do.
func granted(roles ...string) permission.Grants {
	return permission.Grants{{Permissions: celladmin.RoleSet(roles)}}
}

// headersFor signs id for path and returns name, value pairs.
func headersFor(t testing.TB, id identity.Identity, path string) []string {
	t.Helper()
	h := make(http.Header)
	if err := newSigner(t).Sign(h, id, path); err != nil {
		t.Fatal(err)
	}
	var out []string
	for name, vs := range h {
		out = append(out, name, vs[0])
	}
	return out
}

func newCellBench(t *testing.T, o benchOptions) *bench {
	t.Helper()
	o.auth = NewSigned(newSigner(t), time.Now, inCell, o.refused, quiet())
	o.Signer = newSigner(t)
	return newBench(t, o)
}

func TestRoutes_WithoutCredentialOnlyPublicOnesAnswer(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{})
	forged := []string{
		"X-Corvo-Tenant", "tn_0", "X-Corvo-Namespace-Id", nsA.String(), "X-Corvo-Grants", everything, "X-Corvo-Principal", "cell:x",
		"X-Corvo-Proxy-Stream", "1", "X-Corvo-Forwarded", "1", "X-Corvo-Signature", "AAAA", "X-Corvo-Expires", "99999999999",
		"X-Forwarded-For", "127.0.0.1", "Authorization", "Bearer x",
	}
	publics := 0
	for _, rt := range Routes() {
		for _, headers := range [][]string{nil, forged} {
			h := append([]string{"Content-Type", "application/json"}, headers...)
			a := b.do(rt.Method, concrete(rt), map[bool]string{true: "{}"}[rt.Method == "POST"], h...)
			switch {
			case rt.Permission == public && a.status >= 300:
				t.Errorf("%s %s: public, but %d %s", rt.Method, rt.Pattern, a.status, a.body)
			case rt.Permission != public && a.status != 401:
				t.Errorf("%s %s: %d without a credential, want 401", rt.Method, rt.Pattern, a.status)
			}
		}
		if rt.Permission == public {
			publics++
		}
	}
	if publics != 5 { // info, healthz, readyz, openapi.json, GetServerInfo
		t.Errorf("%d public routes, want 5: a new one needs a reason", publics)
	}
	if calls := b.jobs.commands(); calls != 0 {
		t.Errorf("refused requests did %d things", calls)
	}
}

func TestRoutes_RolesAreHeldToTheTable(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{})
	b.srv.events = noEvents
	for _, role := range []string{"admin", "operator", "producer", "worker", "viewer", "developer", "auditor", "cell", ""} {
		id := signed(nsA, role)
		for _, rt := range Routes() {
			if rt.Permission == public {
				continue
			}
			a := b.do(rt.Method, concrete(rt), map[bool]string{true: "{}"}[rt.Method == "POST"],
				append([]string{"Content-Type", "application/json"}, headersFor(t, id, concrete(rt))...)...)
			may := !rt.Process && (id.Grants.Everywhere(rt.Permission) || slices.ContainsFunc(rt.Any, id.Grants.Everywhere))
			if may == (a.status == 403) || a.status == 401 {
				t.Errorf("%s %s as %q: %d, allowed %v", rt.Method, rt.Pattern, role, a.status, may)
			}
		}
	}
}

// A misspelt parameter that is ignored would change what the call does. Probes of the
// public routes may add any parameter; an RPC has none.
func TestRoutes_AParameterThatNobodyKnowsIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	var made struct {
		BatchID string `json:"batch_id"`
	}
	b.post("/api/v1/batches", "{}").want(t, 201).into(t, &made)
	before := b.jobs.commands()
	for _, rt := range Routes() {
		if rt.Permission == public || rt.RPC {
			continue
		}
		path := strings.Replace(concrete(rt), "/batches/"+jobNumber(77).String(), "/batches/"+made.BatchID, 1)
		for _, query := range []string{"limmit=1", "confirm=true&limmit=1", "%zz"} {
			a := b.do(rt.Method, path+"?"+query, map[bool]string{true: "{}"}[rt.Method == "POST"])
			if want := map[bool]string{true: `"query"`, false: `"limmit"`}[query == "%zz"]; a.status != 400 || !strings.Contains(string(a.body), want) {
				t.Errorf("%s %s?%s: %d %s", rt.Method, rt.Pattern, query, a.status, a.body)
			}
		}
	}
	if calls := b.jobs.commands() - before; calls != 0 {
		t.Errorf("refused requests did %d things", calls)
	}
}

func TestRoutes_ForeignNamespaceLooksLikeNothing(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{})
	path := "/api/v1/enqueue"
	b.post(path, `{"queue":"q"}`, headersFor(t, signed(nsA, "admin"), path)...).want(t, 201)
	id := b.jobs.nth(1)
	for _, rt := range Routes() {
		if !strings.Contains(rt.Pattern, "{id}") {
			continue
		}
		ask := func(id string) answerOf {
			p := strings.ReplaceAll(rt.Pattern, "{id}", id)
			body := ""
			if rt.request == "MoveRequest" {
				body = `{"queue":"q"}` // What it wants to hear.
			}
			a := b.do(rt.Method, p, body, headersFor(t, signed(nsB, "admin"), p)...)
			a.body = []byte(strings.NewReplacer(a.header.Get(headerRequestID), "", id, "").Replace(string(a.body)))
			return a
		}
		foreign, random := ask(id), ask(jobNumber(99).String())
		if foreign.status != 404 || string(foreign.body) != string(random.body) {
			t.Errorf("%s %s: a foreign job answers %d %s, a random one %s", rt.Method, rt.Pattern, foreign.status, foreign.body, random.body)
		}
	}
	if b.jobs.stateOf(b.jobs.ids()[0]) != job.Pending {
		t.Error("the job was changed from another namespace")
	}
}

func TestSigned_WrongSignaturesAreRefused(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{})
	const path = "/api/v1/queues"
	good := signed(nsA, "viewer")
	b.do("GET", path, "", headersFor(t, good, path)...).want(t, 200)
	nowhere := good
	nowhere.NamespaceID = ""
	for name, headers := range map[string][]string{
		"another path":        headersFor(t, good, "/api/v1/info"),
		"without namespace":   headersFor(t, nowhere, path),
		"role added after":    append(headersFor(t, good, path), "X-Corvo-Grants", everything),
		"namespace exchanged": append(headersFor(t, good, path), "X-Corvo-Namespace-Id", nsB.String()),
		"proxy stream added":  append(headersFor(t, good, path), "X-Corvo-Proxy-Stream", "1"),
	} {
		if a := b.do("GET", path, "", headers...); a.status != 401 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	unknown := good
	unknown.NamespaceID = job.Namespace{15: 9}.String()
	b.do("GET", path, "", headersFor(t, unknown, path)...).want(t, 404)
}

// The proxy's clock or ours is wrong: that is not the caller's fault, and a client that
// gets 401 stops.
func TestSigned_ASignatureOfAnotherTimeIsTryAgain(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{})
	const path = "/api/v1/queues"
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		id := signed(nsA, "viewer")
		id.ExpiresAt = time.Now().Add(off)
		a := b.do("GET", path, "", headersFor(t, id, path)...)
		if a.status != 503 || !bytes.Contains(a.body, []byte(`"CLOCK_SKEW"`)) {
			t.Errorf("%s off: %d %s", off, a.status, a.body)
		}
		if got := a.header.Get(identity.HeaderOutcome); got != identity.OutcomeClock {
			t.Errorf("%s off: the proxy is told %q", off, got)
		}
		// Whoever changes it is told nothing.
		forged := append(headersFor(t, id, path), "X-Corvo-Grants", everything)
		if a := b.do("GET", path, "", forged...); a.status != 401 {
			t.Errorf("%s off and forged: %d %s", off, a.status, a.body)
		}
	}
}

// A proxy that follows another cell decided from another state.
func TestSigned_ACallForAnotherCellIsRefusedAndSaysSo(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{})
	const path = "/api/v1/queues"
	for cell, want := range map[string]string{"": "", inCell(): "", "cell_b": identity.OutcomeCell} {
		a := b.do("GET", path, "", append(headersFor(t, signed(nsA, "viewer"), path), identity.HeaderCell, cell)...)
		if refused := want != ""; refused != (a.status == 503 && bytes.Contains(a.body, []byte(`"WRONG_CELL"`))) || !refused && a.status != 200 {
			t.Errorf("%q: %d %s", cell, a.status, a.body)
		}
		if got := a.header.Get(identity.HeaderOutcome); got != want {
			t.Errorf("%q: the proxy is told %q", cell, got)
		}
	}
}

func TestSigned_CellPartsReachOnlyTheirRoutes(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{})
	id := identity.CellPrincipal("node-2", time.Now())
	for _, rt := range Routes() {
		if rt.Permission == public {
			continue
		}
		a := b.do(rt.Method, concrete(rt), "", append([]string{"Content-Type", "application/json"}, headersFor(t, id, concrete(rt))...)...)
		if rt.Process == (a.status == 403) {
			t.Errorf("%s %s by the cell: %d", rt.Method, rt.Pattern, a.status)
		}
	}
}

// keyTable is a Keys whose records a test can change.
type keyTable struct {
	mu   sync.Mutex // Guards keys and err.
	keys map[string]Key
	err  error
}

func (k *keyTable) LookupKey(id string) (Key, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, ok := k.keys[id]
	return key, ok, k.err
}

func (k *keyTable) change(id string, f func(*Key)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := k.keys[id]
	f(&key)
	k.keys[id] = key
}

func newKey(t testing.TB, kind apikey.Kind) apikey.Key {
	t.Helper()
	k, err := apikey.Generate(kind)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeyAuth_FailsClosed(t *testing.T) {
	t.Parallel()
	key, stranger, scim := newKey(t, apikey.DataPlane), newKey(t, apikey.DataPlane), newKey(t, apikey.SCIM)
	table := &keyTable{keys: map[string]Key{
		key.ID(): {
			Digests: [][sha256.Size]byte{{1}, key.Digest()}, Grants: granted("producer", "worker"),
			Namespaces: map[string]job.Namespace{"default": nsA, "other": nsB}, Default: "default",
		},
		scim.ID(): {Digests: [][sha256.Size]byte{scim.Digest()}, Grants: granted("admin"), Namespaces: map[string]job.Namespace{"default": nsA}, Default: "default"},
	}}
	b := newBench(t, benchOptions{auth: NewKeyAuth(table, time.Now)})
	try := func(header ...string) int { return b.post("/api/v1/enqueue", `{"queue":"q"}`, header...).status }
	text := key.Reveal()
	for name, row := range map[string]struct {
		header []string
		want   int
	}{
		"X-API-Key":           {[]string{"X-API-Key", text}, 201},
		"bearer":              {[]string{"Authorization", "bearer " + text}, 201},
		"header before token": {[]string{"X-API-Key", "nonsense", "Authorization", "Bearer " + text}, 401},
		"basic":               {[]string{"Authorization", "Basic " + text}, 401},
		"cookie":              {[]string{"Cookie", "corvo_api_key=" + text}, 201},
		"cookie last":         {[]string{"Authorization", "Bearer x", "Cookie", "corvo_api_key=" + text}, 401},
		"cookie from a page":  {[]string{"Cookie", "corvo_api_key=" + text, "Sec-Fetch-Site", "cross-site"}, 403},
		"key from a page":     {[]string{"X-API-Key", text, "Sec-Fetch-Site", "cross-site"}, 201},
		"unknown key":         {[]string{"X-API-Key", stranger.Reveal()}, 401},
		"mistyped":            {[]string{"X-API-Key", text[:len(text)-1]}, 401},
		"wrong kind":          {[]string{"X-API-Key", scim.Reveal()}, 401},
		"other namespace":     {[]string{"X-API-Key", text, "X-Corvo-Namespace", "other"}, 201},
		"unknown namespace":   {[]string{"X-API-Key", text, "X-Corvo-Namespace", "secret"}, 404},
		"forged roles":        {[]string{"X-Corvo-Grants", everything, "X-Corvo-Namespace-Id", nsA.String()}, 401},
	} {
		if got := try(row.header...); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
	if got := b.do("GET", "/api/v1/queues", "", "X-API-Key", text).status; got != 403 {
		t.Errorf("a producer lists queues: %d", got)
	}
	table.change(key.ID(), func(k *Key) { k.NotAfter = time.Now().Add(-time.Second) })
	if got := try("X-API-Key", text); got != 401 {
		t.Errorf("expired: %d", got)
	}
	table.change(key.ID(), func(k *Key) { k.NotAfter = time.Time{}; k.Revoked = true })
	if got := try("X-API-Key", text); got != 401 {
		t.Errorf("revoked: %d", got)
	}
	table.mu.Lock()
	table.err = fault.New(fault.Unavailable, "KEYS_STALE", "keys are stale")
	table.mu.Unlock()
	if got := try("X-API-Key", text); got != 503 {
		t.Errorf("stale store: %d", got)
	}
}

// A page of another origin may call with a key of its own, and read the headers that it
// needs; where no key is required, such a page gets no answer.
func TestServer_PagesOfOtherOriginsNeedAKeyOfTheirOwn(t *testing.T) {
	t.Parallel()
	page := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST"}
	b := newBench(t, benchOptions{Options: Options{OtherOrigins: true}})
	pre := b.do("OPTIONS", "/api/v1/enqueue", "", page...).want(t, 200)
	for header, names := range map[string][]string{
		"Access-Control-Allow-Origin":  {"*"},
		"Access-Control-Allow-Methods": {"PUT", "DELETE"},
		"Access-Control-Allow-Headers": {"X-API-Key", "X-Corvo-Namespace", "Idempotency-Key", "If-Match", "Traceparent", "X-Grpc-Web"},
		"Access-Control-Expose-Headers": {
			"ETag", "Idempotent-Replayed", "Grpc-Status", "Grpc-Message", "Server-Timing", "Retry-After", "Retry-After-Ms",
		},
	} {
		for _, name := range names {
			if !strings.Contains(pre.header.Get(header), name) {
				t.Errorf("%s: %q has no %s", header, pre.header.Get(header), name)
			}
		}
	}
	if a := b.post("/api/v1/enqueue", `{"queue":"q"}`, page...).want(t, 201); a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("answer: %v", a.header)
	}
	b = newBench(t, benchOptions{})
	if a := b.do("OPTIONS", "/api/v1/enqueue", "", page...); a.status != 405 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without keys: %d %v", a.status, a.header)
	}
}

// A job for a namespace that does not exist must not end up in the one that does.
func TestOpen_HasOneNamespaceAndNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for name, status := range map[string]int{"": 201, "default": 201, "staging": 404} {
		b.post("/api/v1/enqueue", `{"queue":"q"}`, "X-Corvo-Namespace", name).want(t, status)
	}
}

func TestKeyAuth_RevokedKeyLosesItsOpenStreams(t *testing.T) {
	t.Parallel()
	for _, pipelined := range []bool{false, true} {
		key := newKey(t, apikey.DataPlane)
		table := &keyTable{keys: map[string]Key{key.ID(): {
			Digests: [][sha256.Size]byte{key.Digest()}, Grants: granted("admin"),
			Namespaces: map[string]job.Namespace{"default": nsA}, Default: "default",
		}}}
		b := newBench(t, benchOptions{auth: NewKeyAuth(table, time.Now)})
		s := b.client(true).StreamLifecycle(t.Context())
		s.RequestHeader().Set("X-API-Key", key.Reveal())
		k := &talk{TB: t, s: s}
		k.ask(&frameIn{RequestId: 1, Pipelined: pipelined, Enqueues: enqueues("q")})
		table.change(key.ID(), func(k *Key) { k.Revoked = true })
		if !pipelined {
			k.send(&frameIn{RequestId: 2, Enqueues: enqueues("q")})
		}
		eventually.Returns(t, 3*time.Second, "the end of the stream", func() {
			if out, err := s.Receive(); err == nil {
				t.Errorf("pipelined %v: a revoked key is answered %v", pipelined, out)
			}
		})
		_ = s.CloseRequest()
		_ = s.CloseResponse()
	}
}

func TestStream_FramesAreHeldToTheRole(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{})
	open := func(role string) *talk {
		path := streamPath
		s := b.client(true).StreamLifecycle(t.Context())
		if err := newSigner(t).Sign(s.RequestHeader(), signed(nsA, role), path); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.CloseRequest(); _ = s.CloseResponse() })
		return &talk{TB: t, s: s}
	}
	producer, worker := open("producer"), open("worker")
	if out := producer.ask(&frameIn{RequestId: 1, Enqueues: enqueues("q")}); out.GetError() != "" {
		t.Errorf("producer enqueues: %v", out)
	}
	if out := producer.ask(&frameIn{RequestId: 2, FetchCount: 1, Queues: []string{"q"}}); !strings.HasPrefix(out.GetError(), "fetch: ") {
		t.Errorf("producer fetches: %v", out)
	}
	if out := worker.ask(&frameIn{RequestId: 1, Enqueues: enqueues("q")}); !strings.HasPrefix(out.GetError(), "enqueue: ") || len(out.GetEnqueuedJobIds()) != 0 {
		t.Errorf("worker enqueues: %v", out)
	}
	if out := worker.ask(&frameIn{RequestId: 2, FetchCount: 1, Queues: []string{"q"}}); len(out.GetJobs()) != 1 {
		t.Errorf("worker fetches: %v", out)
	}
}

func TestRPC_ARefusalBeforeTheMethodSpeaksTheDialect(t *testing.T) {
	t.Parallel()
	b := newCellBench(t, benchOptions{})
	for _, d := range dialects {
		_, err := b.client(d.http2, d.options...).Ack(t.Context(), connect.NewRequest(&corvov1.AckRequest{}))
		if connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s: %v", d.name, err)
		}
	}
	k := b.open(t.Context(), connect.WithGRPC())
	k.send(&frameIn{RequestId: 1})
	if _, err := k.s.Receive(); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("stream: %v", err)
	}
}

// Every call of every client fails while a leader's clock is off. The log says so, and
// how often, not each time.
func TestSigned_TheLogTellsOfAnotherTimeOnceInAWhile(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	now := time.Now()
	a := NewSigned(newSigner(t), func() time.Time { return now }, inCell, nil, slog.New(slog.NewTextHandler(&lines, nil)))
	id := signed(nsA, "viewer")
	id.ExpiresAt = now.Add(-time.Hour)
	ask := func() {
		r := httptest.NewRequest("GET", "/api/v1/queues", nil)
		h := headersFor(t, id, "/api/v1/queues")
		for i := 0; i < len(h); i += 2 {
			r.Header.Set(h[i], h[i+1])
		}
		if _, err := a.Authenticate(r); err == nil {
			t.Fatal("accepted")
		}
	}
	for range 1000 {
		ask()
	}
	now = now.Add(skewLogEvery)
	ask()
	if n := strings.Count(lines.String(), "level=WARN"); n != 2 || !strings.Contains(lines.String(), "calls=1000") {
		t.Errorf("%d lines:\n%s", n, lines.String())
	}
	now = now.Add(-8 * time.Hour) // Set right.
	ask()
	if n := strings.Count(lines.String(), "level=WARN"); n != 3 {
		t.Errorf("%d lines after the clock went back", n)
	}
}

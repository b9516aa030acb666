package ingress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// named answers with its name and what it saw.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Side", name)
		for _, h := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Corvo-Tenant", "Forwarded", "X-Real-Ip", "Cookie", "X-Request-Id", "Connection"} {
			w.Header().Set("Saw-"+h, r.Header.Get(h))
		}
		w.Header().Set("Saw-Host", r.Host)
	})
}

// serve starts a server for HTTP/1.1 and h2c on loopback.
func serve(t *testing.T, h http.Handler) (srv *http.Server, base string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	srv = &http.Server{Handler: h, Protocols: &p, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return srv, "http://" + ln.Addr().String()
}

func client(t *testing.T, h2 bool) *http.Client {
	t.Helper()
	var p http.Protocols
	p.SetHTTP1(!h2)
	p.SetUnencryptedHTTP2(h2)
	tr := &http.Transport{Protocols: &p}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func TestIngress_EveryPathHasOneSide(t *testing.T) {
	t.Parallel()
	d := New(named("data"), Options{Domain: "corvo.test", Control: named("control")})
	for _, c := range []struct{ host, path, want string }{
		{"corvo.test", "/", "control"},
		{"corvo.test", "/queues/emails", "control"},
		{"corvo.test", "/assets/app.js", "control"},
		{"corvo.test", "/corvo.cloud.v1.SignupService/Start", "control"},
		{"corvo.test", "/auth/oidc/callback", "control"},
		{"corvo.test", "/auth/oidc/tn_1/callback", "control"},
		{"127.0.0.1:8080", "/", "control"},
		{"app.corvo.test", "/", "control"},
		{"corvo.test", "/t", "data"},
		{"corvo.test", "/t/acme/api/v1/queues", "data"},
		{"corvo.test", "/t/acme", "data"},
		{"corvo.test", "/api/v1/queues", "data"},
		{"corvo.test", "/api", "data"},
		{"corvo.test", "/corvo.v1.WorkerService/Fetch", "data"},
		{"corvo.test", "/docs", "control"},
		{"corvo.test", "/openapi.json", "data"},
		{"corvo.test", "/healthz", "data"},
		{"corvo.test", "/readyz", "data"},
		{"corvo.test", "/mail", "control"},
		{"corvo.test", "/mail/messages", "control"},
		{"corvo.test", "/mailing", "control"},
		{"corvo.test", "/team", "control"},
		{"corvo.test", "/apis", "control"},
		// What has no side in public goes where it is refused.
		{"corvo.test", "/corvo.cell.v1.CellService/Apply", "data"},
		{"corvo.test", "/corvo.cloud.v2.X/Y", "data"},
		{"corvo.test", "/metrics", "data"},
		{"corvo.test", "/debug/pprof/", "data"},
		{"corvo.test", "/scim/v2/Users", "control"}, {"corvo.test", "/stripe/webhook", "control"}, {"acme.corvo.test", "/stripe/webhook", "data"}, {"corvo.test", "/internal", "data"}, {"corvo.test", "/internal/x", "data"},
		{"corvo.test", "//corvo.cloud.v1.X/Y", "data"},
		{"corvo.test", "/x/../t/acme", "data"},
		// A tenant's host has no console.
		{"acme.corvo.test", "/", "data"},
		{"acme.corvo.test:8080", "/corvo.cloud.v1.SignupService/Start", "data"},
		{"ACME.Corvo.Test.", "/", "data"},
		{"acme.corvo.test", "/mail", "data"},
		{"acme.corvo.test", "/auth/oidc/callback", "data"},
		{"acme.corvo.test", "/healthz", "data"},
		{"a.b.corvo.test", "/", "data"},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://x/", nil)
		r.Host, r.URL.Path = c.host, c.path
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if got := w.Header().Get("Side"); got != c.want {
			t.Errorf("%s%s went to %q, want %q", c.host, c.path, got, c.want)
		}
	}
}

func TestIngress_ReservedNamesAreNoTenants(t *testing.T) {
	t.Parallel()
	d := New(named("data"), Options{Domain: "corvo.test", Control: named("control")})
	for _, name := range []string{"app", "api", "www", "admin", "mail", "t", "docs", "status"} {
		r := httptest.NewRequest(http.MethodGet, "http://"+name+".corvo.test/", nil)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if got := w.Header().Get("Side"); got != "control" {
			t.Errorf("%s went to %q", name, got)
		}
	}
}

func TestIngress_WithoutASideTheProxyRefuses(t *testing.T) {
	t.Parallel()
	d := New(named("data"), Options{})
	for _, path := range []string{"/", "/mail", "/corvo.cloud.v1.X/Y"} {
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		if got := w.Header().Get("Side"); got != "data" {
			t.Errorf("%s went to %q", path, got)
		}
	}
}

func newCarrier(t *testing.T, to string) *Carrier {
	t.Helper()
	c, err := NewCarrier(to, CarrierOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// spoofed claims everything that a client may not say.
func spoofed(t *testing.T, base, path string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "console.example:8080"
	for name, v := range map[string]string{
		"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil", "X-Corvo-Tenant": "tn_x", "Forwarded": "for=6.6.6.6",
		"X-Real-Ip": "6.6.6.6", "Cookie": "corvo_session=s", "X-Request-Id": "mine", "Connection": "X-Forwarded-For",
	} {
		r.Header.Set(name, v)
	}
	return r
}

func TestIngress_TheControlPlaneSeesTheTrueClientAndItsCookie(t *testing.T) {
	t.Parallel()
	_, behind := serve(t, named("control"))
	carrier := newCarrier(t, behind)
	for shape, control := range map[string]http.Handler{"in one process": named("control"), "apart": carrier} {
		_, base := serve(t, New(named("data"), Options{Control: control}))
		resp, err := client(t, false).Do(spoofed(t, base, "/"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		for name, want := range map[string]string{
			"Side": "control", "Saw-Host": "console.example:8080", "Saw-Cookie": "corvo_session=s",
			"Saw-X-Forwarded-For": "127.0.0.1", "Saw-X-Forwarded-Proto": "http", "Saw-X-Forwarded-Host": "console.example:8080",
			"Saw-X-Corvo-Tenant": "", "Saw-Forwarded": "", "Saw-X-Real-Ip": "",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", shape, name, got, want)
			}
		}
		if id := resp.Header.Get("Saw-X-Request-Id"); !strings.HasPrefix(id, "req_") {
			t.Errorf("%s: request id %q", shape, id)
		}
	}
}

func TestCarrier_ADeadControlPlaneIsSaidInTheCallersLanguageAndTouchesNothingElse(t *testing.T) {
	t.Parallel()
	srv, behind := serve(t, named("control"))
	carrier := newCarrier(t, behind)
	_, base := serve(t, New(named("data"), Options{Control: carrier}))
	c := client(t, false)
	ask := func(method, path string, header ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	if resp, _ := ask("GET", "/"); resp.Header.Get("Side") != "control" {
		t.Fatal("the control plane was not reached while it lived")
	}
	_ = srv.Close()
	for name, q := range map[string]struct {
		method, path string
		header       []string
		kind, says   string
	}{
		"browser": {"GET", "/", []string{"Accept", "text/html,*/*"}, "text/html", "jobs and workers aren't affected"},
		"RPC":     {"POST", "/corvo.cloud.v1.X/Y", []string{"Content-Type", "application/json", "Connect-Protocol-Version", "1"}, "application/json", `"code":"unavailable"`},
		"script":  {"GET", "/anything", nil, "application/problem+json", "CONTROL_PLANE_UNAVAILABLE"},
	} {
		start := time.Now()
		resp, body := ask(q.method, q.path, q.header...)
		if resp.StatusCode != 503 || !strings.HasPrefix(resp.Header.Get("Content-Type"), q.kind) || !strings.Contains(body, q.says) || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s", name, resp.StatusCode, resp.Header, body)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s: answered after %v", name, took)
		}
	}
	if resp, _ := ask("GET", "/t/acme/api/v1/queues"); resp.Header.Get("Side") != "data" {
		t.Error("the data plane is gone with it")
	}
}

func TestCarrier_ALostAnswerToAWriteIsNotCalledNothing(t *testing.T) {
	t.Parallel()
	_, behind := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	carrier := newCarrier(t, behind)
	_, base := serve(t, New(named("data"), Options{Control: carrier}))
	for method, want := range map[string]string{"POST": "UNKNOWN_OUTCOME", "GET": "CONTROL_PLANE_UNAVAILABLE"} {
		r, err := http.NewRequestWithContext(t.Context(), method, base+"/x", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client(t, true).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 503 || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s %v", method, resp.StatusCode, body, err)
		}
	}
}

func TestIngress_StreamsPassAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	next, ended := make(chan string), make(chan struct{})
	stream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case text := <-next:
				_, _ = io.WriteString(w, text)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	_, behind := serve(t, stream)
	carrier := newCarrier(t, behind)
	_, base := serve(t, New(stream, Options{Control: carrier}))
	for _, path := range []string{"/t/acme/api/v1/events", "/corvo.cloud.v1.X/Watch"} {
		for _, h2 := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client(t, h2).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(resp.Body)
			for _, text := range []string{"data: 1\n", "data: 2\n"} {
				next <- text
				if got, err := lines.ReadString('\n'); err != nil || got != text {
					t.Errorf("%s, HTTP/2 %v: read %q, %v", path, h2, got, err)
				}
			}
			cancel()
			_ = resp.Body.Close()
			<-ended // Or it would take what the next stream is to tell.
		}
	}
}

func TestCarrier_OnlyBareAddresses(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "127.0.0.1:8080", "ftp://h:1", "http://", "http://u:p@h:1", "http://h:1/x", "http://h:1?x=1", "http://h:1\n"} {
		if _, err := NewCarrier(base, CarrierOptions{}); err == nil {
			t.Errorf("%q was accepted", base)
		}
	}
	if _, err := NewCarrier("https://h:1/", CarrierOptions{TLS: &tls.Config{MinVersion: tls.VersionTLS13}}); err != nil {
		t.Error(err)
	}
}

func TestCarrier_RequestsOnTheirWayAreBounded(t *testing.T) {
	t.Parallel()
	c := newCarrier(t, "http://127.0.0.1:1")
	for i := range 2 * carriedMax { // Each network has less than its share.
		if _, ref := c.slots.enter(fmt.Sprintf("10.%d.%d.1", i/256, i%256)); ref != nil {
			t.Fatalf("slot %d: %+v", i, ref)
		}
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != 503 || !strings.Contains(w.Body.String(), "OVERLOADED") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A few networks may take every slot, and the requests of all others come in nevertheless.
func TestCarrier_SomeNetworksLeaveTheOthersTheirWay(t *testing.T) {
	t.Parallel()
	c := newCarrier(t, "http://127.0.0.1:1")
	for i := range carriedMax {
		if _, ref := c.slots.enter(fmt.Sprintf("10.0.%d.%d", i/carriedNetworkMax, i%carriedNetworkMax)); ref != nil {
			t.Fatalf("slot %d: %+v", i, ref)
		}
	}
	if _, ref := c.slots.enter(fmt.Sprintf("10.0.%d.1", carriedMax/carriedNetworkMax-1)); ref == nil {
		t.Error("a network got more than it may have")
	}
	for range 10 {
		if _, ref := c.slots.enter("192.0.2.1"); ref != nil {
			t.Fatalf("another network: %+v", ref)
		}
	}
}

// One client's slow requests used to take every way to the control plane.
func TestCarrier_OneClientLeavesTheOthersTheirWay(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, carriedMax), make(chan struct{})
	_, behind := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-release
		}
	}))
	carrier := newCarrier(t, behind)
	call := func(from, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("X-Forwarded-For", from)
		w := httptest.NewRecorder()
		carrier.ServeHTTP(w, r)
		return w
	}
	var slow sync.WaitGroup
	for range carriedPeerMax {
		slow.Go(func() { call("2001:db8:1:2::7", "/slow") })
	}
	for range carriedPeerMax {
		<-arrived
	}
	w := call("2001:db8:1:2::8", "/fast")
	if w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "TOO_MANY_REQUESTS") {
		t.Errorf("the same client: %d %s", w.Code, w.Body)
	}
	if w := call("2001:db8:9:2::8", "/fast"); w.Code != 200 {
		t.Errorf("somebody else: %d %s", w.Code, w.Body)
	}
	for i := range carriedNetworkMax - carriedPeerMax {
		slow.Go(func() { call(fmt.Sprintf("2001:db8:1:%x::7", 16+i), "/slow") })
	}
	for range carriedNetworkMax - carriedPeerMax {
		<-arrived
	}
	if w := call("2001:db8:1:ffff::8", "/fast"); w.Code != 429 {
		t.Errorf("the same network: %d %s", w.Code, w.Body)
	}
	close(release)
	slow.Wait()
	if w := call("2001:db8:1:2::8", "/fast"); w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

// Over HTTP/2 a client may ask for much, read nothing of it, and look as if all were well.
func TestIngress_ClientsThatReadNothingLoseTheirWay(t *testing.T) {
	t.Parallel()
	var answering sync.WaitGroup
	arrived := make(chan struct{}, carriedPeerMax)
	_, behind := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			arrived <- struct{}{}
			_, _ = w.Write(make([]byte, 1<<20))
		}
	}))
	carrier := newCarrier(t, behind)
	control := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answering.Add(1)
		defer answering.Done()
		carrier.ServeHTTP(w, r)
	})
	_, base := serve(t, New(named("data"), Options{Control: control, StuckAfter: 500 * time.Millisecond}))
	faulttest.Unread(t, base, "/large", carriedPeerMax)
	for range carriedPeerMax {
		<-arrived
	}
	c := client(t, false)
	eventually.True(t, 10*time.Second, "the same client has its way again", func() bool {
		resp, err := c.Get(base + "/small")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode == 200
	})
	answering.Wait()
}

func TestCarrier_BodiesAreBounded(t *testing.T) {
	t.Parallel()
	_, behind := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		w.Header().Set("Read", strconv.FormatInt(n, 10))
		if err != nil {
			t.Error(err)
		}
	}))
	carrier := newCarrier(t, behind)
	_, base := serve(t, New(named("data"), Options{Control: carrier}))
	for name, q := range map[string]struct {
		body io.Reader
		want int
		read string
	}{
		"as large as may be":     {strings.NewReader(strings.Repeat("a", bodyBytesMax)), 200, strconv.Itoa(bodyBytesMax)},
		"announced too large":    {strings.NewReader(strings.Repeat("a", bodyBytesMax+1)), 413, ""},
		"unannounced, too large": {io.MultiReader(strings.NewReader(strings.Repeat("a", bodyBytesMax+1))), 413, ""},
		"unannounced":            {io.MultiReader(strings.NewReader("abc")), 200, "3"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/x", q.body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client(t, true).Do(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != q.want || resp.Header.Get("Read") != q.read {
			t.Errorf("%s: %d, read %q", name, resp.StatusCode, resp.Header.Get("Read"))
		}
	}
	// A client has its answer a moment before the carrier is done.
	eventually.True(t, 10*time.Second, "no bytes are counted", func() bool { return carrier.held.Load() == 0 })
}

// begun opens a connection, announces a body and sends one byte of it.
func begun(t *testing.T, base string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A client that sends a body slowly, or aborts it, blocks nobody, now or later.
func TestCarrier_BodiesThatNeverEndHinderNobody(t *testing.T) {
	t.Parallel()
	_, behind := serve(t, named("control"))
	carrier := newCarrier(t, behind)
	var entered atomic.Int64
	var under sync.WaitGroup
	_, base := serve(t, New(named("data"), Options{Control: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		under.Add(1)
		defer under.Done()
		entered.Add(1)
		carrier.ServeHTTP(w, r)
	})}))
	const slow = carriedMax + 10
	for range slow {
		conn := begun(t, base)
		defer func() { _ = conn.Close() }()
	}
	eventually.True(t, 20*time.Second, "all requests come in", func() bool { return entered.Load() >= slow })
	resp, err := client(t, false).Post(base+"/x", "application/json", io.MultiReader(strings.NewReader("{}")))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("beside %d slow bodies: %d", slow, resp.StatusCode)
	}
}

func TestCarrier_ABodyThatBreaksOffIsNoLongerCounted(t *testing.T) {
	t.Parallel()
	carrier := newCarrier(t, "http://127.0.0.1:1")
	broken := io.MultiReader(strings.NewReader(strings.Repeat("a", bodyBytesMax/2)), iotest.ErrReader(io.ErrUnexpectedEOF))
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("ended with %v", p)
			}
		}()
		carrier.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/x", broken))
	}()
	if held := carrier.held.Load(); held != 0 {
		t.Errorf("%d bytes are counted for ever", held)
	}
}

func TestCarrier_LargeBodiesTogetherAreBounded(t *testing.T) {
	t.Parallel()
	_, behind := serve(t, named("control"))
	carrier := newCarrier(t, behind)
	carrier.held.Store(heldBytesMax)
	for size, want := range map[int]int{freeBytes / 2: 200, bodyBytesMax / 2: 503} {
		w := httptest.NewRecorder()
		carrier.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/x", strings.NewReader(strings.Repeat("a", size))))
		if w.Code != want {
			t.Errorf("%d bytes: %d, want %d", size, w.Code, want)
		}
	}
	if held := carrier.held.Load(); held != heldBytesMax {
		t.Errorf("%d bytes are counted, want %d", held, heldBytesMax)
	}
}

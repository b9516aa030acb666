package cloud

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

func managementKey(t *testing.T) apikey.Key {
	t.Helper()
	k, err := apikey.Generate(apikey.Management)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// newClient speaks to a handler, with waits too short to notice.
func newClient(t *testing.T, h http.Handler, change func(*Options)) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	o := Options{
		Endpoint: srv.URL, Token: managementKey(t).Reveal(), MaxRetries: 3,
		RequestTimeout: 5 * time.Second, OperationTimeout: 20 * time.Second, UserAgent: "test",
	}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c.patience.first, c.patience.most, c.patience.poll = time.Millisecond, 2*time.Millisecond, 2*time.Millisecond
	return c
}

// namespaces answers GetNamespace by a function.
type namespaces struct {
	cloudv1connect.UnimplementedNamespaceServiceHandler
	get func(n int64) error
	n   atomic.Int64
}

func (s *namespaces) GetNamespace(context.Context, *connect.Request[cloudv1.GetNamespaceRequest]) (*connect.Response[cloudv1.GetNamespaceResponse], error) {
	if err := s.get(s.n.Add(1)); err != nil {
		return nil, err
	}
	return connect.NewResponse(&cloudv1.GetNamespaceResponse{Namespace: &cloudv1.Namespace{Id: "ns_1"}}), nil
}

func (s *namespaces) handler() http.Handler {
	_, h := cloudv1connect.NewNamespaceServiceHandler(s)
	return h
}

// faulty is a service that has every namespace, behind something that misbehaves.
func faulty(fate func(call string, n int) faulttest.Fate) *faulttest.Peer {
	p := faulttest.New((&namespaces{get: func(int64) error { return nil }}).handler(), nil)
	p.Decide(fate)
	return p
}

func ask(ctx context.Context, c *Client) error {
	_, err := c.Namespaces().GetNamespace(ctx, connect.NewRequest(&cloudv1.GetNamespaceRequest{Namespace: "ns_1"}))
	return err
}

func TestNew_RefusesWhatWouldLeakTheToken(t *testing.T) {
	t.Parallel()
	mg := managementKey(t)
	dp, err := apikey.Generate(apikey.DataPlane)
	if err != nil {
		t.Fatal(err)
	}
	tmp, err := apikey.Generate(apikey.Temporary)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		o      Options
		option string // Empty: accepted.
	}{
		{"https", Options{Endpoint: "https://app.corvo.cloud"}, ""},
		{"loopback name", Options{Endpoint: "http://localhost:8080"}, ""},
		{"loopback subdomain", Options{Endpoint: "http://demo.localhost:8080/"}, ""},
		{"loopback v4", Options{Endpoint: "http://127.8.8.8:1"}, ""},
		{"loopback v6", Options{Endpoint: "http://[::1]:1"}, ""},
		{"clear text asked for", Options{Endpoint: "http://10.0.0.1", AllowHTTP: true}, ""},
		{"clear text", Options{Endpoint: "http://10.0.0.1"}, "endpoint"},
		{"clear text to a name that only looks local", Options{Endpoint: "http://localhost.example.com"}, "endpoint"},
		{"other scheme", Options{Endpoint: "ftp://localhost"}, "endpoint"},
		{"no scheme", Options{Endpoint: "app.corvo.cloud"}, "endpoint"},
		{"credentials", Options{Endpoint: "https://a:b@app.corvo.cloud"}, "endpoint"},
		{"query", Options{Endpoint: "https://app.corvo.cloud?x=1"}, "endpoint"},
		{"none", Options{}, "endpoint"},
		{"tenant URL", Options{Endpoint: "https://app.corvo.cloud/t/acme"}, "endpoint"},
		{"no token", Options{Endpoint: "https://x", Token: "-"}, "token"},
		{"jobs key", Options{Endpoint: "https://x", Token: dp.Reveal()}, "token"},
		{"temporary key", Options{Endpoint: "https://x", Token: tmp.Reveal()}, ""},
		{"no token and none needed", Options{Endpoint: "https://x", Token: "-", Anonymous: true}, ""},
		{"cut off token", Options{Endpoint: "https://x", Token: mg.Reveal()[:60]}, "token"},
		{"bad authorities", Options{Endpoint: "https://x", CAPEM: "nonsense"}, "ca_pem"},
	} {
		switch c.o.Token {
		case "":
			c.o.Token = mg.Reveal()
		case "-":
			c.o.Token = ""
		}
		_, err := New(c.o)
		var oe *OptionError
		switch {
		case c.option == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.option != "" && (!errors.As(err, &oe) || oe.Option != c.option):
			t.Errorf("%s: got %v, want a wrong %s", c.name, err, c.option)
		}
		if err != nil && (strings.Contains(err.Error(), mg.Reveal()[21:40]) || strings.Contains(err.Error(), dp.Reveal()[21:40])) {
			t.Errorf("%s: the error carries the secret", c.name)
		}
	}
}

func TestCall_WhatFailsForAMomentIsRepeated(t *testing.T) {
	t.Parallel()
	limited := connect.NewError(connect.CodeResourceExhausted, errors.New("slower"))
	limited.Meta().Set("Retry-After", "1")
	for _, c := range []struct {
		name  string
		err   error
		calls int64
	}{
		{"unavailable", connect.NewError(connect.CodeUnavailable, errors.New("soon")), 3},
		{"limit with a time", limited, 3},
		{"limit for good", connect.NewError(connect.CodeResourceExhausted, errors.New("plan")), 1},
		{"not found", connect.NewError(connect.CodeNotFound, errors.New("none")), 1},
		{"denied", connect.NewError(connect.CodePermissionDenied, errors.New("no")), 1},
		{"internal", connect.NewError(connect.CodeInternal, errors.New("bug")), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &namespaces{get: func(n int64) error {
				if n < 3 {
					return c.err
				}
				return nil
			}}
			err := ask(t.Context(), newClient(t, s.handler(), nil))
			if (err == nil) != (c.calls == 3) || s.n.Load() != c.calls {
				t.Fatalf("after %d calls: %v", s.n.Load(), err)
			}
		})
	}
}

// A page, another API, or nothing of that name: not Corvo Cloud, and asking again is no use.
func TestCall_AnotherServerIsCalledSo(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 301, 400, 401, 403, 404, 405, 500, 501} {
		var calls atomic.Int64
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>hello</html>")
		}), nil)
		if err := ask(t.Context(), c); !Is(err, Elsewhere) || calls.Load() != 1 {
			t.Errorf("%d: %v after %d calls", status, err, calls.Load())
		}
	}
}

func TestCall_RetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	var came []time.Time
	srv := faulty(func(_ string, n int) (f faulttest.Fate) {
		came = append(came, time.Now())
		if n == 1 { // As something before the service does it.
			f.Status, f.Header = http.StatusTooManyRequests, map[string]string{"Retry-After": "1"}
		}
		return f
	})
	if err := ask(t.Context(), newClient(t, srv, nil)); err != nil {
		t.Fatal(err)
	}
	if waited := came[1].Sub(came[0]); waited < time.Second {
		t.Fatalf("came back after %s, asked for 1s", waited)
	}
}

func TestCall_GivesUpAtOnceIfTheWaitWouldMissTheDeadline(t *testing.T) {
	t.Parallel()
	limited := connect.NewError(connect.CodeResourceExhausted, errors.New("slower"))
	limited.Meta().Set("Retry-After", "60")
	s := &namespaces{get: func(int64) error { return limited }}
	c := newClient(t, s.handler(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began := time.Now()
	if err := ask(ctx, c); !Is(err, Exhausted) || time.Since(began) > 5*time.Second {
		t.Fatalf("after %s: %v", time.Since(began), err)
	}
}

func TestCall_ConnectionThatBreaksIsRepeated(t *testing.T) {
	t.Parallel()
	srv := faulty(func(_ string, n int) faulttest.Fate { return faulttest.Fate{Lose: n < 3} })
	if err := ask(t.Context(), newClient(t, srv, nil)); err != nil {
		t.Fatal(err)
	}
}

// A token counts once: an exchange whose answer was lost may have been made, and a second one
// would only be refused.
func TestCall_AnExchangeIsRepeatedOnlyIfItWasNotMade(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fate  faulttest.Fate
		calls int64
	}{
		{"lost answer", faulttest.Fate{Lose: true}, 1},
		{"proxy without an answer", faulttest.Fate{Status: http.StatusGatewayTimeout}, 1},
		{"answer cut off", faulttest.Fate{Half: true}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, h := cloudv1connect.NewTrustServiceHandler(&exchange{})
			p := faulttest.New(h, nil)
			p.Decide(func(string, int) faulttest.Fate { return c.fate })
			client := newClient(t, p, nil)
			_, err := client.Trusts().ExchangeToken(t.Context(), connect.NewRequest(&cloudv1.ExchangeTokenRequest{Tenant: "acme"}))
			if n := p.Calls()[""]; err == nil || n != int(c.calls) {
				t.Fatalf("%d calls, want %d: %v", n, c.calls, err)
			}
		})
	}
	t.Run("nobody listens yet", func(t *testing.T) {
		t.Parallel()
		var dials atomic.Int64
		_, h := cloudv1connect.NewTrustServiceHandler(&exchange{})
		client := newClient(t, h, nil)
		next := client.http.Transport
		client.http.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if dials.Add(1) < 3 {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			return next.RoundTrip(r)
		})
		if _, err := client.Trusts().ExchangeToken(t.Context(), connect.NewRequest(&cloudv1.ExchangeTokenRequest{Tenant: "acme"})); err != nil || dials.Load() != 3 {
			t.Fatalf("after %d calls: %v", dials.Load(), err)
		}
	})
}

type exchange struct {
	cloudv1connect.UnimplementedTrustServiceHandler
}

func (*exchange) ExchangeToken(context.Context, *connect.Request[cloudv1.ExchangeTokenRequest]) (*connect.Response[cloudv1.ExchangeTokenResponse], error) {
	return connect.NewResponse(&cloudv1.ExchangeTokenResponse{KeyId: "key_1"}), nil
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestCall_ServiceThatHangsIsLeftAfterTheRequestTimeout(t *testing.T) {
	t.Parallel()
	srv := faulty(func(_ string, n int) faulttest.Fate { return faulttest.Fate{Hang: n == 1} })
	c := newClient(t, srv, func(o *Options) { o.RequestTimeout = 100 * time.Millisecond })
	if err := ask(t.Context(), c); err != nil || srv.Calls()[""] != 2 {
		t.Fatalf("after %v calls: %v", srv.Calls(), err)
	}
}

func TestCall_RefusalKeepsRequestIDPermissionFieldsAndHelp(t *testing.T) {
	t.Parallel()
	s := &namespaces{get: func(int64) error {
		e := connect.NewError(connect.CodePermissionDenied, errors.New("your role is viewer"))
		d, err := connect.NewErrorDetail(&cloudv1.Refusal{
			Reason: "DENIED", RequestId: "req-7", Help: "ask an owner", Fields: []*cloudv1.RefusedField{{Name: "name", Problem: "too long"}},
		})
		if err != nil {
			return err
		}
		e.AddDetail(d)
		return e
	}}
	err := ask(t.Context(), newClient(t, s.handler(), nil))
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if e.Kind != Denied || e.Call != "GetNamespace" || e.Permission != "" || e.RequestID != "req-7" || e.Help != "ask an owner" ||
		e.Reason != "DENIED" || e.Message != "your role is viewer" || len(e.Fields) != 1 || e.Fields[0] != (Field{"name", "too long"}) {
		t.Fatalf("%+v", e)
	}
}

func TestCall_TokenDoesNotFollowARedirect(t *testing.T) {
	t.Parallel()
	var stolen atomic.Bool
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen.Store(r.Header.Get("Authorization") != "") }))
	t.Cleanup(thief.Close)
	c := newClient(t, http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect), nil)
	if err := ask(t.Context(), c); err == nil || stolen.Load() {
		t.Fatalf("err %v, stolen %v", err, stolen.Load())
	}
}

func TestWait_GoesOnThroughOutagesAndEndsWithTheContext(t *testing.T) {
	t.Parallel()
	c := newClient(t, http.NotFoundHandler(), nil)
	var n int
	err := c.Wait(t.Context(), func(context.Context) (bool, error) {
		if n++; n < 20 {
			return false, &Error{Kind: Unavailable, transient: true}
		}
		return true, nil
	})
	if err != nil || n != 20 {
		t.Fatalf("after %d: %v", n, err)
	}
	if err := c.Wait(t.Context(), func(context.Context) (bool, error) { return false, &Error{Kind: NotFound} }); !Is(err, NotFound) {
		t.Fatalf("a refusal for good: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Wait(ctx, func(context.Context) (bool, error) { return false, nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("deadline: %v", err)
	}
}

// identified answers GetCurrentIdentity, so that queue calls find the tenant URL.
type identified struct {
	cloudv1connect.UnimplementedAuthServiceHandler
	url  string
	asks atomic.Int64
}

func (s *identified) GetCurrentIdentity(context.Context, *connect.Request[cloudv1.GetCurrentIdentityRequest]) (*connect.Response[cloudv1.GetCurrentIdentityResponse], error) {
	s.asks.Add(1)
	return connect.NewResponse(&cloudv1.GetCurrentIdentityResponse{Tenants: []*cloudv1.TenantAccess{{
		TenantId: "tn_1", Tenant: "acme", TenantUrl: s.url, Roles: []string{"admin"},
		Permissions: []cloudv1.Permission{cloudv1.Permission_PERMISSION_KEY_CREATE},
	}}}), nil
}

func TestIdentity_IsAskedOnceAndItsURLIsChecked(t *testing.T) {
	t.Parallel()
	s := &identified{url: "http://127.0.0.1:1/t/acme"}
	_, h := cloudv1connect.NewAuthServiceHandler(s)
	c := newClient(t, h, nil)
	for range 3 {
		id, err := c.Identity(t.Context())
		if err != nil || id.TenantID != "tn_1" || id.Roles[0] != "admin" || id.Permissions[0] != "key.create" {
			t.Fatalf("%+v %v", id, err)
		}
	}
	if s.asks.Load() != 1 {
		t.Fatalf("asked %d times", s.asks.Load())
	}
	bad := &identified{url: "http://10.0.0.1/t/acme"}
	_, h = cloudv1connect.NewAuthServiceHandler(bad)
	if _, err := newClient(t, h, nil).Identity(t.Context()); err == nil {
		t.Fatal("a tenant URL in clear text was accepted")
	}
}

func TestQueue_CallsGoToTheTenantURLWithTheNamespace(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	tenant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Corvo-Namespace") != "jobs" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer corvo_mg_") {
			t.Errorf("headers %v", r.Header)
		}
		if n.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		switch r.Method + " " + r.URL.RequestURI() {
		case "GET /t/acme/api/v1/queues/mail":
			_, _ = w.Write([]byte(`{"name":"mail","paused":true,"max_concurrency":3,"rate_limit":5,"rate_window_ms":1000,"pending":7}`))
		case "PUT /t/acme/api/v1/queues/mail":
			body, _ := io.ReadAll(r.Body)
			if got := string(body); got != `{"throttle":{"limit":5,"window_ms":1000}}` {
				t.Errorf("body %s", got)
			}
			_, _ = w.Write([]byte(`{"name":"mail","paused":false}`))
		case "DELETE /t/acme/api/v1/queues/mail?confirm=true":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"no such queue","code":"NOT_FOUND"}`))
		case "GET /t/acme/api/v1/queues/denied":
			w.Header().Set("X-Request-Id", "req-9")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"error":"not allowed","code":"FORBIDDEN","fields":[{"field":"name","message":"no"}]}`))
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}))
	t.Cleanup(tenant.Close)
	_, h := cloudv1connect.NewAuthServiceHandler(&identified{url: tenant.URL + "/t/acme"})
	c := newClient(t, h, nil)
	q, err := c.GetQueue(t.Context(), "jobs", "mail")
	if err != nil || !q.Paused || q.MaxConcurrency != 3 || q.RateLimit != 5 || q.RateWindowMS != 1000 {
		t.Fatalf("%+v %v", q, err)
	}
	if _, err := c.PutQueue(t.Context(), "jobs", "mail", "", wire.QueueRequest{Throttle: &wire.QueueThrottle{Limit: 5, WindowMS: 1000}}); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteQueue(t.Context(), "jobs", "mail"); err != nil {
		t.Fatalf("deleting none: %v", err)
	}
	_, err = c.GetQueue(t.Context(), "jobs", "denied")
	var e *Error
	if !errors.As(err, &e) || e.Kind != Denied || e.RequestID != "req-9" || e.Permission != "queue.read" || len(e.Fields) != 1 {
		t.Fatalf("%+v", err)
	}
}

// A page that isn't Corvo's says nothing about a queue: it is neither gone nor deleted.
func TestQueue_AnotherServersAnswerIsNoQueue(t *testing.T) {
	t.Parallel()
	for status, body := range map[int]string{
		http.StatusNotFound: "<html>default backend - 404</html>", http.StatusUnauthorized: `{"error":"sign in"}`, http.StatusOK: "<html>hello</html>", http.StatusFound: "",
	} {
		tenant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(tenant.Close)
		_, h := cloudv1connect.NewAuthServiceHandler(&identified{url: tenant.URL + "/t/acme"})
		c := newClient(t, h, nil)
		if _, err := c.GetQueue(t.Context(), "jobs", "mail"); !Is(err, Elsewhere) {
			t.Errorf("%d: reading it: %v", status, err)
		}
		if err := c.DeleteQueue(t.Context(), "jobs", "mail"); !Is(err, Elsewhere) {
			t.Errorf("%d: deleting it: %v", status, err)
		}
	}
}

// Whatever stands between the provider and the service may answer whatever it likes.
func FuzzFromProblem(f *testing.F) {
	f.Add(403, "req-1", "1", []byte(`{"error":"no","code":"FORBIDDEN","fields":[{"field":"a","message":"b"}],"retry_after_ms":5}`))
	f.Add(502, "", "Wed, 21 Oct 2015 07:28:00 GMT", []byte("<html>bad gateway</html>"))
	f.Add(429, "", "-1", []byte(`{"error":"","retry_after_ms":-9223372036854775808}`))
	f.Add(500, "", "99999999999999999999", []byte(nil))
	f.Fuzz(func(t *testing.T, status int, id, after string, body []byte) {
		res := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"X-Request-Id": {id}, "Retry-After": {after}}}
		err := fromProblem("GetQueue", res, body)
		var e *Error
		if !errors.As(err, &e) || e.Call != "GetQueue" || e.RetryAfter < 0 {
			t.Fatalf("%+v", err)
		}
		if d := (patience{first: time.Millisecond, most: time.Second}).delay(3, e.RetryAfter); d < 0 || d > retryAfterMax+time.Second {
			t.Fatalf("a wait of %s", d)
		}
	})
}

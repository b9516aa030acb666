package acceptance

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// faultProxy stands between the provider and the service, on both of its addresses, and
// does to calls what networks and busy servers do.
type faultProxy struct {
	URL string

	target string

	mu     sync.Mutex
	calls  map[string]int                     // Guarded by mu.
	decide func(call string, n int) fate      // Guarded by mu; nil lets everything pass.
	edit   func(call string, m []byte) []byte // Guarded by mu; changes an answer of the control API.
	after  func(call string, status int)      // Guarded by mu; runs before the answer is passed on.
}

// fate is what becomes of a call.
type fate struct {
	// status refuses instead of asking the service; 0 asks it.
	status     int
	retryAfter int // Seconds.
	// lose breaks the connection after the service has answered.
	lose bool
}

func startFaultProxy(t *testing.T, s *service) *faultProxy {
	t.Helper()
	m := &faultProxy{target: s.endpoint(), calls: map[string]int{}}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	m.URL = srv.URL
	return m
}

func (m *faultProxy) set(f func(m *faultProxy)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = map[string]int{}
	f(m)
}

func (m *faultProxy) count(call string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[call]
}

// callOf is the method's name, or PUT queue.
func callOf(r *http.Request) string {
	if strings.Contains(r.URL.Path, "/api/v1/queues/") {
		return r.Method + " queue"
	}
	return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
}

func (m *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := callOf(r)
	m.mu.Lock()
	m.calls[call]++
	n, decide, edit, after := m.calls[call], m.decide, m.edit, m.after
	m.mu.Unlock()
	var f fate
	if decide != nil {
		f = decide(call, n)
	}
	if f.status != 0 {
		if f.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
		}
		w.WriteHeader(f.status)
		return
	}
	status, header, body, err := m.ask(r)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if after != nil {
		after(call, status)
	}
	if f.lose {
		panic(http.ErrAbortHandler)
	}
	if status == http.StatusOK && call == "GetCurrentIdentity" {
		body = m.redirectTenant(body)
	}
	if status == http.StatusOK && edit != nil {
		body = edit(call, body)
	}
	for k, v := range header {
		if k != "Content-Length" {
			w.Header()[k] = v
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // A client that left misses nothing.
}

func (m *faultProxy) ask(r *http.Request) (status int, header http.Header, body []byte, err error) {
	asked, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, nil, err
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, m.target+r.URL.RequestURI(), bytes.NewReader(asked))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header = r.Header.Clone()
	req.Header.Del("Accept-Encoding") // So that answers can be read here.
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, nil, nil, err
	}
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, res.Header, body, errors.Join(err, res.Body.Close())
}

// redirectTenant makes queue calls come here, too.
func (m *faultProxy) redirectTenant(body []byte) []byte {
	return rewrite(body, &cloudv1.GetCurrentIdentityResponse{}, func(res *cloudv1.GetCurrentIdentityResponse) {
		for _, t := range res.GetTenants() {
			if u, err := url.Parse(t.GetTenantUrl()); err == nil {
				t.TenantUrl = m.URL + u.Path
			}
		}
	})
}

// rewrite changes an answer; one that is not what was expected stays as it is, and the
// test that relies on the change fails by itself.
func rewrite[M proto.Message](body []byte, m M, change func(M)) []byte {
	if err := proto.Unmarshal(body, m); err != nil {
		return body
	}
	change(m)
	out, err := proto.Marshal(m)
	if err != nil {
		return body
	}
	return out
}

package acceptance

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

// faultProxy stands between the provider and the service, on both of its addresses.
type faultProxy struct {
	*faulttest.Peer
	URL string
}

func startFaultProxy(t *testing.T, s *service) *faultProxy {
	t.Helper()
	target, err := url.Parse(s.endpoint())
	if err != nil {
		t.Fatal(err)
	}
	carry := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Accept-Encoding") // So that answers can be read here.
	}}
	m := &faultProxy{}
	home := faulttest.New(carry, callOf) // Makes queue calls come here, too.
	home.Decide(func(call string, _ int) (f faulttest.Fate) {
		if call == "GetCurrentIdentity" {
			f.Edit = edited(&cloudv1.GetCurrentIdentityResponse{}, m.redirectTenants)
		}
		return f
	})
	m.Peer = faulttest.New(home, callOf)
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	m.URL = srv.URL
	return m
}

// callOf is the method's name, or PUT queue.
func callOf(r *http.Request) string {
	if strings.Contains(r.URL.Path, "/api/v1/queues/") {
		return r.Method + " queue"
	}
	return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
}

func (m *faultProxy) redirectTenants(res *cloudv1.GetCurrentIdentityResponse) {
	for _, t := range res.GetTenants() {
		if u, err := url.Parse(t.GetTenantUrl()); err == nil {
			t.TenantUrl = m.URL + u.Path
		}
	}
}

// edited changes a successful response; an unexpected one stays as it is, and the
// test that relies on the change fails by itself.
func edited[M proto.Message](m M, change func(M)) func(int, []byte) []byte {
	return func(status int, body []byte) []byte {
		if status != http.StatusOK || proto.Unmarshal(body, m) != nil {
			return body
		}
		change(m)
		if out, err := proto.Marshal(m); err == nil {
			return out
		}
		return body
	}
}

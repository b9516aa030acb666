package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

func TestAddress_EveryFormReachesTheSameTenant(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	for _, c := range []struct{ name, host, path, url string }{
		{"host", "acme." + testDomain, "/api/v1/queues", "http://acme." + testDomain},
		{"host with port, any case", "ACME.Corvo.Test:8443", "/api/v1/queues", "http://ACME.Corvo.Test:8443"},
		{"host with final dot", "acme." + testDomain + ".", "/api/v1/queues", "http://acme." + testDomain + "."},
		{"path", "", "/t/acme/api/v1/queues", r.base + "/t/acme"},
		{"host and path", "acme." + testDomain, "/t/acme/api/v1/queues", "http://acme." + testDomain + "/t/acme"},
		{"bare", "", "/api/v1/queues", r.base},
		{"reserved label", "api." + testDomain, "/api/v1/queues", "http://api." + testDomain},
		{"bare domain", testDomain, "/api/v1/queues", "http://" + testDomain},
	} {
		for _, client := range []*http.Client{r.http1, r.h2c} {
			got := r.ask(client, "GET", c.path+"?a=b", "", func(req *http.Request) {
				withKey(r.acme.key)(req)
				if c.host != "" {
					req.Host = c.host
				}
			})
			id := got.seen.Identity
			if got.status != 200 || got.seen.Path != "/api/v1/queues" || got.seen.Query != "a=b" || id.TenantURL != c.url {
				t.Errorf("%s: %d %+v", c.name, got.status, got.seen)
			}
			if id.TenantID != r.acme.id || id.TenantName != "acme" || id.Namespace != "default" || id.Principal != r.acme.key.ID() ||
				id.Peer != "127.0.0.1" || !id.ProxyStream || id.PayloadBytesMax != 1000 || id.Grants.All != celladmin.RoleSet([]string{"admin"}) {
				t.Errorf("%s: identity %+v", c.name, id)
			}
			if got.header.Get(headerRequestID) != id.RequestID || id.RequestID == "" {
				t.Errorf("%s: request id %q, node saw %q", c.name, got.header.Get(headerRequestID), id.RequestID)
			}
		}
	}
}

func TestAddress_DisagreementLooksTheSameWhetherTheTenantExistsOrNot(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	body := ""
	for _, c := range []struct{ host, path string }{
		{"beta." + testDomain, "/api/v1/queues"},
		{"nosuch." + testDomain, "/api/v1/queues"},
		{"a.b." + testDomain, "/api/v1/queues"},
		{"", "/t/beta/api/v1/queues"},
		{"", "/t/nosuch/api/v1/queues"},
		{"acme." + testDomain, "/t/beta/api/v1/queues"},
		{"beta." + testDomain, "/t/acme/api/v1/queues"},
		{"api." + testDomain, "/t/beta/api/v1/queues"},
	} {
		got := r.ask(r.http1, "GET", c.path, "", func(req *http.Request) {
			withKey(r.acme.key)(req)
			if c.host != "" {
				req.Host = c.host
			}
		})
		text := strings.ReplaceAll(got.body, got.header.Get(headerRequestID), "")
		if body == "" {
			body = text
		}
		if got.status != 403 || text != body {
			t.Errorf("%s%s: %d %s", c.host, c.path, got.status, got.body)
		}
	}
	if n := r.up[0].served.Load(); n != 0 {
		t.Errorf("%d requests reached the node", n)
	}
}

func TestHeaders_NothingFromOutsideIsBelieved(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	forged := http.Header{
		"X-Corvo-Tenant": {r.beta.id}, "X-Corvo-Tenant-Name": {"beta"}, "X-Corvo-Namespace-Id": {"ns_x"},
		"X-Corvo-Principal": {"cell:node"}, "X-Corvo-Grants": {"____________________9w"}, "X-Corvo-Peer": {"10.0.0.1"},
		"X-Corvo-Tenant-Url": {"http://evil"}, "X-Corvo-Payload-Max": {"999999999"}, "X-Corvo-Request-Id": {"mine"},
		"X-Corvo-Expires": {"99999999999"}, "X-Corvo-Proxy-Stream": {"1"}, "X-Corvo-Signature": {"AAAA"},
		"X-Corvo-Forwarded": {"1"}, "X-Corvo-Leader-Node": {"evil"}, "X-Corvo-Saml-Subject": {"root"},
		"X_corvo_tenant": {r.beta.id}, "X-Forwarded-For": {"10.9.9.9"}, "X-Forwarded-Host": {"beta." + testDomain},
		"X-Forwarded-Proto": {"https"}, "X-Real-Ip": {"10.9.9.9"}, "Forwarded": {"for=10.9.9.9"},
		"X-Request-Id": {"mine"}, "Cookie": {"a=b"}, "Expect": {"100-continue"},
		// Asks to drop what the proxy adds.
		"Connection": {"X-Corvo-Tenant, X-Corvo-Signature, X-Corvo-Grants, Te"}, "Keep-Alive": {"1"},
		"Upgrade": {"h2c"}, "Http2-Settings": {"AAMAAABkAARAAAAAAAIAAAAA"}, "Proxy-Authorization": {"x"},
	}
	for _, at := range []struct{ host, path string }{
		{"acme." + testDomain, "/api/v1/enqueue"}, {"", "/t/acme/api/v1/enqueue"}, {"", "/api/v1/enqueue"},
	} {
		for _, client := range []*http.Client{r.http1, r.h2c} {
			got := r.ask(client, "POST", at.path, `{"queue":"q"}`, func(req *http.Request) {
				for k, v := range forged {
					h1only := k == "Connection" || k == "Keep-Alive" || k == "Upgrade" || k == "Http2-Settings"
					if client == r.http1 || !h1only {
						req.Header[k] = v
					}
				}
				req.Header.Set("X-Corvo-Index", "7")
				req.Header.Set("X-Corvo-Client-Name", "corvo-go")
				withKey(r.acme.key)(req)
				if at.host != "" {
					req.Host = at.host
				}
			})
			id := got.seen.Identity
			if got.status != 200 || id.TenantID != r.acme.id || id.Principal != r.acme.key.ID() || id.Peer != "127.0.0.1" ||
				id.PayloadBytesMax != 1000 || id.RequestID == "mine" || id.Grants.All != celladmin.RoleSet([]string{"admin"}) {
				t.Fatalf("%d %+v %s", got.status, id, got.body)
			}
			h := got.seen.Header
			for name := range h {
				switch {
				case name == "X-Corvo-Index" || name == "X-Corvo-Client-Name":
				case strings.HasPrefix(name, "X-Corvo-"):
					if len(h[name]) != 1 {
						t.Errorf("%s: %v", name, h[name])
					}
				case name == "Accept-Encoding" || name == "User-Agent" || name == "Content-Length":
				default:
					t.Errorf("%s: %v reached the node", name, h[name])
				}
			}
			if h.Get("X-Corvo-Index") != "7" || h.Get("X-Corvo-Client-Name") != "corvo-go" || h.Get("X-Corvo-Forwarded") != "" {
				t.Errorf("client headers: %v", h)
			}
			if got.seen.Host != strings.TrimPrefix(r.up[0].url, "http://") {
				t.Errorf("host %q", got.seen.Host)
			}
			// And what the node says to the proxy does not go out.
			if got.header.Get("X-Corvo-Debug") != "" || got.header.Get("X-Corvo-Forwarded") != "" || got.header.Get("X-Corvo-Index") != "41" {
				t.Errorf("answer: %v", got.header)
			}
		}
	}
}

func TestCredential_OrderAndPlaces(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	a, b := r.acme.key.Reveal(), r.beta.key.Reveal()
	for _, c := range []struct {
		name   string
		header http.Header
		status int
		tenant string
	}{
		{"api key", http.Header{"X-Api-Key": {a}}, 200, "acme"},
		{"bearer", http.Header{"Authorization": {"Bearer " + a}}, 200, "acme"},
		{"bearer, any case", http.Header{"Authorization": {"bearer " + a}}, 200, "acme"},
		{"cookie", http.Header{"Cookie": {"x=y; corvo_api_key=" + a}}, 200, "acme"},
		{"api key before bearer", http.Header{"X-Api-Key": {a}, "Authorization": {"Bearer " + b}}, 200, "acme"},
		{"bearer before cookie", http.Header{"Authorization": {"Bearer " + a}, "Cookie": {"corvo_api_key=" + b}}, 200, "acme"},
		{"bad api key is not rescued by a bearer", http.Header{"X-Api-Key": {"x"}, "Authorization": {"Bearer " + a}}, 401, ""},
		{"two api keys", http.Header{"X-Api-Key": {a, b}}, 401, ""},
		{"two bearers", http.Header{"Authorization": {"Bearer " + a, "Bearer " + b}}, 401, ""},
		{"two cookies", http.Header{"Cookie": {"corvo_api_key=" + a + "; corvo_api_key=" + b}}, 401, ""},
		{"basic", http.Header{"Authorization": {"Basic " + a}}, 401, ""},
		{"none", http.Header{}, 401, ""},
		{"cookie from another site", http.Header{"Cookie": {"corvo_api_key=" + a}, "Sec-Fetch-Site": {"cross-site"}}, 403, ""},
		{"header from another site", http.Header{"X-Api-Key": {a}, "Sec-Fetch-Site": {"cross-site"}}, 200, "acme"},
	} {
		got := r.ask(r.http1, "POST", "/api/v1/fetch", "{}", func(req *http.Request) {
			for k, v := range c.header {
				req.Header[k] = v
			}
		})
		if got.status != c.status || got.seen.Identity.TenantName != c.tenant {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
	}
}

func TestKey_States(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	good := r.acme.key
	second, err := apikey.Generate(apikey.DataPlane)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := apikey.Generate(apikey.DataPlane)
	if err != nil {
		t.Fatal(err)
	}
	// A rotated key keeps its id, so its second text is made from the first's id.
	rotated := withID(t, second, good)
	d1, d2 := good.Digest(), rotated.Digest()
	set := func(change func(*cellv1.Key)) {
		k := proto.CloneOf(r.acme.record)
		change(k)
		r.apply(keyChange(k))
	}
	status := func(k apikey.Key) int { return r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(k)).status }
	check := func(what string, k apikey.Key, want int) {
		t.Helper()
		if got := status(k); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	check("known", good, 200)
	check("unknown", stranger, 401)
	check("known id, other secret", rotated, 401)
	set(func(k *cellv1.Key) { k.Digests = [][]byte{d1[:], d2[:]} })
	check("old while rotated", good, 200)
	check("new while rotated", rotated, 200)
	ends := func(at time.Time) func(*cellv1.Key) {
		return func(k *cellv1.Key) { k.Digests, k.DigestEndsNs = [][]byte{d1[:], d2[:]}, []int64{at.UnixNano(), 0} }
	}
	set(ends(time.Now().Add(time.Hour)))
	check("old before its end", good, 200)
	set(ends(time.Now().Add(-time.Second)))
	check("old after its end", good, 401)
	check("new after the old one's end", rotated, 200)
	set(func(k *cellv1.Key) { k.Digests = [][]byte{d2[:]} })
	check("old after rotation", good, 401)
	check("new after rotation", rotated, 200)
	set(func(k *cellv1.Key) { k.NotAfterNs = time.Now().Add(-time.Second).UnixNano() })
	check("expired", good, 401)
	set(func(k *cellv1.Key) { k.NotAfterNs = time.Now().Add(time.Hour).UnixNano() })
	check("not yet expired", good, 200)
	set(func(k *cellv1.Key) { k.Revoked = true })
	check("revoked", good, 401)
	set(func(*cellv1.Key) {})
	check("written again", good, 200)
	r.apply(&cellv1.Change{Change: &cellv1.Change_Tenant{Tenant: &cellv1.Tenant{Id: r.acme.id, Name: "acme", Deleted: true}}})
	check("tenant deleted", good, 401)
	check("other tenant", r.beta.key, 200)
}

// withID is k with the public id of other.
func withID(t testing.TB, k, other apikey.Key) apikey.Key {
	t.Helper()
	text := "corvo_dp_" + strings.TrimPrefix(other.ID(), "key_") + k.Reveal()[len("corvo_dp_")+12:len("corvo_dp_")+12+43]
	// The checksum is found by trying: the package does not lend it.
	return mustParse(t, text+checksumOf(text))
}

func TestNamespace_OnlyTheKeysOwn(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	def, other := r.acme.namespace("default"), r.acme.namespace("other")
	foreign := &cellv1.Namespace{Id: "ns_FOREIGN", TenantId: r.beta.id, Name: "only-beta", Shard: 2}
	r.apply(&cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: foreign}})
	scope := func(ids ...string) {
		k := proto.CloneOf(r.acme.record)
		k.Grants[0].NamespaceIds = ids
		r.apply(keyChange(k))
	}
	uniform := ""
	check := func(what, asked string, want *cellv1.Namespace) {
		t.Helper()
		got := r.ask(r.http1, "GET", "/api/v1/queues", "", func(req *http.Request) {
			withKey(r.acme.key)(req)
			if asked != "" {
				req.Header.Set("X-Corvo-Namespace", asked)
			}
		})
		if want != nil {
			if got.status != 200 || got.seen.Identity.NamespaceID != want.GetId() || got.seen.Identity.Namespace != want.GetName() {
				t.Errorf("%s: %d %s", what, got.status, got.body)
			}
			return
		}
		text := strings.ReplaceAll(got.body, got.header.Get(headerRequestID), "")
		if uniform == "" {
			uniform = text
		}
		if got.status != 404 || text != uniform {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
	check("all of the tenant: default", "", def)
	check("all of the tenant: named", "other", other)
	check("unknown", "nosuch", nil)
	check("of another tenant", "only-beta", nil)
	check("an id is not a name", other.GetId(), nil)
	scope(other.GetId())
	check("scoped: its first", "", other)
	check("scoped: named", "other", other)
	check("scoped: not its own", "default", nil)
	scope(other.GetId(), def.GetId())
	check("two: first", "", other)
	check("two: second", "default", def)
	scope(foreign.GetId())
	check("scoped to a foreign one", "", nil)
	check("scoped to a foreign one, named", "only-beta", nil)
	scope()
	gone := proto.CloneOf(other)
	gone.Deleted = true
	r.apply(&cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: gone}})
	check("deleted", "other", nil)
}

func TestPath_OnlyOneSpellingReachesANode(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	for path, want := range map[string]int{
		"/api/v1/queues":                          200,
		"/api/v1/queues/a%20b/pause":              200,
		"/openapi.json":                           200,
		"/api/v1//queues":                         400,
		"//api/v1/queues":                         400,
		"/api/v1/./queues":                        400,
		"/api/v1/../v1/queues":                    400,
		"/t/acme/../beta/api/v1/queues":           400,
		"/t/acme/%2e%2e/beta/api/v1/queues":       400,
		"/t/acme/..%2fbeta/api/v1/queues":         400,
		"/t/acme/api%2fv1/queues":                 400,
		"/t%2facme/api/v1/queues":                 400,
		"/t/acme/..;/api/v1/queues":               400,
		"/t/acme/%252e%252e/api/v1/queues":        400,
		"/api/v1/queues/a%5cb":                    400,
		"/api/v1/queues/a%00b":                    400,
		"/api/v1/queues/a%0d%0aX-Corvo-A:%20":     400,
		"/":                                       404,
		"/docs":                                   404,
		"/api/v1":                                 404,
		"/api/v1/":                                404,
		"/API/V1/queues":                          404,
		"/corvo.cell.v1.CellService/GetState":     404,
		"/t/acme/corvo.cell.v1.CellService/Watch": 404,
		"/t/acme":                                 404,
		"/t/acme/":                                404,
		"/t//api/v1/queues":                       400,
		"/t/api/api/v1/queues":                    404,
		"/t/acme/t/acme/api/v1/queues":            404,
		"/metrics":                                404,
		"/debug/pprof/":                           404,
		"/corvo.v1":                               404,
	} {
		for _, client := range []*http.Client{r.http1, r.h2c} {
			before := r.up[0].served.Load()
			got := r.ask(client, "GET", path, "", withKey(r.acme.key))
			if got.status != want {
				t.Errorf("%s: %d, want %d: %s", path, got.status, want, got.body)
			}
			if want != 200 && r.up[0].served.Load() != before {
				t.Errorf("%s reached the node", path)
			}
		}
	}
	if got := r.ask(r.http1, "GET", "/api/v1/queues/a%20b/pause", "", withKey(r.acme.key)); got.seen.Path != "/api/v1/queues/a b/pause" {
		t.Errorf("path %q", got.seen.Path)
	}
}

func TestOpenPaths_NeedNoKey(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	for _, path := range []string{"/api/v1/info", "/t/acme/api/v1/info", "/t/nosuch/api/v1/info", "/openapi.json"} {
		got := r.ask(r.http1, "GET", path, "", nil)
		if got.status != 200 || got.seen.Identity.TenantID != "" || !got.seen.Identity.Grants.None() {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/t/acme/healthz"} {
		if got := r.ask(r.http1, "GET", path, "", nil); got.status != 200 || !strings.Contains(got.body, `"status":"ok","raft_state":"none","leader":"`) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	origin := func(req *http.Request) { req.Header.Set("Origin", "https://app.example") }
	if got := r.ask(r.http1, "OPTIONS", "/api/v1/fetch", "", origin); got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight: %d %v", got.status, got.header)
	}
	if got := r.ask(r.http1, "GET", "/api/v1/info", "", origin); got.header.Get("Access-Control-Allow-Origin") != "*" || got.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("other origin: %v", got.header)
	}
	if got := r.ask(r.http1, "TRACE", "/api/v1/info", "", nil); got.status != 405 {
		t.Errorf("TRACE: %d", got.status)
	}
}

func TestAnswers_AreNoPagesOfTheConsolesOrigin(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	r.up[0].does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "corvo_session=stolen")
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src *")
		_, _ = w.Write([]byte("<script>alert(1)</script>"))
	})
	for _, path := range []string{"/t/acme/api/v1/jobs/job_1", "/t/acme/openapi.json"} {
		got := r.ask(r.http1, "GET", path, "", withKey(r.acme.key))
		if got.header.Get("Set-Cookie") != "" || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, got.header)
		}
		if csp := got.header.Get("Content-Security-Policy"); csp != inert[0] {
			t.Errorf("%s: policy %q", path, csp)
		}
	}
}

func TestFront_StandsBeforeTheProxyOnItsListener(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{options: func(o *Options) {
		o.Front = func(data http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/console" {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				data.ServeHTTP(w, q)
			})
		}
	}})
	for path, want := range map[string]int{"/console": http.StatusTeapot, "/t/acme/api/v1/queues": 200} {
		if got := r.ask(r.h2c, "GET", path, "", withKey(r.acme.key)); got.status != want {
			t.Errorf("%s: %d, want %d", path, got.status, want)
		}
	}
}

// A key says itself from where it counts, and only who has the secret is told.
func TestKey_CountsFromItsAddressesAlone(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	bind := func(cidrs ...string) {
		k := proto.CloneOf(r.acme.record)
		k.Cidrs = cidrs
		r.apply(keyChange(k))
	}
	for name, c := range map[string]struct {
		cidrs []string
		want  int
	}{
		"any": {nil, 200}, "its own": {[]string{"10.0.0.0/8", "127.0.0.1/32"}, 200}, "another": {[]string{"10.0.0.0/8"}, 403},
		"the other protocol": {[]string{"::/0"}, 403}, "one address": {[]string{"127.0.0.1"}, 200}, "unreadable": {[]string{"127.0.0.1/33"}, 403},
	} {
		bind(c.cidrs...)
		got := r.ask(r.http1, "GET", "/api/v1/queues", "", both(withKey(r.acme.key), header("X-Forwarded-For", "10.0.0.1")))
		if got.status != c.want || c.want == 403 && !strings.Contains(got.body, "certain networks") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	bind("10.0.0.0/8")
	if got := r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(withID(t, generate(t), r.acme.key))); got.status != 401 {
		t.Errorf("with a wrong secret: %d %s", got.status, got.body)
	}
}

func TestKey_CountsBehindATrustedProxyWhereItsClientIs(t *testing.T) {
	t.Parallel()
	trusted, err := clientnet.ParseProxies([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	r := startRig(t, rigOptions{options: func(o *Options) { o.Proxies = trusted }})
	k := proto.CloneOf(r.acme.record)
	k.Cidrs = []string{"10.0.0.0/8"}
	r.apply(keyChange(k))
	for from, want := range map[string]int{"10.0.0.1": 200, "192.0.2.1, 10.0.0.1": 200, "10.0.0.1, 192.0.2.1": 403, "": 403} {
		got := r.ask(r.http1, "GET", "/api/v1/queues", "", both(withKey(r.acme.key), header("X-Forwarded-For", from)))
		if got.status != want {
			t.Errorf("from %q: %d %s", from, got.status, got.body)
		}
		if want == 200 && got.seen.Identity.Peer != "10.0.0.1" {
			t.Errorf("from %q the node sees %q", from, got.seen.Identity.Peer)
		}
	}
}

// What a key may do in the namespace arrives at the node, and nothing of another one.
func TestKey_ItsGrantsAreThoseOfTheNamespace(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	def, other := r.acme.namespace("default").GetId(), r.acme.namespace("other").GetId()
	read, fetch := permission.Of(permission.JobRead), permission.Of(permission.JobFetch)
	k := proto.CloneOf(r.acme.record)
	k.PrincipalId = "sa_" + strings.Repeat("A", 26)
	k.Grants = celladmin.GrantsOf(permission.Grants{
		{Permissions: read, Namespaces: []string{other}}, {Permissions: fetch, Namespaces: []string{other}, Queues: []string{"a*"}},
	})
	k.DefaultNamespaceId = def // Where it may do nothing.
	r.apply(keyChange(k))
	got := r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(r.acme.key))
	want := permission.Here{All: read, Some: []permission.InQueues{{Permissions: fetch, Queues: []string{"a*"}}}}
	if id := got.seen.Identity; got.status != 200 || id.NamespaceID != other || !same(id.Grants, want) || id.Owner != k.GetPrincipalId() {
		t.Errorf("%d %+v", got.status, got.seen.Identity)
	}
	if got := r.ask(r.http1, "GET", "/api/v1/queues", "", both(withKey(r.acme.key), header("X-Corvo-Namespace", "default"))); got.status != 404 {
		t.Errorf("where it may do nothing: %d", got.status)
	}
	k.Grants = nil
	r.apply(keyChange(k))
	if got := r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(r.acme.key)); got.status != 403 || !strings.Contains(got.body, "no role") {
		t.Errorf("without grants: %d %s", got.status, got.body)
	}
	if got := r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(withID(t, generate(t), r.acme.key))); got.status != 401 {
		t.Errorf("without grants, to a stranger: %d", got.status)
	}
	k.Roles, k.NamespaceIds = []string{"viewer"}, []string{other, def} // The form of before.
	r.apply(keyChange(k))
	got = r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(r.acme.key))
	if id := got.seen.Identity; got.status != 200 || id.NamespaceID != def || id.Grants.All != celladmin.RoleSet([]string{"viewer"}) {
		t.Errorf("by roles: %d %+v", got.status, got.seen.Identity)
	}
}

// A call under way ends when what it was let in for changes, and by nothing else.
func TestKey_ChangedGrantsAndAddressesEndItsCalls(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	tenant, changes := newTenant(t, "acme", 1)
	changes = append(changes, keyChange(tenant.record))
	first := new(snapshot).with(changes, 1)
	from := "10.0.0.1"
	for name, c := range map[string]struct {
		change func(*cellv1.Key)
		stays  bool
	}{
		"a new name":       {func(k *cellv1.Key) { k.Name = "x" }, true},
		"the same said so": {func(k *cellv1.Key) { k.Grants[0].NamespaceIds = []string{tenant.namespace("default").GetId()} }, true},
		"less":             {func(k *cellv1.Key) { k.Grants = granted("viewer") }, false},
		"more": {func(k *cellv1.Key) {
			k.Grants = append(k.Grants, &cellv1.Grant{Permissions: permission.Everything().Bytes()})
		}, true},
		"other queues":    {func(k *cellv1.Key) { k.Grants[0].Queues = []string{"a*"} }, false},
		"its address":     {func(k *cellv1.Key) { k.Cidrs = []string{"10.0.0.0/8"} }, true},
		"another address": {func(k *cellv1.Key) { k.Cidrs = []string{"10.1.0.0/16"} }, false},
		"another owner":   {func(k *cellv1.Key) { k.PrincipalId = "usr_x" }, false},
	} {
		ns := tenant.namespace("default")
		caller := &caller{
			key: tenant.record, tenant: first.mustTenant(t, tenant.id), namespace: ns, from: from, checked: first,
			here: celladmin.GrantsFrom(tenant.record).At(ns.GetId()), digest: tenant.key.Digest(),
		}
		k := proto.CloneOf(tenant.record)
		c.change(k)
		if got := first.with([]*cellv1.Change{keyChange(k)}, 2).stillAllowed(caller, now); got != c.stays {
			t.Errorf("%s: the call stays: %v", name, got)
		}
	}
}

func (s *snapshot) mustTenant(t *testing.T, id string) *cellv1.Tenant {
	t.Helper()
	rec, ok := s.tenants.get(id)
	if !ok {
		t.Fatal("no tenant")
	}
	return rec.proto
}

package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// names is a resolver that answers each look-up of a name with the next answer.
type names struct {
	answers map[string][][]string
	asked   atomic.Int64
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	all, ok := n.answers[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	i := n.asked.Add(1) - 1
	var out []netip.Addr
	for _, text := range all[min(int(i), len(all)-1)] {
		out = append(out, netip.MustParseAddr(text))
	}
	return out, nil
}

func TestIsPublic_SpecialAddressesAreNot(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"127.0.0.1", "127.255.255.254", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254", "100.64.0.1",
		"100.127.255.255", "0.0.0.0", "0.1.2.3", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7",
		"224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.88.99.1",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
		"64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::", "fc00::1", "fd00:ec2::254", "fe80::1",
		"fe80::1%eth0", "2606:4700::1%eth0", "ff02::1", "3fff::1", "fec0::1", "5f00::1",
	} {
		if isPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s counts as public", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "100.128.0.1", "172.32.0.1", "192.0.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"} {
		if !isPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s does not count as public", text)
		}
	}
	// What an installation of its own may reach still excludes the clouds' secrets.
	for text, want := range map[string]bool{"127.0.0.1": true, "10.0.0.1": true, "fd00::1": true, "169.254.169.254": false, "fe80::1": false, "0.0.0.0": false, "224.0.0.1": false} {
		if got := (Options{AllowPrivate: true}).checkAddr(netip.MustParseAddr(text)) == nil; got != want {
			t.Errorf("%s on an own network: %t", text, got)
		}
	}
}

func TestCheckURL_TricksAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"http://idp.example", "ftp://idp.example", "file:///etc/passwd", "javascript:alert(1)", "https://", "https:///path", "https:idp.example",
		"https://user@idp.example", "https://a:b@idp.example", "https://idp.example@evil.example", "https://idp.example.", "https://idp.example:8443",
		"https://127.0.0.1", "https://[::1]", "https://[fe80::1%25eth0]", "https://169.254.169.254/latest", "https://10.0.0.1", "https://[::ffff:7f00:1]",
		"https://①②⑦.0.0.1", "https://exam\u3002ple.com", "https://idp.example%00.evil.example", "http://localhost", "http://127.0.0.1",
		"https://idp_\u0000.example", "gopher://idp.example",
	} {
		u, err := url.Parse(text)
		if err != nil {
			continue // Refused even earlier.
		}
		if err := (Options{}).CheckURL(u); err == nil {
			t.Errorf("%q is allowed", text)
		}
	}
	for _, text := range []string{"https://idp.example", "https://idp.example:443/realms/a", "https://8.8.8.8"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := (Options{}).CheckURL(u); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]bool{
		"http://localhost:9000": true, "http://127.0.0.1:9000": true, "https://10.0.0.1:8443": true, "http://10.0.0.1": false, "http://idp.example": false,
		"http://localhost.evil.example": false, "https://169.254.169.254": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Options{AllowPrivate: true}).CheckURL(u) == nil; got != want {
			t.Errorf("%q on an own network: %t", text, got)
		}
	}
}

// Numbers in odd bases are names to us; what the system's resolver makes of them is
// checked like any other answer.
func TestClient_NamesThatLeadInsideAreRefusedBeforeDialling(t *testing.T) {
	t.Parallel()
	r := &names{answers: map[string][][]string{
		"2130706433": {{"127.0.0.1"}}, "0x7f000001": {{"127.0.0.1"}}, "0177.0.0.1": {{"127.0.0.1"}}, "127.1": {{"127.0.0.1"}},
		"inside.example": {{"10.0.0.7"}}, "mixed.example": {{"8.8.8.8", "10.0.0.7"}}, "six.example": {{"::ffff:127.0.0.1"}}, "none.example": {{}},
	}}
	client := NewClient(Options{Resolver: r})
	for host := range r.answers {
		_, err := client.Get("https://" + host + "/.well-known/openid-configuration")
		if err == nil {
			t.Errorf("%s was reached", host)
			continue
		}
		if host != "none.example" && !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v, want a refusal", host, err)
		}
		if strings.Contains(err.Error(), "10.0.0.7") {
			t.Errorf("the refusal tells how our network resolves the name: %v", err)
		}
	}
}

// A name that is public when it is checked and private when it is dialled.
func TestClient_NameIsAskedOnceSoRebindingGainsNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port
	twice := &names{answers: map[string][][]string{"own.example": {{"127.0.0.1"}, {"169.254.169.254"}}}}
	g := &guard{options: Options{Resolver: twice, AllowPrivate: true}}
	conn, err := g.dial(t.Context(), "tcp", net.JoinHostPort("own.example", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if n := twice.asked.Load(); n != 1 {
		t.Errorf("the name was resolved %d times between check and connection", n)
	}
}

func TestClient_RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/secret" {
			reached.Store(true)
			return
		}
		http.Redirect(w, r, "/secret", http.StatusFound)
	}))
	t.Cleanup(server.Close)
	_, err := NewClient(Options{AllowPrivate: true}).Get(server.URL)
	if !errors.Is(err, ErrRedirect) || reached.Load() {
		t.Errorf("%v; followed: %t", err, reached.Load())
	}
}

func TestClient_AnswersAreBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/exact":
			_, _ = w.Write(make([]byte, 1000)) // The client may have hung up.
		case "/large":
			_, _ = w.Write(make([]byte, 1001))
		case "/headers":
			w.Header().Set("X-Large", strings.Repeat("a", headerBytesMax+1))
		case "/bomb":
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				t.Error(err)
			}
			if err := z.Close(); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(b.Bytes()[:500])
		}
	}))
	t.Cleanup(server.Close)
	client := NewClient(Options{AllowPrivate: true, BodyBytesMax: 1000})
	read := func(path string) (int, error) {
		res, err := client.Get(server.URL + path)
		if err != nil {
			return 0, err
		}
		body, err := io.ReadAll(res.Body)
		return len(body), errors.Join(err, res.Body.Close())
	}
	if n, err := read("/exact"); n != 1000 || err != nil {
		t.Errorf("as large as allowed: %d, %v", n, err)
	}
	if n, err := read("/large"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: %d, %v", n, err)
	}
	if _, err := read("/headers"); err == nil {
		t.Error("huge headers were read")
	}
	if n, err := read("/bomb"); n != 500 || err != nil {
		t.Errorf("a compressed answer was unpacked: %d bytes, %v", n, err)
	}
}

func TestClient_IgnoresTheProxyOfTheEnvironment(t *testing.T) {
	var asked atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("HTTP_PROXY", proxy.URL)
	r := &names{answers: map[string][][]string{"idp.example": {{"127.0.0.1"}}}}
	// Nobody listens there; a proxy would have answered.
	_, err := NewClient(Options{Resolver: r, AllowPrivate: true}).Get("https://idp.example:1/")
	if err == nil || asked.Load() {
		t.Errorf("%v; through the proxy: %t", err, asked.Load())
	}
}

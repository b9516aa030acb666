package clientnet

import (
	"crypto/tls"
	"net/http"
	"testing"
)

func TestPrefixes_OneCustomerIsOneClient(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ addr, narrow, wide string }{
		{"203.0.113.7:4711", "203.0.113.7", "203.0.113.0/24"},
		{"203.0.113.7", "203.0.113.7", "203.0.113.0/24"},
		{"[::ffff:203.0.113.7]:1", "203.0.113.7", "203.0.113.0/24"},
		{"[2001:db8:1:2:3:4:5:6]:443", "2001:db8:1:2::/64", "2001:db8:1::/48"},
		{"2001:db8:1:2:ffff::1", "2001:db8:1:2::/64", "2001:db8:1::/48"},
		{"[fe80::1%eth0]:80", "fe80::/64", "fe80::/48"},
		{"", "unknown", "unknown"},
		{"no address", "unknown", "unknown"},
	} {
		if n, w := Narrow(tc.addr), Wide(tc.addr); n != tc.narrow || w != tc.wide {
			t.Errorf("%q is %q in %q, want %q in %q", tc.addr, n, w, tc.narrow, tc.wide)
		}
	}
}

func TestClient_OnlyConfiguredProxiesAreBelieved(t *testing.T) {
	t.Parallel()
	proxies, err := ParseProxies([]string{"10.0.0.7", "192.0.2.0/24", "2001:db8::/48"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		proxies   Proxies
		from, xff string
		want      string
	}{
		"nobody is trusted":                  {nil, "10.0.0.7:1", "198.51.100.9", "10.0.0.7"},
		"a stranger says who it is":          {proxies, "203.0.113.5:1", "127.0.0.1", "203.0.113.5"},
		"the proxy says":                     {proxies, "10.0.0.7:1", "198.51.100.9", "198.51.100.9"},
		"the client said something before":   {proxies, "10.0.0.7:1", "127.0.0.1, 198.51.100.9", "198.51.100.9"},
		"a chain of proxies":                 {proxies, "10.0.0.7:1", "1.2.3.4, 198.51.100.9, 192.0.2.8", "198.51.100.9"},
		"a proxy that says nothing":          {proxies, "10.0.0.7:1", "", "10.0.0.7"},
		"a proxy that says nonsense":         {proxies, "10.0.0.7:1", "198.51.100.9, unknown", "10.0.0.7"},
		"over IPv6":                          {proxies, "[2001:db8::1]:1", "[2001:db8:1::9]:55", "2001:db8:1::9"},
		"the neighbour of a trusted address": {proxies, "10.0.0.8:1", "198.51.100.9", "10.0.0.8"},
	} {
		r := &http.Request{RemoteAddr: tc.from, Header: http.Header{}}
		if tc.xff != "" {
			r.Header.Set("X-Forwarded-For", tc.xff)
		}
		if got := tc.proxies.Client(r); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if _, err := ParseProxies([]string{"lb.example.com"}); err == nil {
		t.Error("a name is no address")
	}
}

func TestScheme_OnlyConfiguredProxiesAreBelieved(t *testing.T) {
	t.Parallel()
	proxies, err := ParseProxies([]string{"10.0.0.7"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		from string
		says []string
		tls  bool
		want string
	}{
		"nothing is said":               {"10.0.0.7:1", nil, false, "http"},
		"the proxy says":                {"10.0.0.7:1", []string{"https"}, false, "https"},
		"the proxy says, in capitals":   {"10.0.0.7:1", []string{"HTTPS"}, false, "https"},
		"the proxy itself comes by TLS": {"10.0.0.7:1", []string{"http"}, true, "http"},
		"a stranger says":               {"10.0.0.8:1", []string{"https"}, false, "http"},
		"a stranger by TLS says":        {"10.0.0.8:1", []string{"http"}, true, "https"},
		"an address that is none":       {"@", []string{"https"}, false, "http"},
		"another scheme":                {"10.0.0.7:1", []string{"ftp"}, false, "http"},
		"nothing in it":                 {"10.0.0.7:1", []string{""}, true, "https"},
		"a list":                        {"10.0.0.7:1", []string{"https, http"}, false, "http"},
		"more than one":                 {"10.0.0.7:1", []string{"https", "https"}, false, "http"},
		"a whole address":               {"10.0.0.7:1", []string{"https://evil.example"}, false, "http"},
	} {
		r := &http.Request{RemoteAddr: tc.from, Header: http.Header{}}
		if tc.says != nil {
			r.Header["X-Forwarded-Proto"] = tc.says
		}
		if tc.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got := proxies.Scheme(r); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

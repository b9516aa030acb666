package domains

import (
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"
)

func TestParseName_OneFormForEachName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	for given, want := range map[string]string{
		"example.com": "example.com", " Example.COM ": "example.com", "example.com.": "example.com", "a.b.example.co.uk": "a.b.example.co.uk",
		"bücher.example": "xn--bcher-kva.example", "BÜCHER.example": "xn--bcher-kva.example", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"bu\u0308cher.example": "xn--bcher-kva.example", // Composed otherwise.
		"ｅｘａｍｐｌｅ．ｃｏｍ":          "example.com", "例え。テスト。": "xn--r8jz45g.xn--zckzah",
		"exa\u00admple.com":  "example.com", // A soft hyphen is not there.
		"straße.example":     "xn--strae-oqa.example",
		"customer.github.io": "customer.github.io", "acme.test": "acme.test", "acme.corp": "acme.corp",
		long + "." + long + "." + long + "." + strings.Repeat("b", 40) + ".de": long + "." + long + "." + long + "." + strings.Repeat("b", 40) + ".de",
	} {
		if got, err := ParseName(given); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", given, got, err, want)
		}
	}
	for given, why := range map[string]string{
		"": "such as", ".": "such as", "..": "isn't a domain", "example": "no dot", "example.": "no dot", "com": "no dot", "co.uk": "public suffix", "CO.UK.": "public suffix", "github.io": "public suffix",
		"公司.cn": "public suffix", "localhost": "localhost", "a.localhost": "localhost", "printer.local": "local", "1.0.0.127.in-addr.arpa": "arpa",
		"127.0.0.1": "IP address", "[::1]": "IP address", "::1": "IP address", "127.1": "IP address", "1.2.3.4.": "IP address", "１２７.０.０.１": "IP address", "0.0x7f": "IP address",
		"ada@example.com": "without the part before", "https://example.com/": "without https", "example.com:443": "isn't a domain", "*.example.com": "isn't a domain",
		"_dmarc.example.com": "isn't a domain", "exa mple.com": "isn't a domain", "-a.example.com": "isn't a domain", "a-.example.com": "isn't a domain", "a..example.com": "isn't a domain",
		"example.com..": "isn't a domain", "xn--a.example": "isn't a domain", "xn--example-.com": "isn't a domain", "a\x00b.example": "isn't a domain", long + "a.example.com": "isn't a domain",
		"\u200fexample.com": "isn't a domain", "א1a.example": "isn't a domain",
		long + "." + long + "." + long + "." + strings.Repeat("b", 45) + ".de": "236 characters", strings.Repeat("a.", 600) + "de": "such as",
	} {
		if got, err := ParseName(given); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %q, %v; want an error with %q", given, got, err, why)
		}
	}
}

func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"example.com", "bücher.example", "xn--bcher-kva.example.", "例え。テスト", "ｅ.com", "127.0.0.1", "co.uk", "a@b.c", "\u00ad.com", "א.example", "xn--.com"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		name, err := ParseName(given)
		if err != nil {
			return
		}
		if again, err := ParseName(name); err != nil || again != name {
			t.Errorf("%q: %q, which becomes %q, %v", given, name, again, err)
		}
		if dotted, err := ParseName(strings.ToUpper(name) + "."); err != nil || dotted != name {
			t.Errorf("%q: in capitals and with a dot %q, %v", name, dotted, err)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.') }) || len(TXTName(name)) > 253 {
			t.Errorf("%q: %q", given, name)
		}
		for label := range strings.SplitSeq(name, ".") {
			if label == "" || len(label) > 63 {
				t.Errorf("%q: %q", given, name)
			}
		}
		if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
			t.Errorf("%q: %q is a public suffix", given, name)
		}
		if of, ok := ofAddress("a@b@" + name); !ok || of != name {
			t.Errorf("an address of %q is one of %q", name, of)
		}
	})
}

func TestNewResolver_AddressesOfServers(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", "10.0.0.53", "10.0.0.53:5353", "[2001:db8::1]:53", "2001:db8::1", "[2001:db8::1]", "dns.example.com"} {
		if _, err := NewResolver(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{":53", "10.0.0.53:"} {
		if _, err := NewResolver(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

package clientnet_test

import (
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
)

func TestNetwork_HasOneForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"203.0.113.7":         "203.0.113.7/32",
		"203.0.113.7/24":      "203.0.113.0/24",
		"2001:DB8::1/32":      "2001:db8::/32",
		"::ffff:10.1.2.3":     "10.1.2.3/32",
		"0.0.0.0/0":           "0.0.0.0/0",
		"::ffff:10.0.0.0/104": "", // Neither of the two.
		"10.0.0.0/33":         "",
		"fe80::1%eth0":        "",
		"10.0.0":              "",
		"":                    "",
	} {
		got, ok := clientnet.Network(text)
		if ok != (want != "") || ok && got != want || !ok && got != text {
			t.Errorf("%q: %q %v, want %q", text, got, ok, want)
		}
	}
}

func TestNetworks_AdmitOnlyWhatIsInside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit []string
		addr  string
		want  bool
	}{
		{nil, "198.51.100.9", true},
		{nil, "not an address", true},
		{[]string{"10.0.0.0/8"}, "10.2.3.4", true},
		{[]string{"10.0.0.0/8"}, "10.2.3.4:5555", true},
		{[]string{"10.0.0.0/8"}, "::ffff:10.2.3.4", true},
		{[]string{"10.0.0.0/8"}, "11.0.0.1", false},
		{[]string{"10.0.0.0/8"}, "not an address", false},
		{[]string{"10.0.0.0/8", "2001:db8::/32"}, "[2001:db8::5]:443", true},
		{[]string{"2001:db8::/32"}, "2001:db9::5", false},
		{[]string{"nonsense"}, "10.2.3.4", false},
	} {
		if got := clientnet.NetworksOf(c.limit).Has(c.addr); got != c.want {
			t.Errorf("%v has %s: %v", c.limit, c.addr, got)
		}
	}
}

func TestNetworks_CoverWhatIsNarrower(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, narrower []string
		want            bool
	}{
		{nil, nil, true},
		{nil, []string{"10.0.0.0/8"}, true},
		{[]string{"10.0.0.0/8"}, nil, false},
		{[]string{"10.0.0.0/8"}, []string{"10.1.0.0/16", "10.9.9.9/32"}, true},
		{[]string{"10.1.0.0/16"}, []string{"10.0.0.0/8"}, false},
		{[]string{"10.0.0.0/16"}, []string{"10.0.0.0/8"}, false},
		{[]string{"10.0.0.0/8"}, []string{"10.1.0.0/16", "11.0.0.0/16"}, false},
		{[]string{"10.0.0.0/8"}, []string{"::/0"}, false},
	} {
		if got := clientnet.NetworksOf(c.limit).Covers(clientnet.NetworksOf(c.narrower)); got != c.want {
			t.Errorf("%v covers %v: %v", c.limit, c.narrower, got)
		}
	}
}

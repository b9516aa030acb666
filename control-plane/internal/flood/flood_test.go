package flood

import (
	"strings"
	"testing"
	"time"
)

func TestPeer_OneCustomerIsOneBucket(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ addr, want string }{
		{"203.0.113.7:4711", "203.0.113.7"},
		{"203.0.113.7", "203.0.113.7"},
		{"[::ffff:203.0.113.7]:1", "203.0.113.7"},
		{"[2001:db8:1:2:3:4:5:6]:443", "2001:db8:1:2::/64"},
		{"2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"},
		{"[fe80::1%eth0]:80", "fe80::/64"},
		{"", "unknown"},
		{"no address", "unknown"},
	} {
		if got := Peer(tc.addr); got != tc.want {
			t.Errorf("Peer(%q) = %q, want %q", tc.addr, got, tc.want)
		}
	}
}

func TestWords_AreForPeople(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Second: "a second", 90 * time.Second: "90 seconds", 60 * time.Minute: "60 minutes",
		3 * time.Hour: "3 hours", 150*time.Minute + time.Second: "3 hours",
	} {
		if got := words(d); !strings.HasPrefix(got, want) {
			t.Errorf("words(%s) = %q, want %q", d, got, want)
		}
	}
}

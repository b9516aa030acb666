package names

import (
	"strings"
	"testing"
)

func TestNames_FormAndReservedWords(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"acme": true, "a1b": true, "a-b": true, strings.Repeat("a", 40): true,
		"": false, "ab": false, strings.Repeat("a", 41): false, "1ab": false, "-ab": false, "ab-": false, "Acme": false,
		"ac_me": false, "ac.me": false, "acmé": false, "acme\n": false, "ac me": false, "a::b": false,
	} {
		if got := Namespace(name) == ""; got != good {
			t.Errorf("namespace %q: good %v, want %v (%s)", name, got, good, Namespace(name))
		}
		if got := Tenant(name) == ""; got != good {
			t.Errorf("tenant %q: good %v, want %v", name, got, good)
		}
	}
	for _, name := range []string{"app", "api", "www", "admin", "mail", "docs", "status", "assets", "signup", "invite"} {
		if Tenant(name) == "" || Namespace(name) != "" {
			t.Errorf("%q: must be nobody's host and anybody's namespace", name)
		}
	}
}

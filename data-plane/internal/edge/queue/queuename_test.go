package queue

import (
	"regexp"
	"strings"
	"testing"
)

// FuzzQueueName compares the check with the expression that says what a name is.
func FuzzQueueName(f *testing.F) {
	is := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	for _, name := range []string{
		"", "a", "-a", ".a", "_a", "a.b_c-d", "A9", "9", "a b", "a:b", "ä", "a\n", "a\x00", "a/b", "[", "`", "{", "@", "/", ":",
		strings.Repeat("x", 128), strings.Repeat("x", 129),
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got := isQueueName(name); got != is.MatchString(name) {
			t.Errorf("%q is a queue name: %v", name, got)
		}
	})
}

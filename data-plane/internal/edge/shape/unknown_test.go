package shape

import (
	"strings"
	"testing"
)

func TestNearest_FindsSlipsAndNothingElse(t *testing.T) {
	t.Parallel()
	names := []string{"queue", "priority", "max_retries", "tags", "delay", "unique_key"}
	for name, want := range map[string]string{
		"prioritty": "priority", "Priority": "priority", "prio": "", "maxRetries": "max_retries", "tag": "tags",
		"dleay": "delay", "uniqueKey": "unique_key", "colour": "", "x": "", strings.Repeat("q", 10_000): "",
	} {
		if got := nearest(name, names); got != want {
			t.Errorf("nearest(%.20q) = %q, want %q", name, got, want)
		}
	}
}

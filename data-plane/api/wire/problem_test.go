package wire

import (
	"testing"
	"time"
)

// HTTP has whole seconds; only overload has the form that the API contract gave it. Nobody
// is told to come back too early.
func TestRetryAfter_IsWholeSecondsUnlessItIsOverload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   Code
		d      time.Duration
		header string
		ms     int64
	}{
		{CodeOverloaded, 3 * time.Millisecond, "0.003", 3},
		{CodeOverloaded, time.Nanosecond, "0.001", 1},
		{CodeOverloaded, 2500 * time.Microsecond, "0.003", 3},
		{CodeOverloaded, 2 * time.Second, "2", 2000},
		{CodeRateLimited, 9790500 * time.Microsecond, "10", 9791},
		{CodeRateLimited, time.Nanosecond, "1", 1},
		{CodeRateLimited, 10 * time.Second, "10", 10000},
		{CodeLeaderUnavailable, 100 * time.Millisecond, "1", 100},
		{CodeLeaderUnavailable, 0, "0", 0},
	} {
		if header, ms := RetryAfter(c.code, c.d); header != c.header || ms != c.ms {
			t.Errorf("%s after %s: %q and %d ms, want %q and %d", c.code, c.d, header, ms, c.header, c.ms)
		}
	}
}

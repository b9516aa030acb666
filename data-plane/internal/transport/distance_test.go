package transport

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// 200 ms each way are 400 ms for a heartbeat and its answer, which a lease of 250 ms does
// not survive: the cell says so, and what to do, and does not fill the log with it.
func TestDistance_ANodeTooFarAwayIsToldOnceAMinute(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := distances{heartbeat: 500 * time.Millisecond, log: slog.New(slog.NewTextHandler(&out, nil)), told: map[string]time.Time{}}
	now := time.Unix(0, 0)
	d.note("near", 100*time.Millisecond, now)
	if out.Len() > 0 {
		t.Errorf("a near node: %s", &out)
	}
	for i := range 130 {
		d.note("far", 400*time.Millisecond, now.Add(time.Duration(i)*time.Second))
	}
	text := out.String()
	if n := strings.Count(text, "node=far"); n != 3 || !strings.Contains(text, "round_trip=400ms") || !strings.Contains(text, "needed=1.6s") || !strings.Contains(text, "--heartbeat") {
		t.Errorf("told %d times: %s", n, text)
	}
	longer := distances{heartbeat: 2 * time.Second, log: d.log, told: map[string]time.Time{}}
	out.Reset()
	longer.note("far", 400*time.Millisecond, now)
	if out.Len() > 0 {
		t.Errorf("with a longer heartbeat: %s", &out)
	}
}

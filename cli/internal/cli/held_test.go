package cli

import (
	"strings"
	"testing"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

func TestWork_SaysWhyNoJobComes(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	s := newSession(Process{Stderr: &said})
	s.tellHeld(&corvo.Held{Limit: "spend", Message: "dispatch is held because of spend"})
	s.tellHeld(&corvo.Held{Limit: "jobs_per_month", OpensAt: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Message: "dispatch is held"})
	s.tellHeld(nil)
	want := "no job starts for now: dispatch is held because of spend\nno job starts until 2026-12-01T00:00:00Z: dispatch is held\ndispatch is held no longer\n"
	if said.String() != want {
		t.Errorf("said %q", said.String())
	}
}

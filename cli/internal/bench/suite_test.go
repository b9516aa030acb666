package bench

import (
	"strings"
	"testing"
)

func TestRow_IsMetInTheDirectionOfItsAim(t *testing.T) {
	t.Parallel()
	report := func(perSecond, p50 float64) *Report {
		return &Report{Valid: true, Phase: Phase{PerSecond: perSecond, Latency: Percentiles{P50: p50}, SyncsPerThousand: -1}, Durability: Durability{SyncDelayMS: 1}}
	}
	for _, c := range []struct {
		aim     aim
		report  *Report
		verdict string
	}{
		{throughput(1000), report(1000, 0), "met"},
		{throughput(1000), report(500, 0), "missed (50 %)"},
		{aboveSync("p50", 0.5, p50), report(0, 1.5), "met"},
		{aboveSync("p50", 0.5, p50), report(0, 2), "missed (2.00×)"},
		{aboveSync("p50", 0.5, p50), report(0, 0.9), "met"},
		{syncs(10), report(0, 0), "-"},
	} {
		row := c.aim.row("work", c.report)
		if got := row.verdict(); got != c.verdict {
			t.Errorf("%s: %q, want %q", row.Name, got, c.verdict)
		}
		if len(row.Cells()) != len(RowHeader()) {
			t.Errorf("%s: %d cells under %d headers", row.Name, len(row.Cells()), len(RowHeader()))
		}
	}
}

func TestRow_InvalidRunIsNeverMet(t *testing.T) {
	t.Parallel()
	row := throughput(1).row("work", &Report{Phase: Phase{PerSecond: 100}, Problems: []string{"1 job lost"}})
	if got := row.verdict(); !strings.HasPrefix(got, "INVALID: 1 job lost") {
		t.Fatal(got)
	}
}

// TestScenarios_CanBeRun: a typing mistake in the table must not show after an
// hour of measuring.
func TestScenarios_CanBeRun(t *testing.T) {
	t.Parallel()
	target := Running(mustURL("http://127.0.0.1:1"), nil)
	names := make(map[string]bool)
	for _, sc := range scenarios() {
		o := sc.options
		o.Server = target.URL
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", sc.name, err)
		}
		if names[sc.name] || len(sc.aims) == 0 {
			t.Errorf("%s: twice, or without an aim", sc.name)
		}
		names[sc.name] = true
	}
	if !names[backlogBase] {
		t.Errorf("the backlog is compared with %q, which is no scenario", backlogBase)
	}
}

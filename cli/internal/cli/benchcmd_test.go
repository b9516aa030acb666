package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/cli/internal/bench"
)

// Half an hour of rows is not lost to an interrupt or to one that failed.
func TestSuiteDone_ShowsTheRowsThereAre(t *testing.T) {
	t.Parallel()
	for name, interrupted := range map[string]bool{"interrupted": true, "not valid": false} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var err error
		if interrupted {
			cancel()
			err = ctx.Err()
		}
		var out bytes.Buffer
		s := newSession(Process{Stdout: &out, Stderr: &out})
		result := &bench.SuiteResult{Calibration: &bench.Calibration{}, Rows: []bench.Row{{Name: "the first row", Problems: []string{"not measured"}}},
			Skipped: []bench.Skipped{{Name: "another", Why: "no program"}}}
		err = s.suiteDone(ctx, result, err)
		for _, want := range []string{"the first row", "INVALID: not measured", "skipped: another: no program"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is not in %s", name, want, out.String())
			}
		}
		if s.exit != ExitFail || (err != nil) != interrupted {
			t.Errorf("%s: exit %d, %v", name, s.exit, err)
		}
	}
}

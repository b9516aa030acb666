package sim

import (
	"strings"
	"testing"
)

func TestVerdict_ABreachCountsWhateverTheEnd(t *testing.T) {
	t.Parallel()
	breach := "    1.000s " + breachMark + "INV-1: a job is lost\n"
	for _, tt := range []struct {
		name  string
		r     result
		out   string
		exit  int
		wrong string
		still bool
	}{
		{"all went well", result{}, "", 0, "", false},
		{"it stood still", result{}, "", exitInconclusive, "", true},
		{"it stood still after a breach", result{}, breach, exitInconclusive, "INV-1: a job is lost", true},
		{"it stood still for no fault", result{}, "", exitStalled, "somebody waits for a mutex", false},
		{"a breach", result{Breaches: []string{"one"}}, breach, 1, "INV-1: a job is lost", false},
		{"a breach that only the output has", result{}, breach, 0, "INV-1: a job is lost", false},
		{"a panic", result{}, "panic: what", 2, "panic: what", false},
		{"no result", result{}, "", exitUntold, "exit code -1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wrong, still := verdict(tt.r, []byte(tt.out), tt.exit)
			if still != tt.still || (wrong == "") != (tt.wrong == "") || !strings.Contains(wrong, tt.wrong) {
				t.Errorf("%q, %v; want %q, %v", wrong, still, tt.wrong, tt.still)
			}
		})
	}
	for _, tt := range []struct {
		still, ran int
		too        bool
	}{{0, 0, false}, {0, 5, false}, {1, 1, true}, {1, 5, false}, {2, 5, true}, {2, 20, false}, {3, 20, true}} {
		if tooStill(tt.still, tt.ran) != tt.too {
			t.Errorf("%d of %d: too many is %v, want %v", tt.still, tt.ran, !tt.too, tt.too)
		}
	}
}

package job

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestParseDollars_IsExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "0.0": 0, "0.1": 100_000_000, "0.3": 300_000_000, "1": 1_000_000_000, "12.5": 12_500_000_000,
		"1e-3": 1_000_000, "1E2": 100_000_000_000, "1.5e1": 15_000_000_000, "0.000000001": 1, "0.0000000004": 0, "0.0000000005": 1,
		"0.30000000000000004": 300_000_000, "2.9999999996": 3_000_000_000, "0.0125": 12_500_000, "0e9999": 0, "1e-9999": 0,
		"4000000000": 4_000_000_000 * NanosPerDollar,
	} {
		if got, err := ParseDollars(text); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "-1", "+1", "1,5", "0x10", "NaN", "Inf", "1e", "1e99999", "1e20", "9999999999", "1 ", "1_0", "$1"} {
		if got, err := ParseDollars(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

func TestFormatDollars_IsReadBackAsItWas(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 100_000_000: "0.1", 1: "0.000000001", -2_500_000_000: "-2.5", math.MinInt64: "-9223372036.854775808"} {
		if got := FormatDollars(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<62-1).Draw(t, "nanos")
		if back, err := ParseDollars(FormatDollars(n)); err != nil || back != n {
			t.Fatalf("%d is read back as %d, %v", n, back, err)
		}
	})
}

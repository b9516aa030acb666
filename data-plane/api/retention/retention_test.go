package retention

import (
	"testing"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

func TestOf_TheNearestThatSaysSomethingCountsWithinTheMaximum(t *testing.T) {
	t.Parallel()
	limits := &cellv1.Limits{
		Retention:    &cellv1.Retention{DeadNs: int64(20 * day), EventsBytes: 100},
		RetentionMax: &cellv1.Retention{CompletedNs: int64(10 * day), FinishedMax: 1000, UsageNs: int64(30 * day)},
	}
	own := &cellv1.Retention{CompletedNs: int64(40 * day), EventsNs: int64(time.Hour)}
	got := Of(limits, own)
	want := Policy{
		Finished: Finished{Completed: 10 * day, Dead: 20 * day, Cancelled: 30 * day, Max: 1000},
		Events:   time.Hour, EventsBytes: 100, Usage: 30 * day, most: Finished{Completed: 10 * day, Max: 1000},
	}
	if got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	queue := got.Queue(Finished{Completed: time.Hour, Max: 5000, Dead: 90 * day})
	if want := (Finished{Completed: time.Hour, Dead: 90 * day, Cancelled: 30 * day, Max: 1000}); queue != want {
		t.Fatalf("got %+v, want %+v", queue, want)
	}
}

func TestAge_IsReadInDaysToo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "3660d": AgeMax,
		"": 0, "7": 0, "d": 0, "-1d": 0, "0d": 0, "1.5d": 0, "week": 0, "59s": 0, "3661d": 0, "99999999d": 0,
	} {
		var a Age
		if err := a.Set(text); err != nil && want != 0 || err == nil && time.Duration(a) != want {
			t.Errorf("%q is %v, %v", text, a, err)
		}
	}
}

func TestMessage_IsReadAsItWas(t *testing.T) {
	t.Parallel()
	for _, p := range []Policy{{}, Default(), {Finished: Finished{Max: 5}}} {
		if got := Read(p.Message()); got != p {
			t.Errorf("got %+v, want %+v", got, p)
		}
	}
}

func TestOf_WithoutSettingsTheDefaultsCount(t *testing.T) {
	t.Parallel()
	if got := Of(nil, nil); got != Default() {
		t.Fatalf("got %+v, want %+v", got, Default())
	}
}

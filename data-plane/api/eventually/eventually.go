// Package eventually owns how tests of every module wait for what must happen.
//
// It must not know what is waited for. Surprising: it looks less and less often, up to
// every 20 ms, so that a wait for a disk or an election costs no processor.
package eventually

import (
	"errors"
	"testing"
	"time"
)

const (
	firstPause = time.Millisecond
	mostPause  = 20 * time.Millisecond
)

// True waits until ok, and fails the test when it was not within the limit.
func True(tb testing.TB, limit time.Duration, what string, ok func() bool) {
	tb.Helper()
	if !poll(limit, ok) {
		tb.Fatalf("not within %s: %s", limit, what)
	}
}

// NoError is True with a reason: what try answered last.
func NoError(tb testing.TB, limit time.Duration, what string, try func() error) {
	tb.Helper()
	err := errors.New("not tried")
	if !poll(limit, func() bool { err = try(); return err == nil }) {
		tb.Fatalf("not within %s: %s: %v", limit, what, err)
	}
}

// Returns fails the test when f has not returned within the limit; f goes on then.
func Returns(tb testing.TB, limit time.Duration, what string, f func()) {
	tb.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(limit):
		tb.Fatalf("%s took more than %s", what, limit)
	}
}

// poll asks at least once, and once more after the limit: a machine may stand still.
func poll(limit time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(limit)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		late := time.Now().After(deadline)
		if ok() {
			return true
		}
		if late {
			return false
		}
		time.Sleep(pause)
	}
}

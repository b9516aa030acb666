package streams

import (
	"testing"
	"time"
)

func TestTimeout_NothingRunsAfterStop(t *testing.T) {
	t.Parallel()
	for range 200 {
		out := false // Written without a lock on purpose: the race detector would tell.
		f := NewTimeout(func() {
			if out {
				t.Error("ran after Stop")
			}
		})
		f.Start(50 * time.Microsecond)
		for start := time.Now(); time.Since(start) < 50*time.Microsecond; { // Close to the moment on purpose.
		}
		f.Stop()
		out = true
	}
	expired := make(chan struct{})
	f := NewTimeout(func() { close(expired) })
	f.Start(time.Millisecond)
	select {
	case <-expired:
	case <-time.After(5 * time.Second):
		t.Error("it never expired")
	}
	f.Stop()
}

package streams

import (
	"testing"
	"time"
)

func TestFuse_NothingBlowsAfterPut(t *testing.T) {
	t.Parallel()
	for range 200 {
		out := false // Written without a lock on purpose: the race detector would tell.
		f := NewFuse(func() {
			if out {
				t.Error("blew after put")
			}
		})
		f.Light(50 * time.Microsecond)
		for start := time.Now(); time.Since(start) < 50*time.Microsecond; { // Close to the moment on purpose.
		}
		f.Put()
		out = true
	}
	blown := make(chan struct{})
	f := NewFuse(func() { close(blown) })
	f.Light(time.Millisecond)
	select {
	case <-blown:
	case <-time.After(5 * time.Second):
		t.Error("it never blew")
	}
	f.Put()
}

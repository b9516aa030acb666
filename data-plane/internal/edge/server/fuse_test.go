package server

import (
	"testing"
	"time"
)

func TestFuse_NothingBlowsAfterPut(t *testing.T) {
	t.Parallel()
	for range 200 {
		out := false // Written without a lock on purpose: the race detector would tell.
		f := newFuse(func() {
			if out {
				t.Error("blew after put")
			}
		})
		f.light(50 * time.Microsecond)
		for start := time.Now(); time.Since(start) < 50*time.Microsecond; { // Close to the moment on purpose.
		}
		f.put()
		out = true
	}
	blown := make(chan struct{})
	f := newFuse(func() { close(blown) })
	f.light(time.Millisecond)
	within(t, 5*time.Second, "the fuse", func() { <-blown })
	f.put()
}

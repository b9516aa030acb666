package server

import (
	"sync"
	"time"
)

// fuse is a timer whose stop is final: when put returns, blow neither runs nor will
// run. A plain timer may still be on its way then, and touching a ResponseWriter
// after its handler has returned ends the process.
type fuse struct {
	blow func()

	mu    sync.Mutex // Guards timer and lit, and is held while blow runs.
	timer *time.Timer
	lit   bool
}

func newFuse(blow func()) *fuse { return &fuse{blow: blow} }

// light starts, or starts again, the time until blow.
func (f *fuse) light(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lit = true
	if f.timer == nil {
		f.timer = time.AfterFunc(d, f.burn)
		return
	}
	f.timer.Reset(d)
}

func (f *fuse) burn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lit {
		f.lit = false
		f.blow()
	}
}

// put puts the fuse out; it may be called more than once.
func (f *fuse) put() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lit = false
	if f.timer != nil {
		f.timer.Stop()
	}
}

package streams

import (
	"net/http"
	"sync"
	"time"
)

// Fuse is a timer whose stop is final: when Put returns, blow neither runs nor will
// run. A plain timer may still be on its way then, and touching a ResponseWriter
// after its handler has returned ends the process.
type Fuse struct {
	blow func()

	mu    sync.Mutex // Guards timer and lit, and is held while blow runs.
	timer *time.Timer
	lit   bool
}

// NewFuse makes a fuse that is not lit.
func NewFuse(blow func()) *Fuse { return &Fuse{blow: blow} }

// Light starts, or starts again, the time until blow.
func (f *Fuse) Light(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lit = true
	if f.timer == nil {
		f.timer = time.AfterFunc(d, f.burn)
		return
	}
	f.timer.Reset(d)
}

func (f *Fuse) burn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lit {
		f.lit = false
		f.blow()
	}
}

// Put puts the fuse out; it may be called more than once.
func (f *Fuse) Put() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lit = false
	if f.timer != nil {
		f.timer.Stop()
	}
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// CutReads unblocks a read of the request at once, and CutWrites a write of the answer. On
// HTTP/2, where streams live, both are supported; elsewhere the connection's own pings
// find a silent client.
func CutReads(rc *http.ResponseController) { _ = rc.SetReadDeadline(past) }

// CutWrites is CutReads for the answer.
func CutWrites(rc *http.ResponseController) { _ = rc.SetWriteDeadline(past) }

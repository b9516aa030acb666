package streams

import (
	"net/http"
	"sync"
	"time"
)

// Timeout is a timer whose Stop is final: once it returns, expired neither runs nor
// will run. The function of a plain timer may still be running then, and touching a
// ResponseWriter after its handler has returned ends the process.
type Timeout struct {
	expired func()

	mu      sync.Mutex // Guards timer and running, and is held while expired runs.
	timer   *time.Timer
	running bool
}

// NewTimeout makes a timeout that is not running.
func NewTimeout(expired func()) *Timeout { return &Timeout{expired: expired} }

// Start starts the timeout, or starts it again.
func (t *Timeout) Start(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = true
	if t.timer == nil {
		t.timer = time.AfterFunc(d, t.fire)
		return
	}
	t.timer.Reset(d)
}

func (t *Timeout) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running {
		t.running = false
		t.expired()
	}
}

// Stop may be called more than once.
func (t *Timeout) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = false
	if t.timer != nil {
		t.timer.Stop()
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

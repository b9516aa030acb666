package proxy

import (
	"cmp"
	"net/http"
	"time"
)

// pieceBytesMax is what a client must take of an answer within stuckAfter: with one
// deadline for a whole long answer, slow clients would be cut, too.
const pieceBytesMax = 32 << 10

// EndStuck ends a request of next whose client takes nothing of the answer for longer than
// after; 0 is 30 seconds. Otherwise whoever reads nothing holds a handler, and its part of
// whatever is bounded, for ever: over HTTP/2 the connection itself may be in good health.
// Streams may be silent for as long as they like. Calls of the data plane, which write much
// more often, have a sweep instead (calls.sweep).
func EndStuck(next http.Handler, after time.Duration) http.Handler {
	after = cmp.Or(after, stuckAfter)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&boundedWriter{ResponseWriter: w, rc: http.NewResponseController(w), after: after}, r)
	})
}

// boundedWriter has a deadline for each piece of an answer, and none in between.
type boundedWriter struct {
	http.ResponseWriter
	rc    *http.ResponseController
	after time.Duration
}

// Write implements io.Writer.
func (w *boundedWriter) Write(p []byte) (written int, err error) {
	for {
		piece := p[written:min(len(p), written+pieceBytesMax)]
		n := 0
		w.within(func() { n, err = w.ResponseWriter.Write(piece) })
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// Flush implements http.Flusher.
func (w *boundedWriter) Flush() { _ = w.FlushError() } // Whoever asks like this isn't told.

// FlushError is what http.ResponseController calls.
func (w *boundedWriter) FlushError() (err error) {
	w.within(func() { err = w.rc.Flush() })
	return err
}

func (w *boundedWriter) within(write func()) {
	// Where deadlines are not supported there is nothing to free.
	_ = w.rc.SetWriteDeadline(time.Now().Add(w.after))
	defer func() { _ = w.rc.SetWriteDeadline(time.Time{}) }()
	write()
}

// Unwrap is for http.ResponseController.
func (w *boundedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// lastWrite is for the end of a handler: net/http then writes what is left in its buffer, and
// waits for the client. An HTTP/1 connection has one deadline for all its requests, so that
// of the one before is taken away first.
func lastWrite(w http.ResponseWriter, r *http.Request, stuckAfter time.Duration) (end func()) {
	rc := http.NewResponseController(w)
	if r.ProtoMajor == 1 {
		_ = rc.SetWriteDeadline(time.Time{}) // As in within.
	}
	return func() { _ = rc.SetWriteDeadline(time.Now().Add(stuckAfter)) }
}

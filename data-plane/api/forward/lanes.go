package forward

import "net/http"

// Lanes carries calls and streams on connections of their own. On a connection of HTTP/2
// all answers pass one goroutine and one window at each end, so that a call behind the
// frames of other tenants' streams waited for milliseconds in addition to its work.
type Lanes struct{ Calls, Streams *http.Transport }

// NewLanes makes both lanes.
func NewLanes(opts TransportOptions) Lanes {
	return Lanes{Calls: NewTransport(opts), Streams: NewTransport(opts)}
}

// RoundTrip implements http.RoundTripper. A stream is a request whose length is not known.
func (l Lanes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ContentLength < 0 {
		return l.Streams.RoundTrip(r)
	}
	return l.Calls.RoundTrip(r)
}

// CloseIdleConnections closes those of both lanes.
func (l Lanes) CloseIdleConnections() {
	l.Calls.CloseIdleConnections()
	l.Streams.CloseIdleConnections()
}

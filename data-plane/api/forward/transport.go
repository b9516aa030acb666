package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/callstream"
)

// Pings inside a cell (R28): a peer that vanished without closing its connection
// is noticed after at most PingEvery + PingTimeout.
const (
	PingEvery   = 3 * time.Second
	PingTimeout = 2 * time.Second
)

const (
	dialTimeout = 2 * time.Second
	// A node that was idle this long may have been replaced.
	idleConnTimeout = 90 * time.Second
	maxHeaderBytes  = 32 << 10
	// writeByteTimeout ends a connection whose peer stopped reading altogether.
	writeByteTimeout = 10 * time.Second
	// windowPerStream is what of one answer is held for a client that doesn't read: there are
	// thousands of streams. A connection has room for more of them than a node allows on one
	// (2,048), so that streams that nobody reads don't hold up the others.
	windowPerStream     = 256 << 10
	windowPerConnection = 4096 * windowPerStream
)

// TransportOptions of NewTransport. The zero value is right inside a cell.
type TransportOptions struct {
	// TLS switches from h2c by prior knowledge to HTTP/2 over TLS.
	TLS *tls.Config
	// Dial opens connections; nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// PingEvery and PingTimeout replace the defaults in tests.
	PingEvery   time.Duration
	PingTimeout time.Duration
}

// NewTransport makes the HTTP/2-only transport used between the processes of a
// cell. The caller closes its idle connections at the end.
func NewTransport(opts TransportOptions) *http.Transport {
	if opts.PingEvery == 0 {
		opts.PingEvery = PingEvery
	}
	if opts.PingTimeout == 0 {
		opts.PingTimeout = PingTimeout
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(opts.TLS == nil)
	protocols.SetHTTP2(opts.TLS != nil)
	if opts.Dial == nil {
		opts.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return &http.Transport{
		DialContext:            opts.Dial,
		TLSClientConfig:        opts.TLS,
		Protocols:              &protocols,
		DisableCompression:     true,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:  opts.PingEvery,
			PingTimeout:      opts.PingTimeout,
			WriteByteTimeout: writeByteTimeout,

			MaxReceiveBufferPerStream: windowPerStream, MaxReceiveBufferPerConnection: windowPerConnection,
		},
	}
}

// NeverSent reports whether err proves that the far side did not see the request,
// so that repeating it elsewhere cannot do the work twice.
func NeverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, callstream.ErrNotSent)
}

// ClientGone reports whether err only says that our own caller went away.
func ClientGone(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil
}

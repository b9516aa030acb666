package callstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// callsMax are under way on a connection; more go over the other transport.
	callsMax = 16384
	// dialTimeout bounds opening a connection, with the upgrade.
	dialTimeout = 2 * time.Second
	// retryAfter is when a server that did not know the upgrade is asked again.
	retryAfter = 10 * time.Second
)

// ErrNotSent: the server has not seen the call, so it can be sent elsewhere.
var ErrNotSent = errors.New("the call was not sent")

// Options of a Transport.
type Options struct {
	// Next carries what a Transport doesn't, and everything for servers without this package's.
	Next http.RoundTripper
	// Carries may leave calls to Next whose answers may never end; nil leaves none.
	Carries func(*http.Request) bool
	// Sign makes the request for an upgrade one that the server allows.
	Sign func(*http.Request) error
	// TLS of https addresses; nil leaves them to Next.
	TLS *tls.Config
	// Dial opens connections; nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// PingEvery is how often a server is asked whether it is there. Unless anything is heard of
	// it within PingTimeout, all its calls fail.
	PingEvery, PingTimeout time.Duration
}

// Transport is an http.RoundTripper with a connection for each server.
type Transport struct {
	opts Options

	mu      sync.Mutex // Guards the rest.
	servers map[string]*server
	conns   map[*connection]struct{} // All that are open, also those of servers that are leaving.
	closed  bool
}

// server is one to which there is a connection, or may be.
type server struct {
	conn  *connection   // Nil: there is none.
	dials chan struct{} // Not nil: one is being opened, and closed then.
	err   error         // Of the last dial.
	again time.Time     // Until then the server is taken not to know the upgrade.
}

// NewTransport makes a Transport. CloseIdleConnections ends it.
func NewTransport(opts Options) *Transport {
	if opts.Dial == nil {
		opts.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if opts.Carries == nil {
		opts.Carries = func(*http.Request) bool { return true }
	}
	return &Transport{opts: opts, servers: make(map[string]*server), conns: make(map[*connection]struct{})}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isHere(r) || r.ContentLength > bodyMax || r.URL.Scheme == "https" && t.opts.TLS == nil || !t.opts.Carries(r) {
		return t.opts.Next.RoundTrip(r)
	}
	c, err := t.connection(r.Context(), r.URL)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return t.opts.Next.RoundTrip(r)
	}
	resp, err := c.call(r)
	if errors.Is(err, errElsewhere) {
		return t.opts.Next.RoundTrip(r)
	}
	return resp, err
}

// isHere reports whether the body of a request can be read without waiting for anybody.
func isHere(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil && r.ContentLength > 0
}

// errElsewhere: the connection takes no more calls, or not this one.
var errElsewhere = errors.New("not on this connection")

// connection is the one to a server, opened if need be. Nil: the server doesn't know the upgrade.
func (t *Transport) connection(ctx context.Context, u *url.URL) (*connection, error) {
	key := u.Scheme + "://" + u.Host
	t.mu.Lock()
	s := t.servers[key]
	if s == nil {
		s = &server{}
		t.servers[key] = s
	}
	if s.conn != nil && s.conn.takesCalls() {
		t.mu.Unlock()
		return s.conn, nil
	}
	if t.closed || time.Now().Before(s.again) {
		t.mu.Unlock()
		return nil, nil
	}
	dials := s.dials
	if dials == nil {
		dials = make(chan struct{})
		s.dials = dials
		go t.open(u.Scheme, u.Host, s)
	}
	t.mu.Unlock()
	select {
	case <-dials:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.conn, s.err
}

// open opens a connection for all who wait for it.
func (t *Transport) open(scheme, host string, s *server) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	c, err := t.dial(ctx, scheme, host)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.conn, s.err = c, err
	if errors.Is(err, errNoUpgrade) {
		s.err, s.again = nil, time.Now().Add(retryAfter)
	}
	if c != nil {
		t.conns[c] = struct{}{}
		go t.follow(c)
	}
	if c != nil && t.closed {
		c.out.close(net.ErrClosed)
	}
	close(s.dials)
	s.dials = nil
}

// follow reads a connection until it ends.
func (t *Transport) follow(c *connection) {
	c.read()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

var errNoUpgrade = errors.New("the server doesn't know the upgrade")

func (t *Transport) dial(ctx context.Context, scheme, host string) (*connection, error) {
	conn, err := t.opts.Dial(ctx, "tcp", host)
	if err != nil {
		return nil, err // It says that the dial failed.
	}
	c, err := t.upgrade(ctx, conn, scheme, host)
	if err != nil {
		_ = conn.Close() // The other error counts.
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return c, nil
}

// upgrade makes a connection for calls of one for HTTP/1.1. If the server doesn't say that it
// knows how, others may be able to speak to it.
func (t *Transport) upgrade(ctx context.Context, conn net.Conn, scheme, host string) (*connection, error) {
	if scheme == "https" {
		cfg := t.opts.TLS.Clone()
		cfg.NextProtos = []string{"http/1.1"}
		if cfg.ServerName == "" {
			cfg.ServerName = (&url.URL{Host: host}).Hostname()
		}
		secure := tls.Client(conn, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secure
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+host+Path, nil)
	if err != nil {
		return nil, err
	}
	if err := t.opts.Sign(r); err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocol)
	limit, _ := ctx.Deadline()
	if err := errors.Join(conn.SetDeadline(limit), r.Write(conn)); err != nil {
		return nil, err
	}
	from := newReader(conn)
	resp, err := http.ReadResponse(from, r)
	if err != nil && ctx.Err() == nil {
		return nil, errNoUpgrade // It doesn't speak HTTP/1.1, and closes the connection.
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != protocol {
		return nil, errNoUpgrade
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c := &connection{in: frames{from: from}, out: &pipe{conn: conn}, open: make(map[uint64]*pending), over: make(chan struct{})}
	go c.ping(t.opts.PingEvery, t.opts.PingTimeout)
	return c, nil
}

// CloseIdleConnections ends all connections: there is one for each server, for as long as the
// Transport is used. Calls that come later go over the other transport.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for c := range t.conns {
		c.out.close(net.ErrClosed)
	}
}

// connection is a client's side.
type connection struct {
	in    frames // Of read.
	out   *pipe
	heard atomic.Uint64 // Frames that were read.
	over  chan struct{} // Closed when nothing is read any more.

	mu      sync.Mutex // Guards the rest.
	open    map[uint64]*pending
	last    uint64 // Number of the last call.
	unsent  int    // Calls that were added and not sent yet.
	leaving bool   // The server takes no more.
	err     error  // The connection is over.
}

// pending is a call that waits for its answer.
type pending struct {
	request *http.Request
	answer  chan answer // Room for one.
	body    *body       // Once the head of an answer is here.
}

type answer struct {
	resp *http.Response
	err  error
}

func (c *connection) takesCalls() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && !c.leaving
}

// call sends a request and waits for its answer.
func (c *connection) call(r *http.Request) (*http.Response, error) {
	m := message{texts: [3]string{r.Method, r.URL.RequestURI(), r.Host}, headers: r.Header}
	if m.texts[2] == "" {
		m.texts[2] = r.URL.Host
	}
	size := m.size()
	if size > headMax {
		return nil, errElsewhere
	}
	p := &pending{request: r, answer: make(chan answer, 1)}
	call, err := c.add(p)
	if err != nil {
		return nil, err
	}
	b, err := appendBody(m.append(begin(kindCall, call, size+int(r.ContentLength))), r)
	if err != nil {
		c.sent()
		c.take(call)
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	err = c.out.send(end(b))
	c.sent()
	if err != nil {
		c.take(call)
		return nil, err
	}
	select {
	case a := <-p.answer:
		return a.resp, a.err
	case <-r.Context().Done():
	}
	if c.take(call) == nil {
		a := <-p.answer // It came at the same time.
		return a.resp, a.err
	}
	c.cancel(call)
	return nil, r.Context().Err()
}

// appendBody reads the body of a request whose length is known.
func appendBody(b []byte, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return b, nil
	}
	defer r.Body.Close()
	at := len(b)
	b = append(b, make([]byte, r.ContentLength)...)
	_, err := io.ReadFull(r.Body, b[at:])
	return b, err
}

func (c *connection) add(p *pending) (call uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return 0, fmt.Errorf("%w: %w", ErrNotSent, c.err)
	case c.leaving || len(c.open) >= callsMax:
		return 0, errElsewhere
	}
	c.last++
	c.open[c.last] = p
	c.unsent++
	return c.last, nil
}

// sent: a call that was added is on its way, or never will be.
func (c *connection) sent() {
	c.mu.Lock()
	c.unsent--
	last := c.leaving && c.unsent == 0
	c.mu.Unlock()
	if last {
		_ = c.leave() // Or the connection's end says so.
	}
}

// leave tells a server that is leaving that no call is to come.
func (c *connection) leave() error { return c.out.send(end(begin(kindLeave, 0, 0))) }

// take removes a call. Nil: it was taken before.
func (c *connection) take(call uint64) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.open[call]
	delete(c.open, call)
	return p
}

func (c *connection) find(call uint64) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[call]
}

// cancel tells the server that nobody waits. If that fails, the connection is over anyway.
func (c *connection) cancel(call uint64) { _ = c.out.send(end(begin(kindCancel, call, 0))) }

// read takes answers until the connection ends, and then fails the calls that wait.
func (c *connection) read() {
	var err error
	for err == nil {
		var f frame
		if f, err = c.in.next(); err == nil {
			c.heard.Add(1)
			err = c.receive(f)
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // For whoever waits.
	}
	c.out.close(err)
	c.mu.Lock()
	c.err = err
	open := c.open
	c.open = nil
	c.mu.Unlock()
	close(c.over)
	for _, p := range open {
		p.fail(err)
	}
}

func (c *connection) receive(f frame) error {
	switch f.kind {
	case kindPing:
		return nil
	case kindLeave:
		c.mu.Lock()
		c.leaving = true
		last := c.unsent == 0
		c.mu.Unlock()
		if last {
			go func() { _ = c.leave() }() // This loop never waits for a write.
		}
		return nil
	case kindWhole, kindBroken, kindEnd:
		p := c.take(f.call)
		if p == nil {
			return nil // Nobody waits any more.
		}
		return p.last(f)
	case kindHead:
		if p := c.find(f.call); p != nil {
			return p.head(c, f)
		}
		return nil
	case kindData:
		if p := c.find(f.call); p != nil {
			return p.data(f)
		}
		return nil
	default:
		return fmt.Errorf("%w: kind %d", errFrame, f.kind)
	}
}

// errBroken: the server gave up an answer.
var errBroken = errors.New("the answer broke off")

// last takes the frame that ends a call.
func (p *pending) last(f frame) error {
	switch {
	case f.kind == kindBroken:
		p.fail(errBroken)
		return nil
	case f.kind == kindWhole && p.body == nil:
		resp, rest, err := p.response(f.payload)
		if err != nil {
			p.fail(err)
			return err
		}
		resp.ContentLength = int64(len(rest))
		if _, ok := resp.Header["Content-Length"]; !ok || p.request.Method == http.MethodHead {
			resp.ContentLength = lengthOf(resp.Header)
		}
		resp.Body = wholeBody(rest)
		p.answer <- answer{resp: resp}
		return nil
	case f.kind == kindEnd && p.body != nil:
		var m message
		if _, err := m.read(f.payload); err != nil {
			p.fail(err)
			return err
		}
		p.body.end(m.headers, io.EOF)
		return nil
	}
	err := fmt.Errorf("%w: kind %d out of turn", errFrame, f.kind)
	p.fail(err)
	return err
}

// head takes the beginning of an answer whose body follows.
func (p *pending) head(c *connection, f frame) error {
	if p.body != nil {
		return fmt.Errorf("%w: a second head", errFrame)
	}
	resp, _, err := p.response(f.payload)
	if err != nil {
		return err
	}
	resp.ContentLength = lengthOf(resp.Header)
	resp.Trailer = make(http.Header)
	p.body = newBody(c, f.call, p.request.Context(), resp.Trailer)
	resp.Body = p.body
	p.answer <- answer{resp: resp}
	return nil
}

func (p *pending) data(f frame) error {
	if p.body == nil {
		return fmt.Errorf("%w: a body without a head", errFrame)
	}
	return p.body.add(f.payload)
}

// fail ends a call with an error, also in the middle of its answer.
func (p *pending) fail(err error) {
	if p.body != nil {
		p.body.end(nil, err)
		return
	}
	p.answer <- answer{err: err}
}

func (p *pending) response(payload []byte) (resp *http.Response, rest string, err error) {
	var m message
	rest, err = m.read(payload)
	if err != nil {
		return nil, "", err
	}
	status, err := strconv.Atoi(m.texts[0])
	if err != nil || status < http.StatusOK || status > 999 {
		return nil, "", fmt.Errorf("%w: status", errFrame)
	}
	return &http.Response{
		Status: m.texts[0] + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: m.headers, Request: p.request,
	}, rest, nil
}

// lengthOf is what the headers say of the body's length; -1 if nothing.
func lengthOf(h http.Header) int64 {
	n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// ping asks the server again and again whether it is there, and ends the connection when it
// doesn't answer (R28).
func (c *connection) ping(every, timeout time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.over:
			return
		}
		before := c.heard.Load()
		go func() { _ = c.out.send(end(begin(kindPing, 0, 0))) }() // It may wait; an error ends the connection.
		select {
		case <-time.After(timeout):
		case <-c.over:
			return
		}
		if c.heard.Load() == before {
			c.out.close(errSilent)
			return
		}
	}
}

var errSilent = errors.New("the server doesn't answer a ping")

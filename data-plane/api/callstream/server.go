package callstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// Path is where a client asks for the upgrade.
	Path = "/corvo.cell.v1.Calls"
	// protocol is the token of the upgrade. Another meaning of frames needs another one.
	protocol = "corvo-calls-1"
	// silentMax ends a connection whose client sends nothing: it pings every few seconds.
	silentMax = 30 * time.Second
	// idleWorkers keep their grown stacks for the next calls of a connection.
	idleWorkers = 32
)

// Server answers the calls of clients. Its ServeHTTP is the upgrade at [Path].
type Server struct {
	calls http.Handler
	log   *slog.Logger

	mu       sync.Mutex // Guards the rest.
	sessions map[*session]struct{}
	leaving  bool
	left     chan struct{} // Closed once leaving, and no session is open.
}

// NewServer makes a server whose calls are answered by a handler. Let only the parts of the cell
// reach it: how many connections are open, and what comes on them, is bounded for each alone.
func NewServer(calls http.Handler, log *slog.Logger) *Server {
	return &Server{calls: calls, log: log, sessions: make(map[*session]struct{}), left: make(chan struct{})}
}

// ServeHTTP upgrades the connection and answers calls until it ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.Header.Get("Upgrade") != protocol {
		w.Header().Set("Upgrade", protocol)
		http.Error(w, "the upgrade "+protocol+" is required", http.StatusUpgradeRequired)
		return
	}
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.log.Warn("a connection can't be taken over for calls", "peer", r.RemoteAddr, "err", err)
		return
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Time{}); err != nil { // Those were of the request for the upgrade.
		return // The client is gone.
	}
	s.serve(r.Context(), conn, r.RemoteAddr, both.Reader)
}

// upgraded is what a client is told whose calls are taken from now on.
const upgraded = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n"

// serve answers the calls of a connection until it ends.
func (s *Server) serve(ctx context.Context, conn net.Conn, peer string, from *bufio.Reader) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ss := &session{
		// Before anything else, whoever sends it.
		server: s, ctx: ctx, cancel: cancel, peer: peer, out: &pipe{conn: conn, waiting: []byte(upgraded)}, idle: make(chan *response),
		open: make(map[uint64]*response),
	}
	if !s.enter(ss) {
		return // Without a word, the client knows that nothing was taken.
	}
	defer s.leave(ss)
	if ss.out.send(nil) == nil {
		ss.run(from)
	}
}

func (s *Server) enter(ss *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return false
	}
	s.sessions[ss] = struct{}{}
	return true
}

func (s *Server) leave(ss *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, ss)
	if s.leaving && len(s.sessions) == 0 {
		close(s.left)
	}
}

// Shutdown tells clients to send no more calls and waits until those under way are answered, or
// until ctx ends: then they break off.
func (s *Server) Shutdown(ctx context.Context) {
	for _, ss := range s.refuse() {
		go func() { _ = ss.out.send(end(begin(kindLeave, 0, 0))) }() // It may wait; an error ends the session.
	}
	select {
	case <-s.left:
	case <-ctx.Done():
		s.Close()
	}
}

// Close breaks off all calls. It doesn't wait for their handlers.
func (s *Server) Close() {
	for _, ss := range s.refuse() {
		ss.out.close(errShutdown)
	}
}

// refuse lets no more sessions begin, and lists those that are open.
func (s *Server) refuse() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leaving && len(s.sessions) == 0 {
		close(s.left)
	}
	s.leaving = true
	return slices.Collect(maps.Keys(s.sessions))
}

var errShutdown = errors.New("the server shuts down")

// session is a connection of one client.
type session struct {
	server *Server
	ctx    context.Context // Ends with the connection; the context of all its calls.
	cancel context.CancelFunc
	peer   string
	out    *pipe
	idle   chan *response // Workers that are idle wait for the next call here.
	calls  sync.WaitGroup

	mu     sync.Mutex // Guards the rest.
	open   map[uint64]*response
	parked int  // Idle workers.
	last   bool // The client sends no more calls.
}

// run reads until the connection ends, and returns when all calls have.
func (ss *session) run(from *bufio.Reader) {
	in := frames{from: from}
	err := ss.hear()
	for err == nil {
		var f frame
		if f, err = in.next(); err == nil {
			err = ss.take(f)
		}
	}
	if !errors.Is(err, io.EOF) {
		ss.server.log.Debug("a connection for calls ended", "peer", ss.peer, "err", err)
	}
	ss.cancel()
	ss.out.close(err)
	ss.mu.Lock()
	for _, w := range ss.open {
		w.cut()
	}
	ss.mu.Unlock()
	ss.calls.Wait()
}

// hear bounds how long the client may be silent from now on.
func (ss *session) hear() error { return ss.out.conn.SetReadDeadline(time.Now().Add(silentMax)) }

func (ss *session) take(f frame) error {
	switch f.kind {
	case kindCall:
		return ss.begin(f)
	case kindCancel:
		if w := ss.find(f.call); w != nil {
			w.cut()
		}
		return nil
	case kindMore:
		r := reader{rest: string(f.payload)}
		n := r.number()
		if w := ss.find(f.call); w != nil && r.err == nil {
			w.more(n)
		}
		return r.err
	case kindPing:
		if err := ss.hear(); err != nil {
			return err
		}
		_ = ss.out.send(end(begin(kindPing, 0, 0))) // Or the connection's end says so.
		return nil
	case kindLeave:
		ss.mu.Lock()
		defer ss.mu.Unlock()
		ss.last = true
		ss.closeIfDone()
		return nil
	default:
		return fmt.Errorf("%w: kind %d", errFrame, f.kind)
	}
}

func (ss *session) find(call uint64) *response {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.open[call]
}

// closeIfDone closes a connection on which nothing will happen any more.
func (ss *session) closeIfDone() {
	if ss.last && len(ss.open) == 0 {
		ss.out.finish()
	}
}

// begin starts a call on an idle worker, or on a new one.
func (ss *session) begin(f frame) error {
	r, err := ss.request(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ss.ctx)
	w := &response{session: ss, call: f.call, request: r.WithContext(ctx), cancel: cancel, header: make(http.Header, 8), window: windowBytes}
	w.room.L = &w.mu
	room, err := ss.add(w)
	if err != nil || !room {
		cancel()
		go w.breakOff()
		return err
	}
	select {
	case ss.idle <- w:
	default:
		ss.calls.Go(func() { ss.work(w) })
	}
	return nil
}

// add counts a call until its handler has returned. There is no room for more than clients send,
// unless handlers don't notice that their calls were given up.
func (ss *session) add(w *response) (room bool, err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if _, taken := ss.open[w.call]; taken {
		return false, fmt.Errorf("%w: call %d is open", errFrame, w.call)
	}
	if len(ss.open) >= 2*callsMax {
		return false, nil
	}
	ss.open[w.call] = w
	return true, nil
}

// request makes the request of a call.
func (ss *session) request(f frame) (*http.Request, error) {
	var m message
	body, err := m.read(f.payload)
	if err != nil {
		return nil, err
	}
	method, target, host := m.texts[0], m.texts[1], m.texts[2]
	u, err := url.ParseRequestURI(target)
	if err != nil || target[0] != '/' {
		return nil, fmt.Errorf("%w: address", errFrame)
	}
	r := &http.Request{
		// As over HTTP/2, which this stands for.
		Method: method, URL: u, RequestURI: target, Host: host, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: m.headers, RemoteAddr: ss.peer, Body: http.NoBody, ContentLength: int64(len(body)),
	}
	// It's how a client says that it has none, and the length is known better here.
	if len(m.headers["User-Agent"]) == 1 && m.headers["User-Agent"][0] == "" {
		delete(m.headers, "User-Agent")
	}
	delete(m.headers, "Content-Length")
	if body != "" {
		r.Body = io.NopCloser(strings.NewReader(body))
	}
	return r, nil
}

// work answers a call, and then others as long as some come soon enough.
func (ss *session) work(w *response) {
	for w != nil {
		ss.answer(w)
		w = ss.await()
	}
}

// await waits for another call, unless enough workers do. Nil: there is none.
func (ss *session) await() *response {
	ss.mu.Lock()
	if ss.parked == idleWorkers {
		ss.mu.Unlock()
		return nil
	}
	ss.parked++
	ss.mu.Unlock()
	defer func() {
		ss.mu.Lock()
		ss.parked--
		ss.mu.Unlock()
	}()
	select {
	case w := <-ss.idle:
		return w
	case <-ss.ctx.Done():
		return nil
	}
}

// answer runs the handler.
func (ss *session) answer(w *response) {
	defer func() {
		w.cancel()
		ss.mu.Lock()
		defer ss.mu.Unlock()
		delete(ss.open, w.call)
		ss.closeIfDone()
	}()
	defer func() {
		err := recover()
		if err == nil {
			return
		}
		if e, ok := err.(error); !ok || !errors.Is(e, http.ErrAbortHandler) {
			ss.server.log.Error("a call panicked", "peer", ss.peer, "path", w.request.URL.Path, "panic", err, "stack", string(debug.Stack()))
		}
		w.breakOff()
	}()
	ss.server.calls.ServeHTTP(w, w.request)
	w.finish()
}

// response is the answer of a call: an http.ResponseWriter.
type response struct {
	session *session
	call    uint64
	request *http.Request
	cancel  context.CancelFunc

	// Only the handler uses these.
	header http.Header
	status int
	held   []byte // The body while the answer may still be sent whole.
	wrote  int64  // Bytes of the body.
	begun  bool   // The head was sent.

	mu     sync.Mutex // Guards the rest.
	room   sync.Cond  // There is room in the window, or nobody waits any more.
	window int64
	gone   bool
}

var errGone = errors.New("nobody waits for the answer any more")

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Answers before the last one aren't sent. Unlike
// those of net/http, headers that are set later are sent, too, until the head is.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.bodiless() {
		return len(p), nil
	}
	w.wrote += int64(len(p))
	if !w.begun && len(w.held)+len(p) <= dataMax {
		w.held = append(w.held, p...)
		return len(p), nil
	}
	if err := w.FlushError(); err != nil {
		return 0, err
	}
	if err := w.data(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// bodiless: the answer has no body, whatever is written.
func (w *response) bodiless() bool {
	return w.request.Method == http.MethodHead || w.status == http.StatusNoContent || w.status == http.StatusNotModified
}

// FlushError sends what was written so far. It is for http.ResponseController.
func (w *response) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if !w.begun {
		w.begun = true
		w.describe()
		if err := w.send(w.frame(kindHead, w.header, nil)); err != nil {
			return err
		}
	}
	held := w.held
	w.held = nil
	return w.data(held)
}

// SetReadDeadline is for http.ResponseController: the body is here already.
func (w *response) SetReadDeadline(time.Time) error { return nil }

// describe says what the body is unless the handler did.
func (w *response) describe() {
	_, typed := w.header["Content-Type"]
	_, encoded := w.header["Content-Encoding"]
	if !typed && !encoded && len(w.held) > 0 {
		w.header.Set("Content-Type", http.DetectContentType(w.held))
	}
}

// data sends a piece of the body as far as the window allows, and waits for more of it.
func (w *response) data(p []byte) error {
	for len(p) > 0 {
		n, err := w.reserve(min(len(p), dataMax))
		if err != nil {
			return err
		}
		if err := w.send(end(append(begin(kindData, w.call, n), p[:n]...))); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// reserve takes some of the window.
func (w *response) reserve(n int) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.window == 0 && !w.gone {
		w.room.Wait()
	}
	if w.gone {
		return 0, errGone
	}
	n = int(min(int64(n), w.window))
	w.window -= int64(n)
	return n, nil
}

// more: the client took n bytes.
func (w *response) more(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.window += int64(min(n, windowBytes))
	w.room.Signal()
}

// cut: nobody waits for the answer.
func (w *response) cut() {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	w.room.Signal()
}

// finish sends what is left of the answer.
func (w *response) finish() {
	w.WriteHeader(http.StatusOK)
	trailers := takeTrailers(w.header)
	announced := lengthOf(w.header)
	var last []byte
	switch {
	case announced >= 0 && announced != w.wrote && !w.bodiless():
		w.breakOff()
		return
	case len(trailers) > 0 && w.FlushError() != nil:
		return // Nobody waits.
	case w.begun:
		m := message{headers: trailers}
		last = end(m.append(begin(kindEnd, w.call, m.size())))
	default:
		w.describe()
		if !w.bodiless() {
			w.header.Set("Content-Length", strconv.Itoa(len(w.held)))
		}
		last = w.frame(kindWhole, w.header, w.held)
	}
	_ = w.send(last) // After an error the connection ends.
}

// breakOff says that the answer goes no further.
func (w *response) breakOff() {
	_ = w.session.out.send(end(begin(kindBroken, w.call, 0))) // Or the connection's end says so.
}

// takeTrailers removes trailers from headers: those with the prefix, and those that were declared.
func takeTrailers(h http.Header) http.Header {
	var trailers http.Header
	take := func(from, name string) {
		if values, ok := h[from]; ok {
			if trailers == nil {
				trailers = make(http.Header)
			}
			trailers[name] = values
			delete(h, from)
		}
	}
	for name := range h {
		if len(name) > len(http.TrailerPrefix) && name[:len(http.TrailerPrefix)] == http.TrailerPrefix {
			take(name, http.CanonicalHeaderKey(name[len(http.TrailerPrefix):]))
		}
	}
	for _, name := range h["Trailer"] {
		take(http.CanonicalHeaderKey(name), http.CanonicalHeaderKey(name))
	}
	return trailers
}

func (w *response) frame(k kind, h http.Header, body []byte) []byte {
	m := message{texts: [3]string{strconv.Itoa(w.status)}, headers: h}
	return end(append(m.append(begin(k, w.call, m.size()+len(body))), body...))
}

func (w *response) send(f []byte) error {
	if len(f) > frameMax {
		w.session.server.log.Error("an answer's headers are too large", "path", w.request.URL.Path, "bytes", len(f))
		panic(http.ErrAbortHandler)
	}
	return w.session.out.send(f)
}

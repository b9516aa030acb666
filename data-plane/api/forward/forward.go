package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A copy begins with a small buffer and uses a large one while the small one fills
// up: each stream holds a buffer per direction, and most streams are idle or carry
// small frames.
const (
	copyBufferBytes  = 32 << 10
	smallBufferBytes = 2 << 10
)

// wholeBytesMax is the largest answer that is read to its end before any of it is
// sent on. Batches of a hundred jobs fit.
const wholeBytesMax = 32 << 10

// hopHeaders concern one connection only (RFC 9110 7.6.1) and are never carried on.
var hopHeaders = [...]string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// Forwarder carries requests over one transport. It is safe for concurrent use.
type Forwarder struct {
	transport http.RoundTripper
	buffers   sync.Pool
}

// New makes a Forwarder over transport, usually one of NewTransport.
func New(transport http.RoundTripper) *Forwarder {
	return &Forwarder{
		transport: transport,
		buffers:   sync.Pool{New: func() any { b := make([]byte, copyBufferBytes); return &b }},
	}
}

// Options of one request.
type Options struct {
	// Prepare may change the outgoing headers, after the hop-by-hop ones are gone:
	// the place to strip and sign.
	Prepare func(h http.Header)
	// Response may change the headers of the answer before they are sent.
	Response func(status int, h http.Header)
	// Refused, when not nil, may decline an answer before any of it is sent on:
	// Forward then returns the error, and the caller may try another target.
	Refused func(status int, h http.Header) error
	// Host is sent to the far side in place of the target's when not empty.
	Host string
	// Path replaces the request path (never the query) when not empty.
	Path string
	// Body replaces the request's body when not nil: one that was read whole, so
	// that it can be sent again.
	Body []byte
	// HalfClose, when done, ends the request body as if the client had: the far
	// side finishes what it has and closes the stream in order. Nil: never.
	HalfClose context.Context // A signal of the caller's life, not of the request's.
}

// Forward sends r to target (scheme and host count) and copies the answer to w,
// flushing after each read. Both directions run at the same time.
//
// A returned error means that nothing was written to w: the caller answers, and
// NeverSent tells whether the far side may have seen the request. An answer whose
// length is known and small is sent on once it is complete, so one that breaks off is
// an error as well. Of any other answer headers are sent at once; when the far side
// breaks then, the response is aborted with http.ErrAbortHandler, so that the client
// is told at once and cannot take it for a complete answer.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, target *url.URL, opts Options) error {
	out, body := f.outgoing(w, r, target, opts)
	defer body.end()
	resp, err := f.transport.RoundTrip(out)
	if err != nil {
		return fmt.Errorf("forward to %s: %w", target.Host, err)
	}
	defer resp.Body.Close()
	if opts.Refused != nil {
		if err := opts.Refused(resp.StatusCode, resp.Header); err != nil {
			return err
		}
	}
	whole, err := readWhole(resp)
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", target.Host, err)
	}
	f.answer(w, resp, body, whole, opts.Response)
	return nil
}

// readWhole is the body of an answer whose length is known and small, else nil.
func readWhole(resp *http.Response) ([]byte, error) {
	if resp.ContentLength <= 0 || resp.ContentLength > wholeBytesMax {
		return nil, nil
	}
	var body bytes.Buffer
	body.Grow(int(resp.ContentLength) + bytes.MinRead) // Or ReadFrom would grow it again.
	_, err := body.ReadFrom(resp.Body)
	return body.Bytes(), err
}

// requestBody is the outgoing body and the goroutine that feeds it.
type requestBody struct {
	w    http.ResponseWriter
	r    *http.Request
	pipe *io.PipeReader
	done chan struct{} // Closed by the copying goroutine.
	// whole: the client's body was read to its end.
	whole atomic.Bool
	// unwatch stops following the contexts that end the body.
	unwatch func()
}

func (f *Forwarder) outgoing(w http.ResponseWriter, r *http.Request, target *url.URL, opts Options) (*http.Request, *requestBody) {
	out := r.Clone(r.Context())
	out.RequestURI = ""
	out.Close = false
	out.URL.Scheme, out.URL.Host, out.URL.User = target.Scheme, target.Host, nil
	if opts.Path != "" {
		out.URL.Path, out.URL.RawPath = opts.Path, ""
	}
	out.Host = target.Host
	if opts.Host != "" {
		out.Host = opts.Host
	}
	stripHopHeaders(out.Header)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header.Set("User-Agent", "") // Or the transport would send Go's.
	}
	if opts.Prepare != nil {
		opts.Prepare(out.Header)
	}
	b := &requestBody{w: w, r: r}
	if opts.Body != nil {
		setBody(out, opts.Body)
		return out, b
	}
	b.start(out, f, opts.HalfClose)
	return out, b
}

// setBody also lets the transport resend the body by itself, where HTTP/2 says that
// the first try was not processed.
func setBody(out *http.Request, body []byte) {
	out.ContentLength = int64(len(body))
	if len(body) == 0 {
		out.Body = http.NoBody
		return
	}
	reader := func() io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }
	out.Body = reader()
	out.GetBody = func() (io.ReadCloser, error) { return reader(), nil }
}

func (b *requestBody) start(out *http.Request, f *Forwarder, halfClose context.Context) {
	if b.r.Body == nil || b.r.Body == http.NoBody || b.r.ContentLength == 0 {
		out.Body, out.ContentLength = http.NoBody, 0
		return
	}
	if b.r.ProtoMajor == 1 {
		// Ignored where it is not supported: the body of a unary call still passes.
		_ = http.NewResponseController(b.w).EnableFullDuplex()
	}
	reader, writer := io.Pipe()
	b.pipe, b.done = reader, make(chan struct{})
	out.Body = reader
	// Once headers are in, an HTTP/2 transport that waits for more of the body does
	// not notice that its context ends, so the body must.
	stop := context.AfterFunc(b.r.Context(), func() { reader.CloseWithError(errEnded) })
	b.unwatch = func() { stop() }
	if halfClose != nil {
		stopHalf := context.AfterFunc(halfClose, func() { _ = writer.Close() })
		b.unwatch = func() { stop(); stopHalf() }
	}
	go func() {
		defer close(b.done)
		err := f.copy(writer, b.r.Body, func() error { return nil })
		b.whole.Store(err == nil)
		writer.CloseWithError(err) // nil means io.EOF: the client half-closed.
	}()
}

// errEnded is what the transport reads from a body after the answer is complete.
var errEnded = errors.New("forwarded request ended")

// end stops the copying goroutine, also when the client still holds its side
// open, and waits for it.
func (b *requestBody) end() {
	if b.done == nil {
		return
	}
	b.isLast() // If the caller has yet to answer.
	b.unwatch()
	b.pipe.CloseWithError(errEnded)
	select {
	case <-b.done:
		return
	default:
	}
	if b.r.ProtoMajor == 1 {
		// An HTTP/1 body can be blocked in a read that Close would wait for.
		_ = http.NewResponseController(b.w).SetReadDeadline(time.Now())
	}
	_ = b.r.Body.Close()
	<-b.done
}

// isLast tells a client of HTTP/1 that its connection takes no more requests, unless the body was
// read to its end: what is left of it can't be told from the next request, which would get no answer.
func (b *requestBody) isLast() {
	if b.done != nil && b.r.ProtoMajor == 1 && !b.whole.Load() {
		b.w.Header().Set("Connection", "close")
	}
}

// answer sends whole or, when that is nil, what it reads from the far side.
func (f *Forwarder) answer(w http.ResponseWriter, resp *http.Response, asked *requestBody, whole []byte, change func(int, http.Header)) {
	stripHopHeaders(resp.Header)
	if change != nil {
		change(resp.StatusCode, resp.Header)
	}
	h := w.Header()
	for name, values := range resp.Header {
		h[name] = values
	}
	asked.isLast()
	w.WriteHeader(resp.StatusCode)
	flush := http.NewResponseController(w).Flush
	if resp.ContentLength <= 0 {
		// A stream: the client may wait for the headers before it sends anything.
		if flush() != nil {
			panic(http.ErrAbortHandler)
		}
	}
	if err := f.send(w, resp.Body, whole, flush); err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Trailer {
		h[http.TrailerPrefix+name] = values
	}
}

func (f *Forwarder) send(w io.Writer, body io.Reader, whole []byte, flush func() error) error {
	if whole == nil {
		return f.copy(w, body, flush)
	}
	_, err := w.Write(whole)
	return err
}

// copy passes on at once what it reads, and calls after for each piece.
func (f *Forwarder) copy(w io.Writer, body io.Reader, after func() error) error {
	small := make([]byte, smallBufferBytes)
	buf := small
	var large *[]byte
	giveBack := func() {
		if large != nil {
			f.buffers.Put(large)
			large, buf = nil, small
		}
	}
	defer giveBack()
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			if aerr := after(); aerr != nil {
				return aerr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case large == nil && n == len(small):
			large, _ = f.buffers.Get().(*[]byte)
			buf = *large
		case large != nil && n < len(small):
			giveBack()
		}
	}
}

func stripHopHeaders(h http.Header) {
	trailers := acceptsTrailers(h)
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopHeaders {
		h.Del(name)
	}
	if trailers {
		// gRPC servers require it on every hop.
		h.Set("Te", "trailers")
	}
}

func acceptsTrailers(h http.Header) bool {
	for _, line := range h["Te"] {
		for v := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(v), "trailers") {
				return true
			}
		}
	}
	return false
}

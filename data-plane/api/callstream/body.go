package callstream

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// wholeBody is a body that is here.
func wholeBody(text string) io.ReadCloser {
	if text == "" {
		return http.NoBody
	}
	return io.NopCloser(strings.NewReader(text))
}

// body is one that arrives while it is read. What was read makes room for more.
type body struct {
	conn     *connection
	call     uint64
	trailers http.Header // Of the response; filled at the end.
	unwatch  func() bool

	mu    sync.Mutex // Guards the rest.
	come  sync.Cond  // There is something to read, or the end.
	rest  []byte
	taken int   // Bytes that the server wasn't told of yet.
	err   error // What comes after the rest.
}

func newBody(c *connection, call uint64, ctx context.Context, trailers http.Header) *body {
	b := &body{conn: c, call: call, trailers: trailers}
	b.come.L = &b.mu
	b.unwatch = context.AfterFunc(ctx, func() { b.abandon(ctx.Err()) })
	return b
}

// add takes a piece from the connection.
func (b *body) add(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil // Nobody reads it.
	}
	if len(b.rest)+len(p) > windowBytes {
		return fmt.Errorf("%w: more than the window", errFrame)
	}
	b.rest = append(b.rest, p...)
	b.come.Signal()
	return nil
}

// end says what comes after what is here: io.EOF, with trailers, or an error.
func (b *body) end(trailers http.Header, err error) {
	b.unwatch()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return
	}
	maps.Copy(b.trailers, trailers)
	b.err = err
	b.come.Signal()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	for len(b.rest) == 0 && b.err == nil {
		b.come.Wait()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	b.taken += n
	var tell int
	if b.err == nil && b.taken >= windowBytes/4 {
		tell, b.taken = b.taken, 0
	}
	var err error
	if len(b.rest) == 0 && n == 0 {
		err = b.err
	}
	b.mu.Unlock()
	if tell > 0 {
		f := begin(kindMore, b.call, binary.MaxVarintLen64)
		_ = b.conn.out.send(end(binary.AppendUvarint(f, uint64(tell)))) // Or the connection's end says so.
	}
	return n, err
}

// Close implements io.Closer. It tells the server if the body was not read to its end.
func (b *body) Close() error {
	b.unwatch()
	b.abandon(errClosed)
	return nil
}

var errClosed = fmt.Errorf("read of a closed body")

// abandon: nobody reads the body any more.
func (b *body) abandon(err error) {
	b.mu.Lock()
	ended := b.err != nil
	if !ended {
		b.err, b.rest = err, nil
		b.come.Signal()
	}
	b.mu.Unlock()
	if !ended && b.conn.take(b.call) != nil {
		b.conn.cancel(b.call)
	}
}

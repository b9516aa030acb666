package stream

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Join returns a transport that sends each frame of a stream in one piece, which
// saves a system call and an HTTP/2 frame per frame on both sides. Requests that
// are not Connect streams pass unchanged.
func Join(next http.RoundTripper) http.RoundTripper { return &joiner{next: next} }

type joiner struct{ next http.RoundTripper }

func (j *joiner) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+") {
		r = r.Clone(r.Context())
		r.Body = &joinedBody{ReadCloser: r.Body}
	}
	return j.next.RoundTrip(r)
}

// CloseIdleConnections makes http.Client.CloseIdleConnections reach the transport.
func (j *joiner) CloseIdleConnections() {
	if c, ok := j.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// joinedBody gives the transport each message of a stream in one piece. Connect
// writes the five bytes of an envelope's prefix and its data apart, and HTTP/2
// makes a frame, a flush and a system call of each.
type joinedBody struct {
	io.ReadCloser
	buf   []byte
	ready []byte // Part of buf: read ahead and not yet handed out.
	whole int    // Bytes of a large message that are still to be passed through.
}

const (
	envelopePrefix = 5
	// joinMax is the largest message that is joined; the gain is with small ones.
	joinMax = 32 << 10
)

func (b *joinedBody) Read(p []byte) (int, error) {
	if b.whole > 0 {
		n, err := b.ReadCloser.Read(p[:min(len(p), b.whole)])
		b.whole -= n
		return n, err
	}
	if len(b.ready) == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// next reads a prefix and, unless the message is large, the message.
func (b *joinedBody) next() error {
	if b.buf == nil {
		b.buf = make([]byte, envelopePrefix+joinMax)
	}
	if _, err := io.ReadFull(b.ReadCloser, b.buf[:envelopePrefix]); err != nil {
		return err // io.EOF between messages is the end of the stream.
	}
	size := int(binary.BigEndian.Uint32(b.buf[1:envelopePrefix]))
	if size > joinMax {
		b.ready, b.whole = b.buf[:envelopePrefix], size
		return nil
	}
	if _, err := io.ReadFull(b.ReadCloser, b.buf[envelopePrefix:envelopePrefix+size]); err != nil {
		return fmt.Errorf("read a message of %d bytes: %w", size, err)
	}
	b.ready = b.buf[:envelopePrefix+size]
	return nil
}

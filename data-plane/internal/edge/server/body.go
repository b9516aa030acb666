package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/streams"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// body reads the request within the limit and within bodyTimeout.
func (c *call) body() ([]byte, error) {
	if c.raw != nil {
		return c.raw, nil // It was carried elsewhere and came back.
	}
	if c.r.ContentLength > RequestBytesMax {
		return nil, errTooLarge()
	}
	if c.r.ContentLength == 0 {
		return nil, nil
	}
	late := c.startBodyTimeout()
	defer late.Stop()
	in := http.MaxBytesReader(c.w, c.r.Body, RequestBytesMax)
	raw, err := readWhole(in, c.r.ContentLength)
	if err != nil {
		return nil, bodyError(err)
	}
	c.raw = raw
	return c.raw, nil
}

// readWhole reads a body of size bytes, or of any size if that is negative, into no more
// memory than it needs: a fetch keeps its body while it waits.
func readWhole(in io.Reader, size int64) ([]byte, error) {
	if size < 0 {
		return io.ReadAll(in)
	}
	buf := make([]byte, size+1) // One more, to see the end.
	n, err := io.ReadFull(in, buf)
	switch {
	case err == nil:
		rest, err := io.ReadAll(in)
		return append(buf, rest...), err
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case errors.Is(err, io.ErrUnexpectedEOF) && int64(n) == size:
		return buf[:n], nil
	}
	return nil, err
}

// startBodyTimeout ends a body that comes too slowly. A timer instead of a deadline: on
// HTTP/2 setting one is a round through the connection's loop, and nearly every
// body is there already.
func (c *call) startBodyTimeout() *streams.Timeout {
	rc := http.NewResponseController(c.w)
	t := streams.NewTimeout(func() { streams.CutReads(rc) })
	t.Start(bodyTimeout)
	return t
}

// timedBody is a body that somebody else reads, under a timeout until its end: a
// deadline that outlived the body would end a long poll.
type timedBody struct {
	io.ReadCloser
	late *streams.Timeout
}

func (b timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.late.Stop()
	}
	return n, err
}

func (b timedBody) Close() error {
	b.late.Stop()
	return b.ReadCloser.Close()
}

func bodyError(err error) error {
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return errTooLarge()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(fault.Invalid, "PARSE_ERROR", "the body is cut short")
	}
	return fault.New(fault.Invalid, "PARSE_ERROR", "the body did not arrive")
}

func errTooLarge() error {
	return fault.New(fault.TooLarge, "PAYLOAD_TOO_LARGE", "the body is larger than %d bytes", RequestBytesMax)
}

// parse reads the body as one strict JSON value; an empty body is {}.
func (c *call) parse() ([]byte, error) {
	b, err := c.body()
	if err != nil {
		return nil, err
	}
	b = bytes.Trim(b, " \t\r\n")
	if len(b) == 0 {
		return []byte("{}"), nil
	}
	if err := shape.Check(b); err != nil {
		return nil, fault.New(fault.Invalid, "PARSE_ERROR", "%s", err)
	}
	return b, nil
}

// decode reads the body by its shape, naming every problem at once.
func decode[T any](c *call, sh *shape.Shape[T], into *T) error {
	b, err := c.parse()
	if err != nil {
		return err
	}
	var d shape.Decoder
	sh.Read(&d, "", b, into)
	return d.Err()
}

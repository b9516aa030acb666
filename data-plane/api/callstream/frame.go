package callstream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
)

// kind of a frame. Every frame is its length (four bytes, of what follows), a kind, the number
// of a call (uvarint), and what the kind says.
type kind byte

const (
	kindCall   kind = iota + 1 // To the server: the whole request.
	kindCancel                 // To the server: nobody waits for the answer any more.
	kindMore                   // To the server: so many bytes of the answer were taken (uvarint).
	kindWhole                  // To the client: the whole answer.
	kindHead                   // To the client: an answer without its body.
	kindData                   // To the client: a piece of the body.
	kindEnd                    // To the client: the end of the body, with trailers.
	kindBroken                 // To the client: the answer breaks off here.
	kindPing                   // To the server, which answers with the same.
	kindLeave                  // To the client: send no more calls. Its answer with the same: none is to come.
)

const (
	lengthBytes = 4
	// frameMax bounds what a frame makes the other side hold.
	frameMax = 256 << 10
	// bodyMax is the largest request body that is carried: a larger one would keep others waiting.
	bodyMax = 64 << 10
	// headMax bounds the address and the headers of a request.
	headMax = 64 << 10
	// dataMax is the largest piece of an answer in a frame, and of one that is sent whole.
	dataMax = 32 << 10
	// windowBytes of an answer may be on their way before the client has taken any.
	windowBytes = 256 << 10
)

var errFrame = errors.New("malformed frame")

// frame is one that was received; its payload is valid until the next one is read.
type frame struct {
	kind    kind
	call    uint64
	payload []byte
}

// begin starts a frame; end completes it.
func begin(k kind, call uint64, room int) []byte {
	b := make([]byte, lengthBytes, lengthBytes+1+binary.MaxVarintLen64+room)
	return binary.AppendUvarint(append(b, byte(k)), call)
}

func end(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-lengthBytes))
	return b
}

func newReader(from io.Reader) *bufio.Reader { return bufio.NewReaderSize(from, dataMax) }

// frames reads frames of a connection.
type frames struct {
	from *bufio.Reader
	buf  []byte
}

func (f *frames) next() (frame, error) {
	var length [lengthBytes]byte
	if _, err := io.ReadFull(f.from, length[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > frameMax {
		return frame{}, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	if int(n) > cap(f.buf) {
		f.buf = make([]byte, n)
	}
	b := f.buf[:n]
	if _, err := io.ReadFull(f.from, b); err != nil {
		return frame{}, err
	}
	return parse(b)
}

// parse reads what follows the length.
func parse(b []byte) (frame, error) {
	if len(b) < 2 {
		return frame{}, errFrame
	}
	call, n := binary.Uvarint(b[1:])
	if n <= 0 {
		return frame{}, errFrame
	}
	return frame{kind(b[0]), call, b[1+n:]}, nil
}

// message is a request or an answer: some texts and headers. Its body is behind it.
type message struct {
	texts   [3]string
	headers http.Header
}

// append encodes the message behind b.
func (m *message) append(b []byte) []byte {
	for _, t := range m.texts {
		b = appendText(b, t)
	}
	n := 0
	for _, values := range m.headers {
		n += len(values)
	}
	b = binary.AppendUvarint(b, uint64(n))
	for name, values := range m.headers {
		for _, v := range values {
			b = appendText(appendText(b, name), v)
		}
	}
	return b
}

func appendText(b []byte, t string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(t))), t...)
}

// size is how many bytes append takes at most, or a few less.
func (m *message) size() int {
	n := 32
	for _, t := range m.texts {
		n += len(t)
	}
	for name, values := range m.headers {
		for _, v := range values {
			n += len(name) + len(v) + 4
		}
	}
	return n
}

// read decodes what append made, and returns the body. All texts are parts of one string.
func (m *message) read(payload []byte) (body string, err error) {
	r := reader{rest: string(payload)}
	for i := range m.texts {
		m.texts[i] = r.text()
	}
	m.headers = r.headers()
	return r.rest, r.err
}

// reader takes apart a payload; after an error it yields nothing.
type reader struct {
	rest string
	err  error
}

func (r *reader) number() uint64 {
	var v uint64
	for i := range min(len(r.rest), binary.MaxVarintLen64) {
		b := r.rest[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			r.rest = r.rest[i+1:]
			return v
		}
	}
	r.fail()
	return 0
}

func (r *reader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	t := r.rest[:n]
	r.rest = r.rest[n:]
	return t
}

func (r *reader) headers() http.Header {
	n := r.number()
	if n > uint64(len(r.rest))/2 { // Each takes two bytes at least.
		r.fail()
		return nil
	}
	h := make(http.Header, n)
	values := make([]string, n) // One array for the values of most headers.
	for i := range values {
		name := textproto.CanonicalMIMEHeaderKey(r.text())
		values[i] = r.text()
		if r.err != nil {
			return nil
		}
		if others, ok := h[name]; ok {
			h[name] = append(others, values[i])
			continue
		}
		h[name] = values[i : i+1 : i+1]
	}
	return h
}

func (r *reader) fail() { r.rest, r.err = "", errFrame }

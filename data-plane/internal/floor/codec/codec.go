// Package codec is the one binary encoding of the data plane: varints, length-
// prefixed bytes and fixed ids, written and read in the order of the fields. Log
// entries, job records and feed events all use it, each with a version byte of
// its own in front.
//
// It must not know what it carries. A Reader never panics and never allocates
// more than the input is long; it remembers the first error, so that decoders
// read straight through and check once.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is the error of every Reader.
var ErrMalformed = errors.New("malformed bytes")

// Writer appends fields to a buffer.
type Writer struct {
	Buf []byte
	// Measure leaves out bytes and texts, and only counts them in Left.
	Measure bool
	Left    int
}

// Byte appends one byte.
func (w *Writer) Byte(b byte) { w.Buf = append(w.Buf, b) }

// Uint appends an unsigned varint.
func (w *Writer) Uint(v uint64) { w.Buf = binary.AppendUvarint(w.Buf, v) }

// Int appends a signed varint.
func (w *Writer) Int(v int64) { w.Buf = binary.AppendVarint(w.Buf, v) }

// Fixed64 appends eight bytes.
func (w *Writer) Fixed64(v uint64) { w.Buf = binary.BigEndian.AppendUint64(w.Buf, v) }

// ID appends sixteen bytes.
func (w *Writer) ID(id [16]byte) { w.Buf = append(w.Buf, id[:]...) }

// Bytes appends a length and the bytes.
func (w *Writer) Bytes(b []byte) {
	w.Uint(uint64(len(b)))
	if w.Measure {
		w.Left += len(b)
		return
	}
	w.Buf = append(w.Buf, b...)
}

// Text appends a length and the text.
func (w *Writer) Text(s string) {
	w.Uint(uint64(len(s)))
	if w.Measure {
		w.Left += len(s)
		return
	}
	w.Buf = append(w.Buf, s...)
}

// Bool appends one byte, 0 or 1.
func (w *Writer) Bool(b bool) {
	if b {
		w.Byte(1)
		return
	}
	w.Byte(0)
}

// Reader takes fields from a buffer.
type Reader struct {
	buf []byte
	err error
}

// NewReader reads b. Slices it returns alias b.
func NewReader(b []byte) *Reader { return &Reader{buf: b} }

// Err is the first error, or nil.
func (r *Reader) Err() error { return r.err }

// Close is Err, and an error if anything is left unread.
func (r *Reader) Close() error {
	if r.err == nil && len(r.buf) > 0 {
		r.fail("trailing bytes")
	}
	return r.err
}

// Len is how many bytes are left.
func (r *Reader) Len() int { return len(r.buf) }

// Fail makes the reader fail, for a reason of the caller's.
func (r *Reader) Fail(what string) { r.fail(what) }

func (r *Reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	r.buf = nil
}

func (r *Reader) take(n uint64, what string) []byte {
	if r.err != nil || n > uint64(len(r.buf)) {
		r.fail(what)
		return nil
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if b := r.take(1, "byte"); b != nil {
		return b[0]
	}
	return 0
}

// Uint reads an unsigned varint.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.fail("varint")
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// Uint32 reads an unsigned varint that must fit 32 bits.
func (r *Reader) Uint32() uint32 {
	v := r.Uint()
	if v > 1<<32-1 {
		r.fail("varint too large")
		return 0
	}
	return uint32(v)
}

// Int reads a signed varint.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.buf)
	if n <= 0 {
		r.fail("varint")
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// Fixed64 reads eight bytes.
func (r *Reader) Fixed64() uint64 {
	if b := r.take(8, "fixed64"); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// ID reads sixteen bytes.
func (r *Reader) ID() (id [16]byte) {
	copy(id[:], r.take(16, "id"))
	return id
}

// Bytes reads a length and that many bytes; nil when the length is 0.
func (r *Reader) Bytes() []byte {
	n := r.Uint()
	if n == 0 {
		return nil
	}
	return r.take(n, "bytes")
}

// Text reads a length and that much text.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Name is Text of at most 255 bytes.
func (r *Reader) Name() string {
	s := r.Text()
	if len(s) > 255 {
		r.fail("name too long")
		return ""
	}
	return s
}

// Time reads a signed varint that must not be negative: Unix nanoseconds.
func (r *Reader) Time() int64 {
	v := r.Int()
	if v < 0 {
		r.fail("time before 1970")
		return 0
	}
	return v
}

// Bool reads one byte that must be 0 or 1.
func (r *Reader) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.fail("bool")
	}
	return b == 1
}

// Enum reads one byte that must be below end.
func (r *Reader) Enum(end byte) byte {
	b := r.Byte()
	if b >= end {
		r.fail("a value that is not known")
		return 0
	}
	return b
}

// Count reads the length of a list whose items take at least size bytes each,
// so that a short input can not ask for a long allocation.
func (r *Reader) Count(size int) int {
	n := r.Uint()
	if n > uint64(len(r.buf)/max(size, 1)) {
		r.fail("count")
		return 0
	}
	return int(n)
}

// Mask names the parts of a value that are there, a bit for each. A value whose rare
// parts stand behind a mask is as short as what it says.
type Mask uint64

// Has reports whether a part is there.
func (m Mask) Has(part Mask) bool { return m&part != 0 }

// If is the part if it is there, and nothing otherwise.
func (m Mask) If(there bool) Mask {
	if there {
		return m
	}
	return 0
}

// Mask appends the parts that follow.
func (w *Writer) Mask(m Mask) { w.Uint(uint64(m)) }

// Mask reads which parts follow.
func (r *Reader) Mask() Mask { return Mask(r.Uint()) }

// Confirm fails unless the parts that were read are those that the mask named: a part
// that is unknown, or named and empty, would give one value two forms.
func (r *Reader) Confirm(named, read Mask) {
	if named != read {
		r.fail("a part that is empty or not known")
	}
}

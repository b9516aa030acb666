package readmodel

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/cespare/xxhash/v2"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Position is a place in a list: everything up to it was shown. Created time and id
// never change, so a page begins where the last one ended, whatever happened in
// between.
type Position struct {
	CreatedAt int64
	ID        job.ID
}

var (
	// ErrCursor: the text is not a cursor.
	ErrCursor = errors.New("malformed cursor")
	// ErrOtherFilter: the cursor was made for another filter.
	ErrOtherFilter = errors.New("the cursor belongs to other filters")
)

const (
	cursorVersion = 1
	cursorLen     = 1 + 8 + 8 + 16
)

// A cursor is a position and the filter it is for. It is not signed, because it
// grants nothing: a forged one only chooses where in the caller's own list the page
// begins, as created_before does.

// encode writes the cursor that continues after p under f.
func (p Position) encode(f *Filter) string {
	b := make([]byte, 0, cursorLen)
	b = append(b, cursorVersion)
	b = binary.BigEndian.AppendUint64(b, f.digest())
	b = binary.BigEndian.AppendUint64(b, uint64(p.CreatedAt))
	b = append(b, p.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeCursor reads what encode wrote for the same filter.
func decodeCursor(text string, f *Filter) (Position, error) {
	if len(text) != base64.RawURLEncoding.EncodedLen(cursorLen) {
		return Position{}, ErrCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// It may be shorter: the decoder passes over line breaks, even when it is strict.
	if err != nil || len(b) != cursorLen || b[0] != cursorVersion {
		return Position{}, ErrCursor
	}
	p := Position{CreatedAt: int64(binary.BigEndian.Uint64(b[9:])), ID: job.ID(b[17:])}
	if p.CreatedAt < 0 {
		return Position{}, ErrCursor
	}
	if binary.BigEndian.Uint64(b[1:]) != f.digest() {
		return Position{}, ErrOtherFilter
	}
	return p, nil
}

// digest identifies the filter. The size of the page may differ between pages.
func (f *Filter) digest() uint64 {
	h := xxhash.New()
	num := func(v int64) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(v))
		_, _ = h.Write(b[:]) // A hash takes everything.
	}
	text := func(s string) {
		num(int64(len(s)))
		_, _ = h.WriteString(s)
	}
	text(f.Queue)
	num(int64(len(f.Only)))
	for _, pattern := range f.Only {
		text(pattern)
	}
	num(int64(f.Cause))
	num(int64(len(f.States)))
	for _, s := range f.States {
		num(int64(s))
	}
	num(int64(len(f.Tags)))
	for _, t := range f.Tags {
		text(t.Key)
		text(t.Value)
	}
	for _, s := range []Span{f.Created, f.Scheduled, f.Started, f.Completed} {
		num(s.After)
		num(s.Before)
	}
	num(optional(f.Priority))
	num(optional(f.AttemptMin))
	num(optional(f.AttemptMax))
	num(optional(f.HasErrors))
	text(f.Worker)
	num(optional(&f.Ascending))
	return h.Sum64()
}

// optional encodes a value that may be missing.
func optional[T job.Priority | uint32 | bool](v *T) int64 {
	if v == nil {
		return -1
	}
	switch v := any(*v).(type) {
	case job.Priority:
		return int64(v)
	case uint32:
		return int64(v)
	case bool:
		if v {
			return 1
		}
	}
	return 0
}

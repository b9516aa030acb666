package records

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// recordVersion is the version byte that every record starts with. Parts that only some
// records have stand behind a mask, so that one value has one form, and a short one.
const recordVersion = 1

// ErrRecord: a stored record can not be read. The node must stop.
var ErrRecord = errors.New("malformed record")

func newRecord(room int) codec.Fields {
	w := codec.Writer{Buf: make([]byte, 0, room)}
	w.Byte(recordVersion)
	return codec.Writing(w)
}

func openRecord(b []byte) codec.Fields {
	f := codec.Reading(b)
	if f.Reader().Byte() != recordVersion {
		f.Reader().Fail("version")
	}
	return f
}

func closeRecord(what string, f *codec.Fields) error {
	if err := f.Reader().Close(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrRecord, what, err)
	}
	return nil
}

// fields is what a record says of itself.
type fields[T any] interface {
	*T
	Fields(f *codec.Fields)
}

// encode and decode are for records that are not met with every job: a call through a type
// parameter moves the record to the heap.
func encode[T any, R fields[T]](room int, record R) []byte {
	f := newRecord(room)
	record.Fields(&f)
	return f.Written()
}

func decode[T any, R fields[T]](what string, v []byte) (record T, err error) {
	f := openRecord(v)
	R(&record).Fields(&f)
	return record, closeRecord(what, &f)
}

// encodeOne writes a record of one field.
func encodeOne[T any](room int, field func(f *codec.Fields, p *T), value T) []byte {
	f := newRecord(room)
	field(&f, &value)
	return f.Written()
}

// decodeOne reads what encodeOne wrote.
func decodeOne[T any](what string, field func(f *codec.Fields, p *T), v []byte) (value T, err error) {
	f := openRecord(v)
	field(&f, &value)
	return value, closeRecord(what, &f)
}

// EncodeTally is the bytes of the record.
func EncodeTally(n uint64) []byte { return encodeOne(8, (*codec.Fields).Uint, n) }

// DecodeTally reads what EncodeTally wrote.
func DecodeTally(v []byte) (uint64, error) { return decodeOne("tally", (*codec.Fields).Uint, v) }

func idsField(f *codec.Fields, ids *[]job.ID) { codec.IDs(f, ids) }

// EncodeIDs is the bytes of the record.
func EncodeIDs(ids []job.ID) []byte { return encodeOne(8+16*len(ids), idsField, ids) }

// DecodeIDs reads what EncodeIDs wrote.
func DecodeIDs(what string, v []byte) ([]job.ID, error) { return decodeOne(what, idsField, v) }

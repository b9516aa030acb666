package records

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// recordVersion is the version byte that every record starts with. Parts that only some
// records have stand behind a mask, so that one value has one form, and a short one.
const recordVersion = 1

// ErrRecord: a stored record can not be read. The node must stop.
var ErrRecord = errors.New("malformed record")

func newRecord(room int) codec.Writer {
	w := codec.Writer{Buf: make([]byte, 0, room)}
	w.Byte(recordVersion)
	return w
}

func openRecord(what string, b []byte) (*codec.Reader, error) {
	r := codec.NewReader(b)
	if v := r.Byte(); v != recordVersion {
		return nil, fmt.Errorf("%w: %s has version %d", ErrRecord, what, v)
	}
	return r, nil
}

func closeRecord(what string, r *codec.Reader) error {
	if err := r.Close(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrRecord, what, err)
	}
	return nil
}

func EncodeTally(n uint64) []byte {
	w := newRecord(8)
	w.Uint(n)
	return w.Buf
}

func DecodeTally(v []byte) (uint64, error) {
	r, err := openRecord("tally", v)
	if err != nil {
		return 0, err
	}
	n := r.Uint()
	return n, closeRecord("tally", r)
}

func EncodeIDs(ids []job.ID) []byte {
	w := newRecord(8 + 16*len(ids))
	command.EncodeIDs(&w, ids)
	return w.Buf
}

func DecodeIDs(what string, v []byte) ([]job.ID, error) {
	r, err := openRecord(what, v)
	if err != nil {
		return nil, err
	}
	ids := command.DecodeIDs(r)
	return ids, closeRecord(what, r)
}

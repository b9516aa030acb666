package stateread

import (
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// getter is what of a Reader a transaction has too.
type getter interface {
	Get(key []byte) ([]byte, error)
}

// Reader is a group's committed state or a snapshot of it.
type Reader interface {
	getter
	Scan(from, to []byte, f func(key, value []byte) (bool, error)) error
}

// Get reads one record; there is false if there is none.
func Get[T any](r getter, key []byte, decode func([]byte) (T, error)) (v T, there bool, err error) {
	b, err := r.Get(key)
	if errors.Is(err, statedb.ErrNotFound) {
		return v, false, nil
	}
	if err == nil {
		v, err = decode(b)
	}
	return v, err == nil, err
}

// existing reads a record for a snapshot, or ends that with statedb.ErrNotFound.
func existing[T any](r getter, key []byte, decode func([]byte) (T, error)) T {
	return statedb.Must(decode(statedb.Must(r.Get(key))))
}

// orZero reads a record that may not be there, for a snapshot.
func orZero[T any](r getter, key []byte, decode func([]byte) (T, error)) T {
	v, _, err := Get(r, key, decode)
	return statedb.Must(v, err)
}

// snapshot reads from one view of what was committed. What can not be read, or is not
// there, ends the reading (statedb.Must) with its error.
func snapshot[T any](g *statedb.Group, read func(v *statedb.View, space keys.Space) T) (_ T, err error) {
	v := g.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	defer func() { err = statedb.Ended(recover()) }()
	return read(v, keys.In(g.Prefix())), nil
}

func optional(v []byte, err error) ([]byte, error) {
	if errors.Is(err, statedb.ErrNotFound) {
		return nil, nil
	}
	return v, err
}

package stateread

import (
	"errors"

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
	ScanBack(from, to []byte, f func(key, value []byte) (bool, error)) error
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

func optional(v []byte, err error) ([]byte, error) {
	if errors.Is(err, statedb.ErrNotFound) {
		return nil, nil
	}
	return v, err
}

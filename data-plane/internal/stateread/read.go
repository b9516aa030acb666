package stateread

import (
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// getter is what of a Reader a transaction has too.
type getter interface {
	Get(key []byte) ([]byte, error)
}

// Reader is a group's committed state or a picture of it.
type Reader interface {
	getter
	Scan(from, to []byte, f func(key, value []byte) (bool, error)) error
}

func optional(v []byte, err error) ([]byte, error) {
	if errors.Is(err, statedb.ErrNotFound) {
		return nil, nil
	}
	return v, err
}

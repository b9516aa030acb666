package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// find reads a record, called what; there is false if there is none. One that can not be
// read ends the rule.
func find[T any](x *entry, key []byte, what string, decode func([]byte) (T, error)) (v T, there bool) {
	v, there, err := stateread.Get(x.txn, key, decode)
	if err != nil {
		statedb.Check(fmt.Errorf("%s at %x: %w", what, key, err))
	}
	return v, there
}

// read is find of a record that other records say is there.
func read[T any](x *entry, key []byte, what string, decode func([]byte) (T, error)) T {
	v, there := find(x, key, what, decode)
	if !there {
		statedb.Check(fmt.Errorf("%s at %x: %w", what, key, statedb.ErrNotFound))
	}
	return v
}

// asIs decodes what is stored as it came.
func asIs(v []byte) ([]byte, error) { return v, nil }

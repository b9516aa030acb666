package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// A rule of a command decides about jobs. Where what is stored can not be read there is
// nothing to decide: the rule ends there and then, and Apply answers with the error, which
// stops the node. So no rule carries that error up to Apply by hand, and none can lose it.

// unreadable is the panic with which a rule ends.
type unreadable struct{ err error }

// unread is the error for which a rule ended; any other panic goes on.
func (x *entry) unread(panicked any, cmds []command.Command) error {
	switch p := panicked.(type) {
	case nil:
		return nil
	case unreadable:
		if x.at == len(cmds) {
			return p.err
		}
		return fmt.Errorf("command %d (%T): %w", x.at, cmds[x.at], p.err)
	default:
		panic(p)
	}
}

// check ends the rule if there is an error.
func check(err error) {
	if err != nil {
		panic(unreadable{err})
	}
}

// must is what was read, if it could be.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// find reads a record, called what; there is false if there is none.
func find[T any](x *entry, key []byte, what string, decode func([]byte) (T, error)) (v T, there bool) {
	v, there, err := stateread.Get(x.txn, key, decode)
	if err != nil {
		check(fmt.Errorf("%s at %x: %w", what, key, err))
	}
	return v, there
}

// read is find of a record that other records say is there.
func read[T any](x *entry, key []byte, what string, decode func([]byte) (T, error)) T {
	v, there := find(x, key, what, decode)
	if !there {
		check(fmt.Errorf("%s at %x: %w", what, key, statedb.ErrNotFound))
	}
	return v
}

// asIs decodes what is stored as it came.
func asIs(v []byte) ([]byte, error) { return v, nil }

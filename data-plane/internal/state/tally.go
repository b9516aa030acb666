package state

import (
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// A tally is how many of something a namespace has, kept because a limit must not cost
// a scan. It has no record while it was never above none.

func (x *entry) tally(key []byte) (uint64, error) {
	v, err := x.txn.Get(key)
	if errors.Is(err, statedb.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return decodeTally(v)
}

func (x *entry) setTally(key []byte, n uint64) {
	w := newRecord(8)
	w.Uint(n)
	x.txn.Set(key, w.Buf)
}

func decodeTally(v []byte) (uint64, error) {
	r, err := openRecord("tally", v)
	if err != nil {
		return 0, err
	}
	n := r.Uint()
	return n, closeRecord("tally", r)
}

package state

import (
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/internal/records"
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
	return records.DecodeTally(v)
}

func (x *entry) setTally(key []byte, n uint64) {
	x.txn.Set(key, records.EncodeTally(n))
}

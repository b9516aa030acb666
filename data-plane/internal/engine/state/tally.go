package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// A tally is how many of something a namespace has, kept because a limit must not cost
// a scan. It has no record while it was never above none.

func (x *entry) tally(key []byte) (uint64, error) {
	n, _, err := stateread.Get(x.txn, key, records.DecodeTally)
	return n, err
}

func (x *entry) setTally(key []byte, n uint64) {
	x.txn.Set(key, records.EncodeTally(n))
}

package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// A tally is how many of something a namespace has, kept because a limit must not cost
// a scan. It has no record while it was never above none.

func (x *entry) tally(key []byte) uint64 {
	n, _ := find(x, key, "tally", records.DecodeTally)
	return n
}

func (x *entry) setTally(key []byte, n uint64) {
	x.txn.Set(key, records.EncodeTally(n))
}

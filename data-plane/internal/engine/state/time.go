package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// after is d nanoseconds of calendar time from now, never past the end of time.
func (x *entry) after(d int64) int64 { return records.SaturatingAdd(x.now, d) }

// nowOf is the entry's time on the clock that a due row waits for.
func (x *entry) nowOf(k keys.DueKind) int64 {
	if k.OnLeaseTime() {
		return x.lease
	}
	return x.now
}

func (x *entry) addDue(d keys.Due, value []byte) {
	x.txn.Set(x.m.space.Due(d), value)
	first := &x.out.FirstDue.Calendar
	if d.Kind.OnLeaseTime() {
		first = &x.out.FirstDue.Lease
	}
	if *first == 0 || d.At < *first {
		*first = d.At
	}
}

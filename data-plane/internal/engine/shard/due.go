package shard

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// dueTimer knows when something of the shard is due next, without polling for it.
// It reads the due rows only up to a horizon: rows further away are mostly leases
// that will be settled long before, and their leftovers are not worth walking over.
type dueTimer struct {
	lease   bool  // Its rows wait for lease time, else for calendar time.
	floor   int64 // No due row stands before it.
	next    int64 // Nothing is due before it.
	horizon time.Duration
}

const (
	horizonMin = time.Second
	horizonMax = time.Minute
)

// reset makes the timer look at the store at once.
func (d *dueTimer) reset() { *d = dueTimer{lease: d.lease, horizon: horizonMin} }

// added tells of a new due row, which may be of a time long past: a schedule that makes
// good what it missed goes on where the entry before was full.
func (d *dueTimer) added(at int64) {
	if at != 0 {
		d.floor, d.next = min(d.floor, at), min(d.next, at)
	}
}

// sleep is how long nothing is due.
func (d *dueTimer) sleep(now int64) time.Duration {
	return time.Duration(max(d.next-now, 0))
}

// ripe returns the rows that are due at now, at most limit, and finds out when
// the next one is.
func (d *dueTimer) ripe(store *statedb.Group, now int64, limit int) ([]keys.Due, error) {
	if now < d.next {
		return nil, nil
	}
	rows, err := stateread.ReadDue(store, d.lease, d.floor, now+1, limit)
	if err != nil {
		return nil, err
	}
	if len(rows) == limit { // Perhaps more: come back at once.
		d.floor, d.next = rows[len(rows)-1].At, now
		return rows, nil
	}
	if len(rows) > 0 {
		d.floor = rows[0].At // They are still there until the entry is applied.
	} else {
		d.floor = now
	}
	return rows, d.look(store, now)
}

// leave keeps a row that is due for an entry made not before a time.
func (d *dueTimer) leave(at, until int64) {
	d.floor, d.next = min(d.floor, at), min(d.next, until)
}

// look finds the first row after now within the horizon.
func (d *dueTimer) look(store *statedb.Group, now int64) error {
	ahead, err := stateread.ReadDue(store, d.lease, now+1, now+int64(d.horizon), 1)
	if err != nil {
		return err
	}
	if len(ahead) > 0 {
		d.next, d.horizon = ahead[0].At, horizonMin
		return nil
	}
	d.next = now + int64(d.horizon)
	d.horizon = min(2*d.horizon, horizonMax)
	return nil
}

package group

import (
	"sync"
	"time"
)

// A leader's clock follows the monotonic clock from the moment it took the term
// and moves towards the wall clock by at most one part in slewParts (R-T2): a wall
// clock that jumps an hour ahead does not expire a lease. It never goes back.
const slewParts = 20

// Clock tells the time; tests replace it.
type Clock interface {
	// Now carries a monotonic reading, as time.Now does.
	Now() time.Time
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now is time.Now.
func (SystemClock) Now() time.Time { return time.Now() }

type leaderClock struct {
	clock Clock

	mu   sync.Mutex // Guards the rest.
	last time.Time  // Reading of the clock at the last call.
	now  int64      // What was told at the last call, Unix nanoseconds.
}

// restart begins a term: not before floor, the last time in the log.
func (c *leaderClock) restart(floor int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = c.clock.Now()
	c.now = max(c.last.UnixNano(), floor+1)
}

// read returns a time larger than any it returned before.
func (c *leaderClock) read() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.clock.Now()
	elapsed := max(int64(t.Sub(c.last)), 0)
	next := c.now + elapsed
	gap := t.UnixNano() - next
	slew := elapsed / slewParts
	next += min(max(gap, -slew), slew)
	c.last = t
	c.now = max(next, c.now+1)
	return c.now
}

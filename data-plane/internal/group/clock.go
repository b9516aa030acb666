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
	// Now is the wall's reading and a monotonic one, which no jump of the wall moves.
	Now() (wall time.Time, monotonic time.Duration)
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now reads both clocks.
func (SystemClock) Now() (time.Time, time.Duration) {
	t := time.Now()
	return t, t.Sub(processStart())
}

// processStart is a fixed point of the monotonic clock.
var processStart = sync.OnceValue(time.Now)

type leaderClock struct {
	clock Clock

	mu   sync.Mutex    // Guards the rest.
	last time.Duration // Monotonic reading at the last call.
	now  int64         // What was told at the last call, Unix nanoseconds.
}

// restart begins a term: not before floor, the last time in the log.
func (c *leaderClock) restart(floor int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.clock.Now()
	c.last = mono
	c.now = max(wall.UnixNano(), floor+1)
}

// read returns a time larger than any it returned before.
func (c *leaderClock) read() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.clock.Now()
	elapsed := max(int64(mono-c.last), 0)
	next := c.now + elapsed
	gap := wall.UnixNano() - next
	slew := elapsed / slewParts
	next += min(max(gap, -slew), slew)
	c.last = mono
	c.now = max(next, c.now+1)
	return c.now
}

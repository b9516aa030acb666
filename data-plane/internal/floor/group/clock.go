package group

import (
	"context"
	"sync"
	"time"
)

// An entry carries two times, because leases and calendars want different things of a
// clock (R-T2).
//
// Lease time measures durations: leases, retries, throttles. It follows the monotonic
// clock and moves towards the wall by at most one part in slewParts, so that a wall
// that jumps, or a machine that slept, ends no lease.
//
// Calendar time is what people name and see: schedules, expiries, approvals, days,
// created_at. It follows the wall. When the wall goes back it stands still until the
// wall has caught up. When the wall jumps ahead it waits for settleTime, in which the
// peers say whether the wall is right, and then follows at once.
//
// Neither ever goes back, on no replica.
const (
	slewParts = 20
	// calendarStep is how far ahead calendar time follows the wall without a question: what
	// a clock service corrects all the time.
	calendarStep = time.Second
	// settleTime is how long calendar time waits before it follows a jump. The peers'
	// clocks are compared every second, so a wrong wall is known long before; and calendar
	// time has to be right within a minute of a suspend.
	settleTime = 20 * time.Second
	// LookEvery is how often an idle leader has to read its clock to notice a jump: with
	// settleTime it is well within the minute.
	LookEvery = 10 * time.Second
)

// Times are the two times of an entry, Unix nanoseconds. Of lease time only
// differences mean something.
type Times struct{ Lease, Calendar int64 }

// OnCalendar is the calendar time that is shown for a lease time, as seen at t.
func (t Times) OnCalendar(lease int64) int64 { return t.Calendar + lease - t.Lease }

// after is t with both moved on by at least a nanosecond, towards at.
func (t Times) after(at Times) Times {
	return Times{Lease: max(at.Lease, t.Lease+1), Calendar: max(at.Calendar, t.Calendar+1)}
}

// Clock tells the time; tests replace it.
type Clock interface {
	// Now is the wall's reading and a monotonic one, which no jump of the wall moves.
	Now() (wall time.Time, monotonic time.Duration)
}

// ClockPeers compare this node's wall clock with the other nodes'.
type ClockPeers interface {
	// Trusted reports whether most nodes of the cell agree with the wall as it is now.
	Trusted() bool
	// Wait blocks until the others have been asked, ctx ends, or patience is over.
	Wait(ctx context.Context, patience time.Duration)
}

// askedWithin is how long a new leader waits to learn whether its clock is right. Only
// the first term of a process may have to.
const askedWithin = 2 * time.Second

// nobodyElse is for a node alone, or one that shares its clock: there is no other.
type nobodyElse struct{}

func (nobodyElse) Trusted() bool                       { return true }
func (nobodyElse) Wait(context.Context, time.Duration) {}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now reads both clocks.
func (SystemClock) Now() (time.Time, time.Duration) {
	t := time.Now()
	return t, t.Sub(processStart())
}

// processStart is a fixed point of the monotonic clock.
var processStart = sync.OnceValue(time.Now)

// leaderClock makes the times of the entries of a term.
type leaderClock struct {
	clock Clock
	// trusted reports whether the wall is known to be right: most nodes of the cell agree,
	// or there is no other.
	trusted func() bool

	mu      sync.Mutex    // Guards the rest.
	last    time.Duration // Monotonic reading at the last call.
	now     Times         // What was told at the last call.
	jumped  bool          // The wall is ahead of calendar time by more than a step,
	since   time.Duration // first seen at this monotonic reading.
	standby time.Duration // How far the wall was behind calendar time at the last call.
}

// restart begins a term: not before floor, the last times in the log, which this
// replica applied when its monotonic clock read at. A wall that is trusted is believed
// at once; else both times go on from what is known.
func (c *leaderClock) restart(floor Times, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.clock.Now()
	passed := max(int64(mono-at), 0)
	c.last, c.jumped, c.standby = mono, false, 0
	begin := Times{Lease: floor.Lease + passed, Calendar: floor.Calendar + passed}
	if floor == (Times{}) || c.trusted() { // A log without an entry knows no time.
		begin = Times{Lease: max(wall.UnixNano(), begin.Lease), Calendar: wall.UnixNano()}
	}
	c.now = floor.after(begin)
}

// read returns times larger than any it returned before.
func (c *leaderClock) read() Times {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.clock.Now()
	elapsed := max(mono-c.last, 0)
	c.last = mono
	c.now = c.now.after(Times{
		Lease:    c.lease(wall.UnixNano(), int64(elapsed)),
		Calendar: c.calendar(wall.UnixNano(), int64(elapsed)),
	})
	return c.now
}

func (c *leaderClock) lease(wall, elapsed int64) int64 {
	next := c.now.Lease + elapsed
	slew := elapsed / slewParts
	return next + min(max(wall-next, -slew), slew)
}

func (c *leaderClock) calendar(wall, elapsed int64) int64 {
	c.standby = 0
	next := c.now.Calendar + elapsed
	ahead := time.Duration(wall - next)
	switch {
	case ahead < -calendarStep && !c.trusted():
		c.jumped = false
		return next
	case ahead <= calendarStep:
		c.jumped = false
		c.standby = time.Duration(max(c.now.Calendar-wall, 0))
		return wall
	case !c.jumped:
		c.jumped, c.since = true, c.last
		return next
	case c.last-c.since >= settleTime && c.trusted():
		c.jumped = false
		return wall
	default:
		return next
	}
}

// standstill is how long calendar time waits for a wall that was set back.
func (c *leaderClock) standstill() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standby
}

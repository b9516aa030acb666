package group

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func clockAt(trusted bool) (*leaderClock, *stepClock) {
	steps := &stepClock{now: time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC), mono: time.Hour}
	c := &leaderClock{clock: steps, trusted: func() bool { return trusted }}
	c.restart(Times{}, 0)
	return c, steps
}

// run lets a time pass with a reading every 100 ms.
func run(c *leaderClock, steps *stepClock, d time.Duration) Times {
	var at Times
	for range d / (100 * time.Millisecond) {
		steps.elapse(100*time.Millisecond, 0)
		at = c.read()
	}
	return at
}

func (c *stepClock) wall() int64 { return c.now.UnixNano() }

func TestLeaderClock_AWallThatJumpsAnHourMovesTheLogByMinutesOnly(t *testing.T) {
	t.Parallel()
	c, steps := clockAt(true)
	start := c.read().Lease
	run(c, steps, time.Minute)
	if got := time.Duration(c.read().Lease - start); got < 59*time.Second || got > 61*time.Second {
		t.Fatalf("a minute took %s", got)
	}
	steps.elapse(0, time.Hour)
	before := c.read().Lease
	run(c, steps, time.Minute)
	if got := time.Duration(c.read().Lease - before); got > 64*time.Second {
		t.Fatalf("the minute after the jump took %s in the log: leases would end early", got)
	}
}

// A machine sleeps for eight hours: its monotonic clock stops, the wall clock goes on.
func TestLeaderClock_AfterASuspendTheCalendarIsRightWithinAMinuteAndNoLeaseEnds(t *testing.T) {
	t.Parallel()
	c, steps := clockAt(true)
	slept := run(c, steps, time.Second)
	steps.elapse(0, 8*time.Hour)
	woken := c.read()
	if got := time.Duration(woken.Calendar - slept.Calendar); got > time.Second {
		t.Fatalf("calendar time followed a jump at once, by %s: nobody was asked whether the wall is right", got)
	}
	late := run(c, steps, time.Minute)
	if late.Calendar != steps.wall() {
		t.Fatalf("a minute after the suspend calendar time is %s off", time.Duration(steps.wall()-late.Calendar))
	}
	if got := time.Duration(late.Lease - slept.Lease); got > 64*time.Second {
		t.Fatalf("lease time went on by %s in a minute: leases end", got)
	}
}

// The idle leader looks every LookEvery.
func TestLeaderClock_AnIdleLeaderIsRightWithinAMinuteToo(t *testing.T) {
	t.Parallel()
	c, steps := clockAt(true)
	steps.elapse(LookEvery/2, 8*time.Hour)
	var at Times
	for range time.Minute / LookEvery {
		steps.elapse(LookEvery, 0)
		at = c.read()
	}
	if at.Calendar != steps.wall() {
		t.Fatalf("calendar time is %s off", time.Duration(steps.wall()-at.Calendar))
	}
}

func TestLeaderClock_AWallThatIsAheadForSecondsMovesNothing(t *testing.T) {
	t.Parallel()
	c, steps := clockAt(true)
	steps.elapse(0, time.Hour)
	run(c, steps, settleTime-time.Second)
	steps.elapse(0, -time.Hour)
	at := run(c, steps, 10*time.Minute)
	if at.Calendar != steps.wall() {
		t.Fatalf("calendar time is %s off", time.Duration(steps.wall()-at.Calendar))
	}
}

func TestLeaderClock_ACalendarThatWasAheadStandsStillUntilTheWallHasCaughtUp(t *testing.T) {
	t.Parallel()
	c, steps := clockAt(true)
	steps.elapse(0, time.Hour)
	ahead := run(c, steps, time.Minute)
	if ahead.Calendar != steps.wall() {
		t.Fatalf("calendar time did not follow: %s off", time.Duration(steps.wall()-ahead.Calendar))
	}
	steps.elapse(0, -time.Hour)
	still := run(c, steps, 30*time.Minute)
	if got := time.Duration(still.Calendar - ahead.Calendar); got > time.Millisecond {
		t.Fatalf("calendar time went on by %s while it was ahead of the wall", got)
	}
	if got := c.standstill(); got > time.Hour || got < 29*time.Minute {
		t.Fatalf("it stands still for another %s", got)
	}
	if got := time.Duration(still.Lease - ahead.Lease); got < 28*time.Minute || got > 32*time.Minute {
		t.Fatalf("30 minutes of leases took %s", got)
	}
	if right := run(c, steps, 31*time.Minute); right.Calendar != steps.wall() || c.standstill() != 0 {
		t.Fatalf("calendar time is %s off after the wall caught up", time.Duration(steps.wall()-right.Calendar))
	}
}

// A wall clock that most peers disagree with moves nothing, in either direction.
func TestLeaderClock_AWallThatIsNotTrustedIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		c, steps := clockAt(false)
		start := run(c, steps, time.Second)
		steps.elapse(0, off)
		at := run(c, steps, 10*time.Minute)
		if got := time.Duration(at.Calendar - start.Calendar); got != 10*time.Minute {
			t.Errorf("%s off: ten minutes took %s", off, got)
		}
	}
}

func TestLeaderClock_ANewTermNeverStartsBeforeTheLog(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		c, steps := clockAt(trusted)
		floor := Times{steps.wall() + int64(time.Hour), steps.wall() + int64(time.Hour)} // The old leader's clock was ahead.
		c.restart(floor, steps.mono)
		if now := c.read(); now.Lease <= floor.Lease || now.Calendar <= floor.Calendar {
			t.Fatalf("first times %v are not after %v", now, floor)
		}
	}
}

// A node whose wall clock is an hour ahead wins before it could learn that.
func TestLeaderClock_ANewTermGoesOnWhereTheLogWasUnlessTheWallIsTrusted(t *testing.T) {
	t.Parallel()
	c, steps := clockAt(false)
	floor := Times{steps.wall(), steps.wall()}
	at := steps.mono
	steps.elapse(10*time.Second, time.Hour)
	c.restart(floor, at)
	if now := c.read(); time.Duration(now.Calendar-floor.Calendar) > 11*time.Second || time.Duration(now.Lease-floor.Lease) > 11*time.Second {
		t.Fatalf("times moved on by %s and %s in ten seconds", time.Duration(now.Lease-floor.Lease), time.Duration(now.Calendar-floor.Calendar))
	}
	c.trusted = func() bool { return true }
	c.restart(floor, at)
	if now := c.read(); now.Calendar <= steps.wall() || now.Calendar > steps.wall()+2 {
		t.Fatalf("the calendar of a trusted wall is %s off", time.Duration(now.Calendar-steps.wall()))
	}
}

// Whatever clocks do: both times strictly increase (INV-19), lease time keeps to the
// monotonic clock within a twentieth, and calendar time never goes further ahead of the
// wall than it was.
func TestINV19_BothTimesStrictlyIncreaseWhateverTheClocksDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		trusted := rapid.Bool().Draw(t, "trusted")
		c, steps := clockAt(trusted)
		last := c.read()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			d := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "elapsed"))
			jump := time.Duration(0)
			if rapid.IntRange(0, 4).Draw(t, "jumps") == 0 {
				jump = time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "jump"))
			}
			steps.elapse(d, jump)
			if rapid.IntRange(0, 9).Draw(t, "election") == 0 {
				c.restart(last, steps.mono-d)
				if now := c.read(); now.Lease <= last.Lease || now.Calendar <= last.Calendar {
					t.Fatalf("a term began at %v, the log ends at %v", now, last)
				} else {
					last = now
				}
				continue
			}
			now := c.read()
			if now.Lease <= last.Lease || now.Calendar <= last.Calendar {
				t.Fatalf("time went from %v to %v", last, now)
			}
			if got := time.Duration(now.Lease - last.Lease); got > d+d/slewParts+2 || got < d-d/slewParts-2 {
				t.Fatalf("%s of leases took %s", d, got)
			}
			if trusted && now.Calendar > max(steps.wall(), last.Calendar+1) {
				t.Fatalf("calendar time went on to %s ahead of the wall", time.Duration(now.Calendar-steps.wall()))
			}
			last = now
		}
	})
}

// A term whose wall isn't trusted goes on from the last command. What comes after that, and has no time
// of its own, doesn't make it any later.
func TestClock_MembersAndNoOpsDoNotMoveTheTimeOfTheLastCommand(t *testing.T) {
	t.Parallel()
	steps := &stepClock{now: time.Unix(1_800_000_000, 0)}
	f := &fsm{clock: steps}
	last := applied{index: 7, now: Times{Lease: steps.wall(), Calendar: steps.wall()}}
	f.publish(last)
	steps.elapse(3*time.Hour, 0)
	last.index = 8
	f.publish(last)
	c := &leaderClock{clock: steps, trusted: func() bool { return false }}
	c.restart(f.applied.now, f.at)
	if at := c.read(); at.Calendar < steps.wall() || at.Lease < steps.wall() {
		t.Errorf("a new term is %s late", time.Duration(steps.wall()-at.Calendar))
	}
}

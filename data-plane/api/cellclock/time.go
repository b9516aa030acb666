package cellclock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// followEvery is how often Time is set to the nodes' time.
	followEvery = time.Second
	// settlePatience is how long Settle waits for the first answers.
	settlePatience = 2 * time.Second
)

// Time is the time of most nodes, whatever this process's own wall clock says (R-T2).
// It is for processes that sign or check expiries and are not nodes. Between answers,
// and while no nodes agree, it advances by the monotonic clock, so a jump of the wall
// clock does not move it. Until the first answers it is the wall clock.
type Time struct {
	clock   Clock
	at      atomic.Pointer[moment] // Nil: no answer yet.
	watch   atomic.Pointer[Watch]  // Nil before Follow.
	settled chan struct{}          // Closed once the time is known, or won't be soon.
	settle  sync.Once
}

// moment is a time of the cell, and the monotonic clock then.
type moment struct {
	cell time.Time
	mono time.Duration
}

// NewTime makes a Time that is the wall clock until Follow has answers. A nil clock is
// that of this machine.
func NewTime(clock Clock) *Time {
	if clock == nil {
		clock = NewMachineClock()
	}
	return &Time{clock: clock, settled: make(chan struct{})}
}

// Follow begins to ask the nodes, until ctx ends; wait blocks until it has stopped. It
// ignores Clock, Member and OnChange of the options.
func (t *Time) Follow(ctx context.Context, o Options) (wait func()) {
	// The first answer counts at once.
	o.Clock, o.Member, o.OnChange = t.clock, false, t.take
	watch := New(o)
	t.watch.Store(watch)
	var loops sync.WaitGroup
	loops.Go(func() { watch.Run(ctx) })
	loops.Go(func() { t.run(ctx, watch) })
	return loops.Wait
}

func (t *Time) run(ctx context.Context, watch *Watch) {
	patience := time.AfterFunc(settlePatience, t.settleNow)
	defer patience.Stop()
	defer t.settleNow()
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		t.take(watch.State())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// take goes by a state's own moment: the wall clock may have jumped since.
func (t *Time) take(s State) {
	if s.Status == Unknown {
		return // Keep what was known.
	}
	t.at.Store(&s.at)
	t.settleNow()
}

func (t *Time) settleNow() { t.settle.Do(func() { close(t.settled) }) }

// Settle waits until the time is known, Follow has given up the wait for it, or ctx ends.
// Without Follow it does not wait.
func (t *Time) Settle(ctx context.Context) {
	if t.watch.Load() == nil {
		return
	}
	select {
	case <-t.settled:
	case <-ctx.Done():
	}
}

// Now is the nodes' time as far as it is known.
func (t *Time) Now() time.Time {
	wall, mono := t.clock.Now()
	m := t.at.Load()
	if m == nil {
		return wall
	}
	return m.cell.Add(mono - m.mono)
}

// Known reports whether most nodes have ever agreed about the time.
func (t *Time) Known() bool { return t.at.Load() != nil }

// State is what is known of the wall clock; Unknown without Follow.
func (t *Time) State() State {
	if w := t.watch.Load(); w != nil {
		return w.State()
	}
	return State{}
}

// machineClock is the clock of this machine.
type machineClock struct{ began time.Time }

// NewMachineClock is the clock of this machine.
func NewMachineClock() Clock { return machineClock{time.Now()} }

// Now implements Clock.
func (m machineClock) Now() (time.Time, time.Duration) {
	now := time.Now()
	return now.Round(0), now.Sub(m.began)
}

package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// gateOf has so many units, whatever the processors do.
func gateOf(limit int64, weights map[string]int64) *Gate {
	g := New(Options{Weight: func(t string) int64 { return weights[t] }, Busy: func() bool { return true }})
	g.limit, g.least = limit, limit // As low as it gets.
	return g
}

func enter(t *testing.T, g *Gate, tenant string, units int64) Turn {
	t.Helper()
	turn, err := g.Enter(t.Context(), tenant, units)
	if err != nil {
		t.Fatalf("%s was not let in: %v", tenant, err)
	}
	return turn
}

func TestGate_WhoAsksForLittleNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(640, nil)
		var all sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for range 50 {
			all.Go(func() {
				for ctx.Err() == nil {
					turn, err := g.Enter(ctx, "flood", 64)
					if err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
					turn.Leave()
				}
			})
		}
		time.Sleep(time.Second)
		for range 100 {
			began := time.Now()
			turn := enter(t, g, "quiet", 4)
			if waited := time.Since(began); waited > 0 {
				t.Errorf("the quiet tenant waited %s", waited)
			}
			turn.Leave()
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		all.Wait()
		if g.used != 0 || g.weights != 0 || len(g.by) != 0 {
			t.Errorf("after all have left: %d units under way, weights %d", g.used, g.weights)
		}
	})
}

func TestGate_FloodsGetTheirWeight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(256, map[string]int64{"a": 1, "b": 3})
		done := map[string]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for _, name := range []string{"a", "b"} {
			for range 50 {
				all.Go(func() {
					for ctx.Err() == nil {
						turn, err := g.Enter(ctx, name, 64)
						if err != nil {
							return
						}
						time.Sleep(time.Millisecond)
						turn.Leave()
						mu.Lock()
						done[name]++
						mu.Unlock()
					}
				})
			}
		}
		time.Sleep(2 * time.Second)
		stop()
		all.Wait()
		if ratio := float64(done["b"]) / float64(done["a"]); ratio < 2.5 || ratio > 3.5 {
			t.Errorf("weight 3 got %.1f times what weight 1 got", ratio)
		}
		if done["a"]+done["b"] < 7000 { // Four at a time, a millisecond each.
			t.Errorf("%d turns in two seconds: the gate idles", done["a"]+done["b"])
		}
	})
}

func TestGate_WaitingIsBoundedAndSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64, nil)
		stuck := enter(t, g, "a", 64)
		began := time.Now()
		_, err := g.Enter(t.Context(), "a", 64)
		var f *fault.Error
		if !errors.As(err, &f) || f.Reason != "OVERLOADED" || f.RetryAfter <= 0 {
			t.Fatalf("got %v, want OVERLOADED with a time", err)
		}
		if took := time.Since(began); took != waitMax {
			t.Errorf("it waited %s", took)
		}
		stuck.Leave()
		enter(t, g, "a", 64).Leave()
	})
}

func TestGate_WhatWaitsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64, nil)
		stuck := enter(t, g, "a", 64)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range waitingMax / 64 {
			all.Go(func() {
				if turn, err := g.Enter(ctx, "a", 64); err == nil {
					turn.Leave()
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if _, err := g.Enter(ctx, "a", 64); err == nil || time.Since(began) > 0 {
			t.Errorf("got %v after %s, want to be refused at once", err, time.Since(began))
		}
		enter(t, g, "b", 4).Leave() // Within its share.
		stop()
		all.Wait()
		stuck.Leave()
		if g.waiting.Used() != 0 || len(g.by) != 0 {
			t.Errorf("%d units wait after everybody has left", g.waiting.Used())
		}
	})
}

// TestGate_RetryAfterIsTrue: who comes back after that time is let in.
func TestGate_RetryAfterIsTrue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64, nil)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		work := func(ctx context.Context) error {
			turn, err := g.Enter(ctx, "a", 64)
			if err == nil {
				time.Sleep(10 * time.Millisecond)
				turn.Leave()
			}
			return err
		}
		for range 10 { // The pace is known: 100 turns a second.
			for range 100 {
				if err := work(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range waitingMax/64 + 1 {
			all.Go(func() { _ = work(ctx) })
		}
		synctest.Wait()
		err := work(ctx)
		var f *fault.Error
		if !errors.As(err, &f) {
			t.Fatalf("got %v, want a refusal", err)
		}
		if f.RetryAfter < 4*time.Second || f.RetryAfter > waitMax {
			t.Errorf("ten seconds of work stand in line, of which what waits too long goes after %s: told %s", waitMax, f.RetryAfter)
		}
		time.Sleep(f.RetryAfter)
		if err := work(ctx); err != nil {
			t.Errorf("refused again after the time it was told: %v", err)
		}
		stop()
		all.Wait()
	})
}

func TestGate_TheLimitFollowsTheProcessors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := true
		g := New(Options{Busy: func() bool { return busy }})
		for range 100 {
			enter(t, g, "a", 1).Leave()
			time.Sleep(lookEvery)
		}
		if g.limit != g.least {
			t.Errorf("processors are short, and the limit is %d, not %d", g.limit, g.least)
		}
		busy = false
		for range 100 {
			enter(t, g, "a", 1).Leave()
			time.Sleep(lookEvery)
		}
		if g.limit != g.least {
			t.Errorf("nobody waits here, and the limit rose to %d", g.limit)
		}
		held := enter(t, g, "a", g.limit+100)
		entered := make(chan Turn)
		go func() {
			turn, _ := g.Enter(t.Context(), "a", 1)
			entered <- turn
		}()
		synctest.Wait()
		for range 100 {
			enter(t, g, "b", 1).Leave()
			time.Sleep(lookEvery)
			synctest.Wait()
			select {
			case turn := <-entered:
				turn.Leave()
				held.Leave()
				return
			default:
			}
		}
		t.Error("processors were free, and the limit did not rise")
	})
}

func TestScheduler_TellsWhatItsGoroutinesWaited(t *testing.T) {
	t.Parallel()
	s := newScheduler()
	s.pressure()
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			for began := time.Now(); time.Since(began) < 100*time.Microsecond; {
			}
		})
	}
	all.Wait()
	if got := s.pressure(); got < time.Millisecond {
		t.Errorf("a thousand goroutines of 0.1 ms at once: the slowest waited %s", got)
	}
}

func TestPressure_AMachineWithoutIdleTimeIsBusy(t *testing.T) {
	t.Parallel()
	now, idle, known := time.Now(), 0.05, true
	p := newPressure()
	p.now, p.waited = func() time.Time { return now }, func() time.Duration { return 0 }
	p.load = func() (float64, float64, bool) { return idle, 2, known }
	busy := func() bool {
		now = now.Add(idleEvery)
		return p.busy()
	}
	if !busy() {
		t.Error("with 5 % of idle time it is not busy")
	}
	if idle = 0.5; busy() {
		t.Error("with 50 % of idle time it is busy")
	}
	if idle, known = 0, false; busy() {
		t.Error("where the system does not tell, it is busy though no goroutine waits")
	}
	if p.waited = func() time.Duration { return 2 * tooLong }; !busy() {
		t.Error("goroutines wait, and it is not busy")
	}
}

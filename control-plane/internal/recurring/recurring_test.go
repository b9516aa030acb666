package recurring_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/recurring"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const lease = time.Minute

// work counts its passes.
func work(w *cloudtest.World, pass func(ctx context.Context, now time.Time) error) *recurring.Loop {
	return recurring.New(w.Kit, recurring.Work{Name: "test", Every: time.Millisecond, Lease: lease, Failed: "can't count", Pass: pass})
}

func TestPass_OneProcessAtATimeUntilItsLeaseEnds(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		var passes []string
		by := func(name string) *recurring.Loop {
			return work(w, func(context.Context, time.Time) error {
				passes = append(passes, name)
				return nil
			})
		}
		first, second := by("first"), by("second")
		pass := func(l *recurring.Loop) {
			t.Helper()
			if err := l.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		pass(first)
		pass(second)
		w.Advance(lease - time.Second)
		pass(first) // Its lease begins anew.
		w.Advance(lease - time.Second)
		pass(second)
		w.Advance(time.Second)
		pass(second)
		pass(first)
		if got := len(passes); got != 3 || passes[1] != "first" || passes[2] != "second" {
			t.Errorf("passes of %v", passes)
		}
	})
}

// A pass every second must not mean a write every second.
func TestPass_RenewsALeaseOnlyOnceAQuarterOfItIsOver(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		passes := 0
		l := work(w, func(context.Context, time.Time) error { passes++; return nil })
		end := func() time.Time {
			held, err := store.Get(t.Context(), w.Store.ReadService, func(tx *store.Tx) ([]store.Lease, error) { return tx.HeldLeases(t.Context(), "test", w.Now()) })
			if err != nil || len(held) != 1 {
				t.Fatalf("leases %v, %v", held, err)
			}
			return held[0].ExpiresAt
		}
		pass := func(after time.Duration) time.Time {
			w.Advance(after)
			if err := l.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			return end()
		}
		first := pass(0)
		if got := pass(lease/4 - time.Second); !got.Equal(first) {
			t.Errorf("renewed after less than a quarter: it ends %s later", got.Sub(first))
		}
		if got, want := pass(time.Second), first.Add(lease/4); !got.Equal(want) {
			t.Errorf("after a quarter it ends at %s, want %s", got, want)
		}
		// The clock was set back: nobody knows how old the lease is by that of the others.
		if got, want := pass(-time.Hour), first.Add(lease/4-time.Hour); !got.Equal(want) {
			t.Errorf("after the clock was set back it ends at %s, want %s", got, want)
		}
		if passes != 4 {
			t.Errorf("%d passes, want 4", passes)
		}
	})
}

func TestPass_EndsBeforeAnotherProcessMayBegin(t *testing.T) {
	t.Parallel()
	var left time.Duration
	_ = work(cloudtest.New(t), func(ctx context.Context, _ time.Time) error {
		end, _ := ctx.Deadline()
		left = time.Until(end)
		return nil
	}).Pass(t.Context())
	if left <= 0 || left > lease/2 {
		t.Errorf("a pass has %s of a lease of %s", left, lease)
	}
}

func TestRun_GoesOnAfterAPassThatFailed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	passes := 0
	work(cloudtest.New(t), func(context.Context, time.Time) error {
		if passes++; passes == 3 {
			cancel()
		}
		return errors.New("broken")
	}).Run(ctx)
	if passes != 3 {
		t.Errorf("%d passes", passes)
	}
}

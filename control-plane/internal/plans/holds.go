package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// States of a subscription, in the order in which they follow while nothing is paid.
const (
	Active     = store.SubscriptionActive
	PastDue    = "past_due"   // Everything works.
	Restricted = "restricted" // No new namespaces and keys.
	Suspended  = "suspended"  // No attempt begins; everything is kept.
)

var states = []string{Active, PastDue, Restricted, Suspended}

// LimitPayment is the limit that holds a suspended tenant's jobs back.
const LimitPayment = "payment"

// HoldOf is what is held back of a tenant's jobs at a time: what any limit holds is held,
// and the strongest gives it the name. Without a name nothing is held.
func HoldOf(ctx context.Context, tx *store.Tx, tenantID, state string, now time.Time) (store.Hold, error) {
	list, err := tx.ListHolds(ctx, tenantID)
	if err != nil {
		return store.Hold{}, err
	}
	if state == Suspended {
		list = append(list, store.Hold{TenantID: tenantID, Limit: LimitPayment, Dispatch: true})
	}
	return strongest(list, now), nil
}

func strongest(list []store.Hold, now time.Time) (hold store.Hold) {
	list = slices.DeleteFunc(slices.Clone(list), func(h store.Hold) bool {
		return !h.Until.IsZero() && !now.Before(h.Until) || !h.Dispatch && !h.Enqueue
	})
	if len(list) == 0 {
		return store.Hold{}
	}
	hold = slices.MaxFunc(list, compareHolds)
	for _, h := range list {
		hold.Dispatch, hold.Enqueue = hold.Dispatch || h.Dispatch, hold.Enqueue || h.Enqueue
	}
	return hold
}

// compareHolds: what holds more is stronger, then what lasts longer.
func compareHolds(a, b store.Hold) int {
	if n := weightOf(a) - weightOf(b); n != 0 {
		return n
	}
	switch {
	case a.Until.IsZero() != b.Until.IsZero():
		if a.Until.IsZero() {
			return 1
		}
		return -1
	case !a.Until.Equal(b.Until):
		return a.Until.Compare(b.Until)
	case a.Limit < b.Limit:
		return 1 // So that it does not depend on the order of rows.
	case a.Limit > b.Limit:
		return -1
	}
	return 0
}

func weightOf(h store.Hold) (n int) {
	if h.Dispatch {
		n++
	}
	if h.Enqueue {
		n += 2
	}
	return n
}

// SetHold holds back jobs of a tenant for a limit; the same hold again changes nothing.
func SetHold(ctx context.Context, k kit.Kit, tx *store.Tx, v store.Hold) error {
	was, err := tx.GetHold(ctx, v.TenantID, v.Limit)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	v.CreatedAt = k.Now()
	if err == nil && was.Dispatch == v.Dispatch && was.Enqueue == v.Enqueue && was.Value == v.Value && was.Until.Equal(v.Until) {
		return nil
	}
	fields := change.Fields{"dispatch": {After: v.Dispatch}, "enqueue": {After: v.Enqueue}}
	if v.Value != 0 {
		fields["value"] = store.Change{After: v.Value}
	}
	if !v.Until.IsZero() {
		fields["until"] = store.Change{After: stamp(v.Until)}
	}
	return change.Make(ctx, k, tx, "hold.set", change.PutHold(v), fields)
}

// ClearHold ends what a limit holds back; without it nothing changes.
func ClearHold(ctx context.Context, k kit.Kit, tx *store.Tx, tenantID, limit string) error {
	_, err := tx.GetHold(ctx, tenantID, limit)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return change.Make(ctx, k, tx, "hold.clear", change.DeleteHold(tenantID, limit), nil)
}

// SetState moves a subscription to another state; until is when the next one follows, if
// it does by itself. The same state again changes nothing.
func SetState(ctx context.Context, k kit.Kit, tx *store.Tx, tenantID, state, why string, until time.Time) error {
	if !slices.Contains(states, state) {
		return fmt.Errorf("set the state of tenant %s: %q is no state of a subscription", tenantID, state)
	}
	t, err := tx.FindTenant(ctx, tenantID)
	if err != nil {
		return err
	}
	s, err := tx.GetSubscription(ctx, tenantID)
	if err != nil || s.State == state && s.StateUntil.Equal(until) {
		return err
	}
	was := s.State
	if was != state {
		s.StateSince = k.Now()
	}
	s.State, s.StateUntil = state, until
	return change.Make(ctx, k, tx, "subscription.update", change.UpdateSubscriptionState(t, &s), change.Fields{"state": {Before: was, After: state}, "reason": {After: why}})
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

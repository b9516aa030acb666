package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// settingRound is the round that isn't over; settingComparedAt is when the last one began that
	// is, and settingAsked when an operator asked for one.
	settingRound      = "stripe_round"
	settingComparedAt = "stripe_compared_at"
	settingAsked      = "stripe_compare_asked"

	// roundPart of the customers are looked at before it is written down.
	roundPart = 50
	// failuresMax in a row mean that Stripe is away, and not that customers have problems.
	failuresMax = 3
)

// round is a look at all customers, once a day or when an operator asks. A pass of the loop is
// too short for all of them, so that it goes on where the last one came to.
type round struct {
	Began time.Time `json:"began"`
	After string    `json:"after"` // The tenant that was looked at last.
}

// Daily goes on with a round if one is due: each customer is asked about, for events that were
// lost, and compared. A customer with a problem is left for the next round.
func (s *Service) Daily(ctx context.Context) error {
	r, err := s.dueRound(ctx)
	if err != nil || r.Began.IsZero() {
		return err
	}
	meters, err := s.gateway.meters(ctx)
	if err != nil {
		return err
	}
	var problems []error
	failures, reached := 0, r.After
	for more := true; more; {
		list, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.StripeCustomer, error) {
			return tx.ListStripeCustomers(ctx, store.Page{After: reached, Limit: roundPart})
		})
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		for _, c := range list {
			err := errors.Join(s.sync(ctx, c.TenantID, nil), s.compareOne(ctx, c, meters))
			switch {
			case ctx.Err() != nil:
				return errors.Join(append(problems, ctx.Err())...)
			case err == nil || refused(err):
				failures, r.After = 0, c.TenantID
			default:
				failures++
			}
			if err != nil {
				problems = append(problems, err)
			}
			if failures == failuresMax {
				return errors.Join(append(problems, s.keepRound(ctx, r))...)
			}
			reached = c.TenantID
		}
		if more = len(list) == roundPart; more && failures == 0 {
			if err := s.keepRound(ctx, r); err != nil {
				return errors.Join(append(problems, err)...)
			}
		}
	}
	return errors.Join(append(problems, s.endRound(ctx, r))...)
}

// dueRound is one that isn't over or that has to begin now; the zero round if none has to.
func (s *Service) dueRound(ctx context.Context) (r round, _ error) {
	now := s.Now()
	return r, s.Store.ReadService(ctx, func(tx *store.Tx) error {
		r = round{}
		text, err := setting(ctx, tx, settingRound)
		if err != nil {
			return err
		}
		if text != "" {
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				return fmt.Errorf("read setting %s: %w", settingRound, err)
			}
			return nil
		}
		last, err := Compared(ctx, tx)
		if err == nil && (last.At.Before(now.UTC().Truncate(day)) || !last.Asked.IsZero()) {
			r.Began = now
		}
		return err
	})
}

func (s *Service) keepRound(ctx context.Context, r round) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.Store.Service(ctx, func(tx *store.Tx) error { return tx.PutSetting(ctx, settingRound, string(text), s.Now()) })
}

// endRound notes when a round began that is over, and forgets old events.
func (s *Service) endRound(ctx context.Context, r round) error {
	return s.Store.Service(ctx, func(tx *store.Tx) error {
		if _, err := tx.DeleteStripeEventsBefore(ctx, s.Now().Add(-eventsKept)); err != nil {
			return err
		}
		return errors.Join(tx.PutSetting(ctx, settingRound, "", s.Now()), putCompared(ctx, tx, r.Began))
	})
}

// Comparison is when something was compared last, and whether somebody waits for it.
type Comparison struct {
	// At is when the last one began that came to its end; zero: never.
	At time.Time
	// Asked is when somebody asked for one that isn't done; zero: nobody did.
	Asked time.Time
}

// Compared tells when the last comparison was.
func Compared(ctx context.Context, tx *store.Tx) (c Comparison, err error) {
	if c.At, err = settingTime(ctx, tx, settingComparedAt); err == nil {
		c.Asked, err = settingTime(ctx, tx, settingAsked)
	}
	if !c.Asked.After(c.At) {
		c.Asked = time.Time{}
	}
	return c, err
}

func putCompared(ctx context.Context, tx *store.Tx, began time.Time) error {
	return tx.PutSetting(ctx, settingComparedAt, began.UTC().Format(time.RFC3339Nano), began)
}

// AskToCompare has the loop begin a round at its next turn: it takes longer than a call may.
func AskToCompare(ctx context.Context, tx *store.Tx, now time.Time) error {
	return tx.PutSetting(ctx, settingAsked, now.UTC().Format(time.RFC3339Nano), now)
}

// setting is empty if it was never written.
func setting(ctx context.Context, tx *store.Tx, name string) (string, error) {
	text, err := tx.GetSetting(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return text, err
}

// settingTime is zero if it was never written.
func settingTime(ctx context.Context, tx *store.Tx, name string) (t time.Time, _ error) {
	text, err := setting(ctx, tx, name)
	if err != nil || text == "" {
		return t, err
	}
	if t, err = time.Parse(time.RFC3339Nano, text); err != nil {
		return t, fmt.Errorf("read setting %s: %w", name, err)
	}
	return t, nil
}

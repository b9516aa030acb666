package stripe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	kindEvent, kindItem                = "event", "item"
	stateOpen, stateDone, stateDiffers = "open", "done", "differs"

	// eventAgeMax is how old a meter event may be. Stripe takes 35 days; the hour is for the
	// time that a call takes and for its clock.
	eventAgeMax = 35*24*time.Hour - time.Hour
	// settled is after how long Stripe's summary surely has an event that it took.
	settled = time.Hour
	// onTime is how long after its end an hour is sent without a look at invoices. Stripe makes a
	// draft final an hour after the end of its period; until draftTakes it takes what is sent.
	onTime, draftTakes = 50 * time.Minute, 50 * time.Minute
	// lookAgain is after how long a customer's invoices are looked at again.
	lookAgain = time.Minute

	retryFirst, retryMax = 10 * time.Second, 30 * time.Minute

	sendMax = 200
)

// identifier is what Stripe knows a push by.
func identifier(tenantID string, m Meter, hour time.Time, revision int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "corvo\n%s\n%s\n%d\n%d", tenantID, m, hour.Unix(), revision))
	return hex.EncodeToString(sum[:])
}

// Push sends what the ledger has that Stripe hasn't. Several processes may do it at once. What was
// written down is sent whatever becomes of the rest, and before all of a backlog is.
func (s *Service) Push(ctx context.Context) error {
	for {
		more, planErr := s.plan(ctx)
		if planErr != nil {
			planErr = fmt.Errorf("write down what is to be sent to Stripe: %w", planErr)
		}
		if err := errors.Join(planErr, s.send(ctx)); err != nil || !more {
			return err
		}
	}
}

// hourTime is the beginning of an hour of the ledger.
func hourTime(hour int64) time.Time { return time.Unix(hour*3600, 0).UTC() }

func hourNumber(t time.Time) int64 { return t.Unix() / 3600 }

// send sends what is due, until nothing is.
func (s *Service) send(ctx context.Context) error {
	b := &batch{tried: make(map[string]bool), looks: make(map[string]*look)}
	for ctx.Err() == nil {
		due, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.BillingPush, error) { return tx.DueBillingPushes(ctx, s.Now(), sendMax) })
		if err == nil && len(due) > 0 && b.meters == nil {
			b.meters, err = s.gateway.meters(ctx)
		}
		if err != nil {
			return errors.Join(append(b.problems, err)...)
		}
		// Only now: once a revision is done, the next one of the hour is due.
		if !s.sendBatch(ctx, b, due) || b.away {
			break
		}
	}
	return errors.Join(b.problems...)
}

// sendersMax customers have something sent for them at a time.
const sendersMax = 16

// batch is what is sent in one pass.
type batch struct {
	meters map[string]string
	tried  map[string]bool
	looks  map[string]*look // By tenant, each used by one goroutine at a time.

	mu       sync.Mutex
	problems []error // Guarded by mu.
	away     bool    // Stripe doesn't answer. Guarded by mu.
}

// sendBatch sends what wasn't tried yet, a customer's one after the other, for one look at its
// invoices. It reports whether there was anything.
func (s *Service) sendBatch(ctx context.Context, b *batch, due []store.BillingPush) (some bool) {
	of := make(map[string][]store.BillingPush)
	for _, p := range due {
		if b.tried[p.Identifier] {
			continue
		}
		b.tried[p.Identifier] = true
		of[p.TenantID] = append(of[p.TenantID], p)
		if b.looks[p.TenantID] == nil {
			b.looks[p.TenantID] = new(look)
		}
	}
	var all errgroup.Group
	all.SetLimit(sendersMax)
	for tenantID, pushes := range of {
		all.Go(func() error {
			for _, p := range pushes {
				if !b.note(p, s.sendOne(ctx, p, b.meters, b.looks[tenantID])) {
					break
				}
			}
			return nil
		})
	}
	_ = all.Wait() // What went wrong is noted.
	return len(of) > 0
}

// note keeps a problem, and reports whether to go on: while nobody answers, the others are not
// tried either.
func (b *batch) note(p store.BillingPush, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
	case away(err):
		if !b.away {
			b.problems = append(b.problems, err)
		}
		b.away = true
	default:
		b.problems = append(b.problems, fmt.Errorf("%s of %s at %s: %w", p.Meter, p.TenantID, p.Hour.Format(time.RFC3339), err))
	}
	return !b.away
}

// away reports whether a call was not answered.
func away(err error) bool { return err != nil && errors.Is(err, errCall) && said(err) == nil }

var errCall = errors.New("no answer from Stripe")

// sendOne takes one push a step further. Whatever is lost, the row says enough for the next
// attempt to go on from.
func (s *Service) sendOne(ctx context.Context, p store.BillingPush, meters map[string]string, seen *look) error {
	was := p
	c, err := store.Get(ctx, s.tenantRead(p.TenantID), func(tx *store.Tx) (store.StripeCustomer, error) { return tx.GetStripeCustomer(ctx, p.TenantID) })
	if err != nil {
		return s.defers(ctx, was, err)
	}
	m, known := meterNamed(p.Meter)
	meterID := meters[m.eventName()]
	if !known || meterID == "" {
		return s.defers(ctx, p, fmt.Errorf("no meter %s at Stripe; run corvo-cloud control stripe sync", m.eventName()))
	}
	now := s.Now()
	if !p.FirstSentAt.IsZero() && now.Sub(p.FirstSentAt) >= repeatable {
		// Perhaps an attempt arrived. Stripe has forgotten its identifier by now, or will while
		// the next one is on its way.
		arrived, err := s.arrived(ctx, p, c, meterID)
		if err != nil {
			return s.defers(ctx, p, err)
		}
		switch arrived {
		case yes:
			return s.done(ctx, p)
		case differs:
			return s.differs(ctx, p)
		}
		p.FirstSentAt = time.Time{} // It is not there, and nothing has been on its way for an hour.
	}
	if p.FirstSentAt.IsZero() || p.Kind == kindEvent {
		late, err := s.tooLate(ctx, p, c, seen)
		switch {
		case away(err):
			return err
		case err != nil:
			return s.defers(ctx, was, err)
		case p.FirstSentAt.IsZero():
			p.Kind, p.FirstSentAt = kindOf(late), now
		case late || now.Sub(p.FirstSentAt) >= repeatable-settled:
			return s.waits(ctx, p)
		}
	}
	attempts := p.Attempts
	p.Attempts++
	p.DueAt = now.Add(backoff(p.Attempts))
	// Before the call: from here on it may have arrived.
	p, begun, err := s.begin(ctx, p, attempts)
	if err != nil {
		return s.defers(ctx, was, err)
	}
	if !begun {
		return nil
	}
	err = s.call(ctx, p, c, m)
	if e := said(err); p.Kind == kindItem && e != nil && e.HTTPStatusCode >= http.StatusInternalServerError {
		p, err = s.again(ctx, p, c, meterID, err)
	}
	return s.result(ctx, p, err)
}

// again gives an item that Stripe failed at a new key, for Stripe repeats that answer to the old
// one for a day. Nothing is on its way, so what Stripe has by now is all that it will have.
func (s *Service) again(ctx context.Context, p store.BillingPush, c store.StripeCustomer, meterID string, failed error) (store.BillingPush, error) {
	switch arrived, err := s.arrived(ctx, p, c, meterID); {
	case err != nil:
	case arrived == yes:
		failed = nil
	default:
		p.FirstSentAt = p.FirstSentAt.Add(time.Second)
	}
	return p, failed
}

// begin notes an attempt, and with the first one of an item what it costs. It reports whether it
// did: another process may have taken the push further.
func (s *Service) begin(ctx context.Context, p store.BillingPush, attempts int64) (begins store.BillingPush, begun bool, _ error) {
	err := s.Store.Tenant(ctx, p.TenantID, func(tx *store.Tx) (err error) {
		begins = p // As it was, if this is run again: what it costs has changed with what won the race.
		if p.Kind == kindItem && p.Currency == "" {
			if begins.Amount, begins.Currency, err = lateAmount(ctx, tx, p); err != nil {
				return fmt.Errorf("compute what it costs: %w", err)
			}
		}
		err = tx.NoteBillingPush(ctx, begins, attempts)
		begun = err == nil
		return meanwhile(err)
	})
	return begins, begun && err == nil, err
}

// call sends a push.
func (s *Service) call(ctx context.Context, p store.BillingPush, c store.StripeCustomer, m Meter) error {
	var err error
	if p.Kind == kindEvent {
		err = s.gateway.sendEvent(ctx, usageEvent{name: m.eventName(), identifier: p.Identifier, customerID: c.CustomerID, value: p.Value, at: p.Hour})
		if duplicate(err) {
			return nil // An earlier attempt arrived, and its answer was lost.
		}
	} else if p.Amount > 0 {
		err = s.gateway.createItem(ctx, invoiceItem{
			customerID: c.CustomerID, subscriptionID: c.SubscriptionID, identifier: p.Identifier, amount: p.Amount, currency: p.Currency,
			title: fmt.Sprintf("%s on %s, counted later: %d", units[m].title, p.Hour.Format(time.DateOnly), p.Value),
			key:   fmt.Sprintf("corvo-item-%s-%d", p.Identifier, p.FirstSentAt.Unix()),
		})
	}
	if err != nil && said(err) == nil {
		return fmt.Errorf("%w: %w", errCall, err)
	}
	return err
}

// duplicate reports whether Stripe has an event already. It has no code for that.
func duplicate(err error) bool {
	e := said(err)
	return e != nil && e.HTTPStatusCode == http.StatusBadRequest &&
		(string(e.Code) == "resource_already_exists" || strings.Contains(e.Msg, "already exists with identifier"))
}

// result writes down what became of a call. A refusal is final for this attempt alone: what
// is wrong, such as a meter that is not there yet, may be put right.
func (s *Service) result(ctx context.Context, p store.BillingPush, err error) error {
	if err == nil {
		return s.done(ctx, p)
	}
	attempts := p.Attempts
	p.LastError = clip(err.Error())
	if noteErr := s.note(ctx, p, attempts); noteErr != nil {
		return errors.Join(err, meanwhile(noteErr))
	}
	return err
}

func (s *Service) done(ctx context.Context, p store.BillingPush) error {
	attempts := p.Attempts
	p.State, p.LastError, p.DoneAt = stateDone, "", s.Now()
	return meanwhile(s.note(ctx, p, attempts))
}

func (s *Service) differs(ctx context.Context, p store.BillingPush) error {
	attempts := p.Attempts
	p.State, p.LastError = stateDiffers, "Stripe's summary of the hour is neither with this push nor without it"
	s.Log.ErrorContext(ctx, "usage at Stripe differs from what was sent", "tenant", p.TenantID, "meter", p.Meter, "hour", p.Hour)
	return meanwhile(s.note(ctx, p, attempts))
}

// defers puts a push off, as it was read. What stays due is read before all that came later, and
// so much is read at a time: one tenant's problem would be everybody's.
func (s *Service) defers(ctx context.Context, p store.BillingPush, why error) error {
	attempts := p.Attempts
	p.Attempts++
	p.DueAt, p.LastError = s.Now().Add(backoff(p.Attempts)), clip(why.Error())
	return errors.Join(why, meanwhile(s.note(ctx, p, attempts)))
}

func (s *Service) note(ctx context.Context, p store.BillingPush, attempts int64) error {
	return s.Store.Tenant(ctx, p.TenantID, func(tx *store.Tx) error { return tx.NoteBillingPush(ctx, p, attempts) })
}

// meanwhile is nil for a push that another process has taken further.
func meanwhile(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (s *Service) tenantRead(tenantID string) func(context.Context, func(*store.Tx) error) error {
	return func(ctx context.Context, f func(*store.Tx) error) error { return s.Store.ReadTenant(ctx, tenantID, f) }
}

type answer int

const (
	no answer = iota
	yes
	differs
)

// arrived asks Stripe whether an attempt of long ago arrived. All revisions of the hour before
// this one are done, and none after it was sent, so the sum of the hour is one of two numbers.
func (s *Service) arrived(ctx context.Context, p store.BillingPush, c store.StripeCustomer, meterID string) (answer, error) {
	if p.Kind == kindItem {
		is, err := s.gateway.hasItem(ctx, c.CustomerID, p.Identifier, p.FirstSentAt.Add(-settled))
		if is {
			return yes, err
		}
		return no, err
	}
	sum, err := s.gateway.summary(ctx, meterID, c.CustomerID, p.Hour, p.Hour.Add(time.Hour))
	if err != nil {
		return no, err
	}
	all, err := store.Get(ctx, s.tenantRead(p.TenantID), func(tx *store.Tx) ([]store.BillingPush, error) {
		return tx.ListBillingPushes(ctx, p.TenantID, p.Hour, p.Hour.Add(time.Hour))
	})
	if err != nil {
		return no, err
	}
	var before int64
	for _, q := range all {
		if q.Meter == p.Meter && q.Kind == kindEvent && q.State == stateDone {
			before += q.Value
		}
	}
	switch sum {
	case before:
		return no, nil
	case before + p.Value:
		return yes, nil
	}
	return differs, nil
}

// kindOf is how a push that is not on its way is sent: what is too late for an event is an item
// of the next invoice.
func kindOf(late bool) string {
	if late {
		return kindItem
	}
	return kindEvent
}

// look is what invoices a customer had at a time, or why Stripe didn't show them.
type look struct {
	at       time.Time
	invoices []invoiced
	refused  error
}

// tooLate reports whether a push is too old for an event, or too late for the invoice that the
// event would be on: Stripe takes such an event, and nobody ever pays it. What isn't on time is
// asked from Stripe, for the webhook that tells of an invoice may have been lost.
func (s *Service) tooLate(ctx context.Context, p store.BillingPush, c store.StripeCustomer, seen *look) (bool, error) {
	now := s.Now()
	switch {
	case now.Sub(p.Hour) >= eventAgeMax:
		return true, nil
	case now.Sub(p.Hour.Add(time.Hour)) < onTime:
		return store.Get(ctx, s.tenantRead(p.TenantID), func(tx *store.Tx) (bool, error) { return tx.StripeInvoiceCovers(ctx, p.TenantID, p.Hour) })
	}
	if now.Sub(seen.at) >= lookAgain {
		all, err := s.gateway.invoices(ctx, c.CustomerID, invoicesShown)
		if err != nil && said(err) == nil {
			return false, fmt.Errorf("%w: %w", errCall, err)
		}
		*seen = look{now, all, err}
	}
	if seen.refused != nil {
		return false, seen.refused
	}
	return slices.ContainsFunc(seen.invoices, func(i invoiced) bool {
		return !p.Hour.Before(i.from) && p.Hour.Before(i.to) && (i.status != "draft" || now.Sub(i.created) >= draftTakes)
	}), nil
}

// waits sends an event no more that may have arrived, until Stripe's summary tells: an item beside
// it would be paid twice.
func (s *Service) waits(ctx context.Context, p store.BillingPush) error {
	p.DueAt = s.Now().Add(settled)
	if told := p.FirstSentAt.Add(repeatable); told.After(p.DueAt) {
		p.DueAt = told
	}
	p.LastError = "it isn't sent again; Stripe is asked for its sum at " + p.DueAt.Format(time.RFC3339)
	return meanwhile(s.note(ctx, p, p.Attempts))
}

// lateAmount is what a push costs that is not on the invoice of its month: what the month
// costs with it, less what it costs without. The month is what Stripe was told of it, and no
// other push that is still to be sent: what is included is used up once.
func lateAmount(ctx context.Context, tx *store.Tx, p store.BillingPush) (amount int64, currency string, _ error) {
	m, err := pricedMonth(ctx, tx, p.TenantID, bill.Month(p.Hour))
	if err != nil {
		return 0, "", err
	}
	told, err := tx.ListBillingPushes(ctx, p.TenantID, m.period.Start, m.period.End)
	if err != nil {
		return 0, "", err
	}
	for _, q := range told {
		if q.Identifier != p.Identifier && !q.FirstSentAt.IsZero() {
			m.add(q)
		}
	}
	without, err := bill.Make(m.period, m.segments, m.counts)
	if err != nil {
		return 0, "", err
	}
	m.add(p)
	with, err := bill.Make(m.period, m.segments, m.counts)
	return with.Total - without.Total, m.currency, err
}

// backoff before the next attempt.
func backoff(attempts int64) time.Duration {
	return min(retryFirst<<min(attempts, 10), retryMax)
}

const errorShown = 500

// clip bounds what a row keeps of an error.
func clip(text string) string {
	if len(text) > errorShown {
		return text[:errorShown]
	}
	return text
}

package stripe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/recurring"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Meter is one thing that is counted.
type Meter int

// Meters, in the order of the ledger's columns.
const (
	JobsEnqueued Meter = iota
	Executions
	PayloadBytes
	StoredByteHours
	EgressBytes
	StreamsPeak
	metersCount
)

// unit is a meter as Stripe has it. Bytes are sent in larger units, rounded down each hour,
// because Stripe keeps twelve decimals of a price.
type unit struct {
	name, title string
	of          int64
}

var units = [metersCount]unit{
	{"jobs_enqueued", "Jobs enqueued", 1}, {"executions", "Executions", 1}, {"payload_bytes", "Payload, KB", 1 << 10},
	{"stored_byte_hours", "Stored, MB-hours", 1 << 20}, {"egress_bytes", "Egress, KB", 1 << 10}, {"streams_peak", "Streams, peak", 1},
}

// eventName of a meter at Stripe.
func (m Meter) eventName() string { return "corvo_" + units[m].name }

// String is the meter's name in the ledger.
func (m Meter) String() string { return units[m].name }

func meterNamed(name string) (Meter, bool) {
	for m := range metersCount {
		if units[m].name == name {
			return m, true
		}
	}
	return 0, false
}

// of is the meter's number, in Stripe's units.
func (m Meter) of(c store.Counts) int64 { return m.exact(c) / units[m].of }

// exact is the meter's number as it was counted.
func (m Meter) exact(c store.Counts) int64 {
	return [metersCount]int64{c.JobsEnqueued, c.Executions, c.PayloadBytes, c.StoredByteHours, c.EgressBytes, c.StreamsPeak}[m]
}

// State of a subscription of ours.
type State string

// States, in the order in which they follow while nothing is paid.
const (
	Active     State = store.SubscriptionActive
	PastDue    State = "past_due"
	Restricted State = "restricted"
	Suspended  State = "suspended"
)

// Plans changes what a tenant is subscribed to, each with its audit entry and outbox rows.
type Plans interface {
	// SetPlan takes effect at once. It is paid for, so what is refused to a person who chooses
	// a plan is no reason here.
	SetPlan(ctx context.Context, tx *store.Tx, tenantID, plan string, version int64) error
	// SetState says until when the state lasts if nothing is paid; zero: for ever.
	SetState(ctx context.Context, tx *store.Tx, tenantID string, state State, until time.Time) error
}

// Options of a Service.
type Options struct {
	// Key of Stripe's; empty: no payments.
	Key string
	// Secrets sign webhooks: the one that is used, and the one before it while that is being
	// replaced.
	Secrets []string
	// URL is the address of Stripe; empty: https://api.stripe.com.
	URL string
	// Account is empty for Stripe, and another for each one that stands for it.
	Account string
	Plans   Plans
}

// Service is the use cases, the webhook and the loop.
type Service struct {
	kit.Kit
	options Options
	mode    Mode
	gateway *gateway // Nil without a key.
	loop    *recurring.Loop
}

// settingMode is the mode that the database was first used with.
const settingMode = "stripe_mode"

// New makes a Service. It refuses a key of the mode that the database was not first used with:
// a customer of the test mode doesn't exist in the live mode, and test cards pay nothing.
func New(ctx context.Context, k kit.Kit, o Options) (*Service, error) {
	s := &Service{Kit: k, options: o}
	s.loop = recurring.New(k, recurring.Work{Name: "stripe", Every: tick, Lease: leaseFor, Failed: "not all of the work with Stripe was done", Pass: s.pass})
	if o.Key == "" {
		if len(o.Secrets) > 0 {
			return nil, errors.New("a webhook secret of Stripe without its key: give both or none")
		}
		return s, nil
	}
	if len(o.Secrets) == 0 {
		return nil, errors.New("a key of Stripe without the secret of its webhook: payments would never be noticed; give both or none")
	}
	var err error
	if s.mode, err = ModeOf(o.Key); err != nil {
		return nil, err
	}
	if s.gateway, err = newGateway(o.Key, o.URL, s.mode); err != nil {
		return nil, err
	}
	return s, s.claimMode(ctx)
}

// Payments reports whether payments can be made.
func (s *Service) Payments() bool { return s.gateway != nil }

func (s *Service) claimMode(ctx context.Context) error {
	mine := string(s.mode)
	if s.options.Account != "" {
		mine += " " + s.options.Account
	}
	used, err := store.Get(ctx, s.Store.Service, func(tx *store.Tx) (string, error) {
		err := tx.InsertSetting(ctx, settingMode, mine, s.Now())
		if err != nil && !errors.Is(err, store.ErrExists) {
			return "", err
		}
		return tx.GetSetting(ctx, settingMode)
	})
	if err != nil {
		return fmt.Errorf("read the mode of Stripe: %w", err)
	}
	if used != mine {
		return fmt.Errorf("%w: this database was first used with %s, and now it is used with %s; use a database for each", ErrMode, modeWords(used), modeWords(mine))
	}
	return nil
}

func modeWords(used string) string {
	mode, account, _ := strings.Cut(used, " ")
	if account != "" {
		return "the test payments " + account
	}
	return "a key of the " + mode + " mode"
}

// Pays reports whether a plan that is chosen here is paid for, as Stripe said last. A payment
// method alone isn't enough: without a subscription that lives, nothing is charged to it.
func Pays(ctx context.Context, tx *store.Tx, tenantID string) (bool, error) {
	c, err := tx.GetStripeCustomer(ctx, tenantID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return c.PaymentMethod && lives(c.Status), err
}

// HasPaymentMethod reports whether a tenant has a payment method, as Stripe said last.
func HasPaymentMethod(ctx context.Context, tx *store.Tx, tenantID string) (bool, error) {
	c, err := tx.GetStripeCustomer(ctx, tenantID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return c.PaymentMethod, err
}

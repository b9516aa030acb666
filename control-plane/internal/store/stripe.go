package store

import (
	"context"
	"errors"
	"strings"
	"time"
)

// BillingContacts are who gets emails about invoices and limits, besides owners and members with
// the billing role.
type BillingContacts struct {
	TenantID             string
	Emails               []string
	CreatedAt, UpdatedAt time.Time
	// Version is 0 for a tenant that never set any.
	Version int64
}

// StripeCustomer is what Stripe has of a tenant, as it was read last.
type StripeCustomer struct {
	TenantID string
	// CustomerID is empty while the customer is being made: Attempt is part of the
	// idempotency key, and AskedAt when that attempt was first sent.
	CustomerID string
	Attempt    int64
	AskedAt    time.Time
	// Status is Stripe's word for the subscription's; empty without one. Plan and
	// PlanVersion are what it is for.
	SubscriptionID, Status string
	Plan                   string
	PlanVersion            int64
	PaymentMethod          bool
	// Owes: an invoice was due and is not paid.
	Owes bool
	// PushFrom is the first hour that is sent to Stripe, zero for none; PushTo the first
	// that is not, zero for no end.
	PushFrom, PushTo     time.Time
	CreatedAt, UpdatedAt time.Time
	Version              int64
}

// StripeEnding is a subscription that has ended, until all that it owes is on an invoice.
type StripeEnding struct {
	TenantID, SubscriptionID string
	// PushFrom is the first hour that it pays, PushTo the first that it doesn't.
	PushFrom, PushTo time.Time
	// DueAt is when it is looked at again; zero: never.
	DueAt     time.Time
	CreatedAt time.Time
}

// BillingPush is one meter event, or one invoice item where it is too late for one.
type BillingPush struct {
	TenantID, Meter string
	Hour            time.Time
	Revision        int64
	Identifier      string
	// Kind is event or item, State open, done or differs.
	Kind, State string
	// Value is what the hour has beyond the revisions before.
	Value int64
	// Amount is what an item costs, in the smallest unit of Currency, which is empty until that
	// is decided.
	Amount      int64
	Currency    string
	FirstSentAt time.Time
	DueAt       time.Time
	Attempts    int64
	LastError   string
	CreatedAt   time.Time
	DoneAt      time.Time
}

// StripeEvent is an event of a webhook.
type StripeEvent struct {
	ID, Type string
	// Effect is applied or ignored.
	Effect                string
	CreatedAt, ReceivedAt time.Time
}

// StripeInvoice is an invoice of Stripe's.
type StripeInvoice struct {
	TenantID, ID           string
	Status, Currency       string
	Subtotal               int64
	PeriodStart, PeriodEnd time.Time
	Lines                  []StripeInvoiceLine
	// URL is Stripe's page; empty while it has none.
	URL                  string
	CreatedAt, UpdatedAt time.Time
	// AdjustedAt is when it got what its lines lacked to the bill; zero: never.
	AdjustedAt time.Time
}

// StripeInvoiceLine is one of its lines.
type StripeInvoiceLine struct {
	Item     string    `json:"item"`
	Title    string    `json:"title"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Quantity int64     `json:"quantity"`
	Amount   int64     `json:"amount"`
}

// BillingDifference is what ledger, pushes and Stripe's summaries don't agree on.
type BillingDifference struct {
	TenantID, Meter        string
	Day                    time.Time
	Ledger, Pushed, Summed int64
	FoundAt                time.Time
}

var (
	billingContacts = table[BillingContacts]{
		name: "billing_contacts", columns: "tenant_id, emails, created_at, updated_at, version",
		fields: func(v *BillingContacts) []any {
			return []any{&v.TenantID, asJSON{&v.Emails}, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version}
		},
		key: "tenant_id", changes: "emails, updated_at",
	}
	stripeCustomers = table[StripeCustomer]{
		name: "stripe_customers",
		columns: "tenant_id, customer_id, attempt, asked_at, subscription_id, status, plan, plan_version, payment_method, owes, push_from, push_to, " +
			"created_at, updated_at, version",
		fields: func(v *StripeCustomer) []any {
			return []any{&v.TenantID, &v.CustomerID, &v.Attempt, asTime{&v.AskedAt}, &v.SubscriptionID, &v.Status, &v.Plan, &v.PlanVersion,
				asBool{&v.PaymentMethod}, asBool{&v.Owes}, asTime{&v.PushFrom}, asTime{&v.PushTo}, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version}
		},
		key:     "tenant_id",
		changes: "customer_id, attempt, asked_at, subscription_id, status, plan, plan_version, payment_method, owes, push_from, push_to, updated_at",
	}
	stripeEndings = table[StripeEnding]{
		name: "stripe_endings", columns: "tenant_id, subscription_id, push_from, push_to, due_at, created_at",
		fields: func(v *StripeEnding) []any {
			return []any{&v.TenantID, &v.SubscriptionID, asTime{&v.PushFrom}, asTime{&v.PushTo}, asTime{&v.DueAt}, asTime{&v.CreatedAt}}
		},
	}
	billingPushes = table[BillingPush]{
		name: "billing_pushes",
		columns: "tenant_id, meter, hour, revision, identifier, kind, value, amount, currency, state, first_sent_at, due_at, attempts, last_error, " +
			"created_at, done_at",
		fields: func(v *BillingPush) []any {
			return []any{&v.TenantID, &v.Meter, asTime{&v.Hour}, &v.Revision, &v.Identifier, &v.Kind, &v.Value, &v.Amount, &v.Currency, &v.State, asTime{&v.FirstSentAt},
				asTime{&v.DueAt}, &v.Attempts, &v.LastError, asTime{&v.CreatedAt}, asTime{&v.DoneAt}}
		},
	}
	stripeEvents = table[StripeEvent]{
		name: "stripe_events", columns: "id, type, effect, created_at, received_at",
		fields: func(v *StripeEvent) []any {
			return []any{&v.ID, &v.Type, &v.Effect, asTime{&v.CreatedAt}, asTime{&v.ReceivedAt}}
		},
	}
	stripeInvoices = table[StripeInvoice]{
		name: "stripe_invoices", columns: "tenant_id, id, status, currency, subtotal, period_start, period_end, items, url, created_at, updated_at, adjusted_at",
		fields: func(v *StripeInvoice) []any {
			return []any{&v.TenantID, &v.ID, &v.Status, &v.Currency, &v.Subtotal, asTime{&v.PeriodStart}, asTime{&v.PeriodEnd}, asJSON{&v.Lines},
				&v.URL, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, asTime{&v.AdjustedAt}}
		},
	}
	billingDifferences = table[BillingDifference]{
		name: "billing_differences", columns: "tenant_id, meter, day, ledger, pushed, summed, found_at",
		fields: func(v *BillingDifference) []any {
			return []any{&v.TenantID, &v.Meter, asTime{&v.Day}, &v.Ledger, &v.Pushed, &v.Summed, asTime{&v.FoundAt}}
		},
	}
)

// GetBillingContacts gives a tenant's; one that never set any has none.
func (t *Tx) GetBillingContacts(ctx context.Context, tenantID string) (BillingContacts, error) {
	v, err := billingContacts.get(ctx, t.of(tenantID), "tenant_id = ?", tenantID)
	if errors.Is(err, ErrNotFound) {
		return BillingContacts{TenantID: tenantID}, nil
	}
	return v, err
}

// InsertBillingContacts writes a tenant's first ones.
func (t *Tx) InsertBillingContacts(ctx context.Context, v BillingContacts) error {
	return billingContacts.insert(ctx, t.of(v.TenantID), v)
}

// UpdateBillingContacts changes them at the version they were read at.
func (t *Tx) UpdateBillingContacts(ctx context.Context, v *BillingContacts) error {
	return billingContacts.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// InsertStripeCustomer adds what will be a customer; ErrExists if the tenant has one.
func (t *Tx) InsertStripeCustomer(ctx context.Context, v StripeCustomer) error {
	return stripeCustomers.insert(ctx, t.of(v.TenantID), v)
}

// GetStripeCustomer finds a tenant's customer.
func (t *Tx) GetStripeCustomer(ctx context.Context, tenantID string) (StripeCustomer, error) {
	return stripeCustomers.get(ctx, t.of(tenantID), "tenant_id = ?", tenantID)
}

// FindStripeCustomer finds one by Stripe's id.
func (t *Tx) FindStripeCustomer(ctx context.Context, customerID string) (StripeCustomer, error) {
	return stripeCustomers.get(ctx, t.across(), "customer_id = ? AND customer_id <> ''", customerID)
}

// ListStripeCustomers lists those that Stripe knows, by tenant.
func (t *Tx) ListStripeCustomers(ctx context.Context, p Page) ([]StripeCustomer, error) {
	return stripeCustomers.list(ctx, t.across(), p.limit(), "customer_id <> '' AND tenant_id > ? ORDER BY tenant_id", p.After)
}

// ListStripeCustomersElsewhere lists those whose tenant has another plan than Stripe's subscription, or
// is deleted.
func (t *Tx) ListStripeCustomersElsewhere(ctx context.Context, p Page) ([]StripeCustomer, error) {
	return stripeCustomers.list(ctx, t.across(), p.limit(), `customer_id <> '' AND tenant_id > ? AND EXISTS (
		SELECT 1 FROM tenants t JOIN subscriptions s ON s.tenant_id = t.tenant_id WHERE t.tenant_id = stripe_customers.tenant_id
		AND (t.deleted_at > 0 OR t.plan <> stripe_customers.plan OR s.plan_version <> stripe_customers.plan_version)) ORDER BY tenant_id`, p.After)
}

// UpdateStripeCustomer changes one at the version it was read at.
func (t *Tx) UpdateStripeCustomer(ctx context.Context, v *StripeCustomer) error {
	return stripeCustomers.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// StripeCustomersOf finds the customers of some tenants.
func (t *Tx) StripeCustomersOf(ctx context.Context, tenantIDs []string) ([]StripeCustomer, error) {
	return stripeCustomers.list(ctx, t.across(), len(tenantIDs), "tenant_id IN ("+places(len(tenantIDs))+")", anys(tenantIDs)...)
}

// PutStripeEnding records that a subscription has ended, or when it is looked at again.
func (t *Tx) PutStripeEnding(ctx context.Context, v StripeEnding) error {
	_, err := t.of(v.TenantID).exec(ctx, "replace ended subscription", "DELETE FROM stripe_endings WHERE tenant_id = ? AND subscription_id = ?", v.TenantID, v.SubscriptionID)
	if err != nil {
		return err
	}
	return stripeEndings.insert(ctx, t.of(v.TenantID), v)
}

// DueStripeEndings are those of all tenants that are looked at by now, the longest waiting first.
func (t *Tx) DueStripeEndings(ctx context.Context, now time.Time, limit int) ([]StripeEnding, error) {
	return stripeEndings.list(ctx, t.across(), limit, "due_at > 0 AND due_at <= ? ORDER BY due_at, tenant_id, subscription_id", now)
}

// TenantHour is an hour of a tenant, by its number.
type TenantHour struct {
	TenantID string
	Hour     int64
}

// ChangedHour is one that was closed or corrected.
type ChangedHour struct {
	At time.Time
	TenantHour
}

// ChangedHours are those that were closed or corrected after one, in that order, of all
// tenants: who is Stripe's customer is not asked here, so that a page is read as its
// index has it, however long the backlog is.
func (t *Tx) ChangedHours(ctx context.Context, after ChangedHour, limit int) ([]ChangedHour, error) {
	return query(ctx, t.across(), "list changed hours", func(v *ChangedHour) []any { return []any{asTime{&v.At}, &v.TenantID, &v.Hour} },
		`SELECT DISTINCT closed_at, tenant_id, hour FROM usage_hours WHERE (closed_at, tenant_id, hour) > (?, ?, ?)
		ORDER BY closed_at, tenant_id, hour LIMIT ?`, after.At, after.TenantID, after.Hour, limit)
}

// InsertBillingPush adds what will be sent; ErrExists if another process has added it.
func (t *Tx) InsertBillingPush(ctx context.Context, v BillingPush) error {
	return billingPushes.insert(ctx, t.of(v.TenantID), v)
}

// ListBillingPushes lists those of a span of hours, by meter, hour and revision. They are
// read to the end: a span is a month at most.
func (t *Tx) ListBillingPushes(ctx context.Context, tenantID string, from, to time.Time) ([]BillingPush, error) {
	return billingPushes.list(ctx, t.of(tenantID), pushesMax, "tenant_id = ? AND hour >= ? AND hour < ? ORDER BY meter, hour, revision", tenantID, from, to)
}

// BillingPushesOf lists those of some hours, of several tenants.
func (t *Tx) BillingPushesOf(ctx context.Context, hours []TenantHour) ([]BillingPush, error) {
	if len(hours) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 2*len(hours))
	for _, h := range hours {
		args = append(args, h.TenantID, time.Unix(h.Hour*3600, 0))
	}
	return billingPushes.list(ctx, t.across(), pushesMax, "(tenant_id, hour) IN "+pairs(len(hours)), args...)
}

// pairs is so many of a text and a number, as a list to look in.
func pairs(n int) string {
	return "(VALUES " + strings.TrimSuffix(strings.Repeat("(?, CAST(? AS BIGINT)), ", n), ", ") + ")"
}

// pushesMax is far above what a month can have: 744 hours, six meters, some revisions.
const pushesMax = 50_000

// DueBillingPushes are open ones that may be sent, of all tenants, the longest waiting first.
// Of an hour's revisions only the first open one is: what Stripe says of an hour tells
// whether one was received, never which of two.
func (t *Tx) DueBillingPushes(ctx context.Context, now time.Time, limit int) ([]BillingPush, error) {
	return billingPushes.list(ctx, t.across(), limit, `state = 'open' AND due_at <= ? AND NOT EXISTS (SELECT 1 FROM billing_pushes AS b
		WHERE b.tenant_id = billing_pushes.tenant_id AND b.meter = billing_pushes.meter AND b.hour = billing_pushes.hour
		AND b.revision < billing_pushes.revision AND b.state <> 'done') ORDER BY due_at, tenant_id, meter, hour, revision`, now)
}

// NoteBillingPush records what became of a push, unless another process has since it was
// read, after so many attempts.
func (t *Tx) NoteBillingPush(ctx context.Context, v BillingPush, attempts int64) error {
	return t.of(v.TenantID).change(ctx, "note push", `UPDATE billing_pushes SET kind = ?, amount = ?, currency = ?, state = ?, first_sent_at = ?, due_at = ?, attempts = ?, last_error = ?, done_at = ?
		WHERE tenant_id = ? AND meter = ? AND hour = ? AND revision = ? AND attempts = ? AND state <> 'done'`,
		v.Kind, v.Amount, v.Currency, v.State, v.FirstSentAt, v.DueAt, v.Attempts, v.LastError, v.DoneAt, v.TenantID, v.Meter, v.Hour, v.Revision, attempts)
}

// OpenBillingPushes counts those that were made before a time, and of which it isn't known yet
// what Stripe has.
func (t *Tx) OpenBillingPushes(ctx context.Context, before time.Time) (int, error) {
	return t.across().count(ctx, "count open pushes", "SELECT COUNT(*) FROM billing_pushes WHERE state = 'open' AND created_at < ?", before)
}

// InsertStripeEvent records an event: ErrExists if it was.
func (t *Tx) InsertStripeEvent(ctx context.Context, v StripeEvent) error {
	return stripeEvents.insert(ctx, t.across(), v)
}

// HasStripeEvent reports whether an event was recorded.
func (t *Tx) HasStripeEvent(ctx context.Context, id string) (bool, error) {
	n, err := t.across().count(ctx, "look for an event", "SELECT 1 FROM stripe_events WHERE id = ?", id)
	return n > 0, err
}

// DeleteStripeEventsBefore forgets events received before a time, and counts them.
func (t *Tx) DeleteStripeEventsBefore(ctx context.Context, received time.Time) (int, error) {
	return t.across().exec(ctx, "forget events", "DELETE FROM stripe_events WHERE received_at < ?", received)
}

// PutStripeInvoice writes an invoice as it is now; when it was adjusted stays.
func (t *Tx) PutStripeInvoice(ctx context.Context, v StripeInvoice) error {
	before, err := stripeInvoices.get(ctx, t.of(v.TenantID), "tenant_id = ? AND id = ?", v.TenantID, v.ID)
	if errors.Is(err, ErrNotFound) {
		return stripeInvoices.insert(ctx, t.of(v.TenantID), v)
	}
	if err != nil {
		return err
	}
	v.AdjustedAt = before.AdjustedAt
	if _, err := t.of(v.TenantID).exec(ctx, "replace invoice", "DELETE FROM stripe_invoices WHERE tenant_id = ? AND id = ?", v.TenantID, v.ID); err != nil {
		return err
	}
	return stripeInvoices.insert(ctx, t.of(v.TenantID), v)
}

// DraftStripeInvoices are drafts of all tenants that were made before a time and were not
// adjusted yet, the oldest first.
func (t *Tx) DraftStripeInvoices(ctx context.Context, before time.Time, limit int) ([]StripeInvoice, error) {
	return stripeInvoices.list(ctx, t.across(), limit, "status = 'draft' AND adjusted_at = 0 AND created_at <= ? ORDER BY created_at, tenant_id, id", before)
}

// NoteAdjustedInvoice records that an invoice was adjusted.
func (t *Tx) NoteAdjustedInvoice(ctx context.Context, tenantID, id string, at time.Time) error {
	return t.of(tenantID).change(ctx, "note adjusted invoice", "UPDATE stripe_invoices SET adjusted_at = ? WHERE tenant_id = ? AND id = ?", at, tenantID, id)
}

// HasOpenBillingPush reports whether something of a tenant's hours before one is still to be
// sent. Of hours before givenUp, what differs is not, nor what waits for it.
func (t *Tx) HasOpenBillingPush(ctx context.Context, tenantID string, before, givenUp time.Time) (bool, error) {
	n, err := t.of(tenantID).count(ctx, "look for an open push", `SELECT 1 FROM billing_pushes WHERE tenant_id = ? AND state <> 'done' AND hour < ?
		AND (hour >= ? OR NOT EXISTS (SELECT 1 FROM billing_pushes AS b WHERE b.tenant_id = billing_pushes.tenant_id AND b.meter = billing_pushes.meter
		AND b.hour = billing_pushes.hour AND b.revision <= billing_pushes.revision AND b.state = 'differs')) LIMIT 1`, tenantID, before, givenUp)
	return n > 0, err
}

// DifferingBillingPushes counts those of a tenant's hours before one of which Stripe has something else.
func (t *Tx) DifferingBillingPushes(ctx context.Context, tenantID string, before time.Time) (int, error) {
	return t.of(tenantID).count(ctx, "count differing pushes", "SELECT COUNT(*) FROM billing_pushes WHERE tenant_id = ? AND state = 'differs' AND hour < ?", tenantID, before)
}

// ListStripeInvoices lists a tenant's before one, by its period's start and id, the newest
// first.
func (t *Tx) ListStripeInvoices(ctx context.Context, tenantID string, start time.Time, id string, limit int) ([]StripeInvoice, error) {
	return stripeInvoices.list(ctx, t.of(tenantID), limit, "tenant_id = ? AND (period_start, id) < (?, ?) ORDER BY period_start DESC, id DESC", tenantID, start, id)
}

// StripeInvoiceCovers reports whether an invoice that can't be changed any more is about a time.
func (t *Tx) StripeInvoiceCovers(ctx context.Context, tenantID string, at time.Time) (bool, error) {
	n, err := t.of(tenantID).count(ctx, "look for an invoice of a time", `SELECT 1 FROM stripe_invoices
		WHERE tenant_id = ? AND period_start <= ? AND period_end > ? AND status <> 'draft' LIMIT 1`, tenantID, at, at)
	return n > 0, err
}

// PutBillingDifference records a difference.
func (t *Tx) PutBillingDifference(ctx context.Context, v BillingDifference) error {
	if err := t.DeleteBillingDifference(ctx, v.TenantID, v.Meter, v.Day); err != nil {
		return err
	}
	return billingDifferences.insert(ctx, t.of(v.TenantID), v)
}

// DeleteBillingDifference forgets a difference, if there is one.
func (t *Tx) DeleteBillingDifference(ctx context.Context, tenantID, meter string, day time.Time) error {
	_, err := t.of(tenantID).exec(ctx, "forget difference", "DELETE FROM billing_differences WHERE tenant_id = ? AND meter = ? AND day = ?", tenantID, meter, day)
	return err
}

// ListBillingDifferences lists those of all tenants, the newest day first.
func (t *Tx) ListBillingDifferences(ctx context.Context, limit int) ([]BillingDifference, error) {
	return billingDifferences.list(ctx, t.across(), limit, "1 = 1 ORDER BY day DESC, tenant_id, meter")
}

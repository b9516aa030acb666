package stripe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/stripe"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const secret, oldSecret = "whsec_new", "whsec_old"

// world is a control plane with a Stripe.
type world struct {
	*cloudtest.World
	svc     *stripe.Service
	stripe  *stripetest.Server
	webhook string
}

// plans changes the rows of subscriptions, without what the room of plans does beside.
type plans struct{ kit.Kit }

func (p plans) SetPlan(ctx context.Context, tx *store.Tx, tenantID, plan string, version int64) error {
	t, err := tx.GetTenant(ctx, tenantID)
	if err != nil {
		return err
	}
	sub, err := tx.GetSubscription(ctx, tenantID)
	if err != nil {
		return err
	}
	t.Plan, sub.PlanVersion = plan, version
	return errors.Join(tx.UpdateTenant(ctx, &t), tx.UpdateSubscription(ctx, &sub),
		tx.PutSubscriptionChange(ctx, store.SubscriptionChange{TenantID: tenantID, At: p.Now(), Plan: plan, PlanVersion: version}))
}

func (p plans) SetState(ctx context.Context, tx *store.Tx, tenantID string, state stripe.State, until time.Time) error {
	sub, err := tx.GetSubscription(ctx, tenantID)
	if err != nil {
		return err
	}
	sub.State, sub.StateSince, sub.StateUntil = string(state), p.Now(), until
	return tx.UpdateSubscription(ctx, &sub)
}

func options(k kit.Kit, url string) stripe.Options {
	return stripe.Options{Key: stripetest.Key, Secrets: []string{secret, oldSecret}, URL: url, Plans: plans{k}}
}

// start starts a Service over a world, as a process does.
func start(t testing.TB, k kit.Kit, url string) *stripe.Service {
	t.Helper()
	s, err := stripe.New(t.Context(), k, options(k, url))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func around(t testing.TB, w *cloudtest.World) *world {
	t.Helper()
	fake := stripetest.New(t, w.Now)
	s := start(t, w.Kit, fake.URL)
	h := httptest.NewServer(s.Webhook())
	t.Cleanup(h.Close)
	v := &world{World: w, svc: s, stripe: fake, webhook: h.URL + stripe.WebhookPath}
	if _, err := s.Sync(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	return v
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return around(t, cloudtest.New(t))
}

// both runs a test on both databases.
func both(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) { test(t, around(t, w)) })
}

// tenant makes a tenant and gives the context of its owner.
func (w *world) tenant(t testing.TB, name string) (store.Tenant, context.Context) {
	t.Helper()
	tn, u := w.Tenant(t, name, "owner@"+name+".test")
	ctx, _ := w.As(t, tn, u, permission.RoleOwner)
	return tn, ctx
}

// paying makes a tenant that pays for the plan team, and gives its subscription at Stripe.
func (w *world) paying(t testing.TB, name string) (store.Tenant, string) {
	t.Helper()
	tn, ctx := w.tenant(t, name)
	page, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Tenant: name, Plan: "team"})
	if err != nil {
		t.Fatal(err)
	}
	sub := w.stripe.Pay(page.GetUrl())
	w.deliver(t)
	w.Emails(t)
	return tn, sub
}

// deliver sends what has happened to the webhook.
func (w *world) deliver(t testing.TB) {
	t.Helper()
	for _, e := range w.stripe.Events() {
		if status := w.stripe.Send(w.webhook, e, secret, w.Now()); status != 200 {
			t.Fatalf("event %s: status %d", e.Type, status)
		}
	}
}

// close writes the ledger of an hour, or a correction of it.
func (w *world) close(t testing.TB, tenantID string, hour time.Time, revision int64, c store.Counts) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.ReviseUsage(ctx, store.UsageHour{UsageKey: store.UsageKey{TenantID: tenantID, NamespaceID: "ns_1", Hour: hour.Unix() / 3600}, Revision: revision, Counts: c, ClosedAt: w.Now()}, c)
	})
}

func (w *world) customer(t testing.TB, tenantID string) (c store.StripeCustomer) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
		c, err = tx.GetStripeCustomer(ctx, tenantID)
		return err
	})
	return c
}

// standing is a tenant's plan and state.
func (w *world) standing(t testing.TB, tenantID string) (out string) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		tn, err := tx.FindTenant(ctx, tenantID)
		if err != nil {
			return err
		}
		sub, err := tx.GetSubscription(ctx, tenantID)
		out = fmt.Sprintf("%s/%d %s", tn.Plan, sub.PlanVersion, sub.State)
		return err
	})
	return out
}

// hour is the nth full hour after the present one.
func (w *world) hour(n int) time.Time {
	return w.Now().Truncate(time.Hour).Add(time.Duration(n) * time.Hour)
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func no(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// breaking is a store whose nth write fails: before it is kept, or after, so that its process
// believes that it failed.
type breaking struct {
	store.Store
	mu    sync.Mutex
	left  int
	after bool
}

var errCrash = errors.New("the process has crashed")

func (b *breaking) now() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left--
	return b.left == 0
}

func (b *breaking) write(run func(func(*store.Tx) error) error, f func(*store.Tx) error) error {
	if !b.now() {
		return run(f)
	}
	if b.after {
		return errors.Join(run(f), errCrash)
	}
	err := run(func(tx *store.Tx) error { return errors.Join(f(tx), errCrash) })
	return err
}

func (b *breaking) Tenant(ctx context.Context, id string, f func(*store.Tx) error) error {
	return b.write(func(f func(*store.Tx) error) error { return b.Store.Tenant(ctx, id, f) }, f)
}

func (b *breaking) Service(ctx context.Context, f func(*store.Tx) error) error {
	return b.write(func(f func(*store.Tx) error) error { return b.Store.Service(ctx, f) }, f)
}

func (b *breaking) Follow(ctx context.Context, f func(*store.Tx) error) error {
	return b.write(func(f func(*store.Tx) error) error { return b.Store.Follow(ctx, f) }, f)
}

// post sends an event to a Service that has no listener.
func post(t testing.TB, s *stripe.Service, e stripetest.Event, now time.Time) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, stripe.WebhookPath, bytes.NewReader(e.Body))
	r.Header.Set("Stripe-Signature", stripetest.Sign(e.Body, secret, now))
	w := httptest.NewRecorder()
	s.Webhook().ServeHTTP(w, r)
	return w.Code
}

// again is a context of the owner of a tenant that is there.
func (w *world) again(t testing.TB, tn store.Tenant) (store.Tenant, context.Context) {
	t.Helper()
	ctx, _ := w.As(t, tn, store.User{ID: "usr_owner", Email: "owner@" + tn.Name + ".test"}, permission.RoleOwner)
	return tn, ctx
}

// between does something before each write of the service but the first, which is New's.
type between struct {
	store.Store
	do    func()
	begun bool
}

func (b *between) Service(ctx context.Context, f func(*store.Tx) error) error {
	if b.begun {
		b.do()
	}
	b.begun = true
	return b.Store.Service(ctx, f)
}

// racing is a store whose next write in one tenant loses a race: it is run, undone, and run again
// after what the winner does.
type racing struct {
	store.Store
	winner func()
}

func (r *racing) Tenant(ctx context.Context, id string, f func(*store.Tx) error) error {
	if win := r.winner; win != nil {
		r.winner = nil
		if err := r.Store.Tenant(ctx, id, func(tx *store.Tx) error { return errors.Join(f(tx), errCrash) }); !errors.Is(err, errCrash) {
			return err
		}
		win()
	}
	return r.Store.Tenant(ctx, id, f)
}

// loseFirst loses the answer to the first call of a method.
func loseFirst(method string) func(string) stripetest.Fault {
	lost := false
	return func(call string) stripetest.Fault {
		if lost || !strings.HasPrefix(call, method) {
			return stripetest.None
		}
		lost = true
		return stripetest.LoseAnswer
	}
}

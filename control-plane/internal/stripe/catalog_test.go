package stripe_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/stripe"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
)

func lines(list []stripe.Difference) string {
	var out []string
	for _, d := range list {
		out = append(out, d.Action+" "+d.Kind+" "+d.Name)
	}
	return strings.Join(out, "\n")
}

const wholeCatalog = `create meter corvo_jobs_enqueued
create meter corvo_executions
create meter corvo_stored_byte_hours
create meter corvo_egress_bytes
create product corvo_team
create price corvo_team_1_base
create price corvo_team_1_egress_bytes
create price corvo_team_1_executions
create price corvo_team_1_jobs_enqueued
create price corvo_team_1_stored_byte_hours
create product corvo_business
create price corvo_business_1_base
create price corvo_business_1_egress_bytes
create price corvo_business_1_executions
create price corvo_business_1_jobs_enqueued
create price corvo_business_1_stored_byte_hours`

func TestSync_MakesWhatIsMissingAndNothingTwice(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	fake := stripetest.New(t, w.Now)
	s := start(t, w.Kit, fake.URL)
	dry, err := s.Sync(t.Context(), true)
	no(t, "dry run", err)
	want(t, "dry run", lines(dry), wholeCatalog)
	want(t, "made by a dry run", fake.Count("product")+fake.Count("price")+fake.Count("billing.meter"), 0)
	for n := 0; ; n++ { // Every call's answer is lost once.
		fake.Faults(loseFirst("POST"))
		_, err := s.Sync(t.Context(), false)
		if err == nil {
			break
		}
		if n > 30 {
			t.Fatal(err)
		}
	}
	fake.Faults(nil)
	again, err := s.Sync(t.Context(), false)
	no(t, "again", err)
	want(t, "again", lines(again), "")
	want(t, "made", fmt.Sprint(fake.Count("product"), fake.Count("price"), fake.Count("billing.meter")), "2 10 4")
}

func TestSync_PricesAreThePlans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tiers := fmt.Sprint(w.stripe.Show("price", "tiers"))
	// 50 cents for a GB-month: 1,024 × 730 MB-hours, 20 of which are included.
	for _, text := range []string{"map[unit_amount_decimal:0.000066887842 up_to:<nil>]", "up_to:14950400", "map[unit_amount_decimal:0.0002 up_to:<nil>]", "up_to:5000000"} {
		text = strings.ReplaceAll(text, "map[unit_amount_decimal:0.000066887842 up_to:<nil>]", "unit_amount_decimal:0.000066887842 up_to:<nil>")
		text = strings.ReplaceAll(text, "map[unit_amount_decimal:0.0002 up_to:<nil>]", "unit_amount_decimal:0.0002")
		for _, part := range strings.Fields(text) {
			if !strings.Contains(tiers, part) {
				t.Errorf("no %s in %s", part, tiers)
			}
		}
	}
}

func TestSync_APriceThatIsOtherwiseIsAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stripe.Set("price", "corvo_team_1_base", "unit_amount", 1)
	w.stripe.Set("price", "corvo_team_1_executions", "active", false)
	w.stripe.Set("product", "corvo_team", "name", "Something else")
	list, err := w.svc.Sync(t.Context(), false)
	no(t, "sync", err)
	want(t, "differences", lines(list), "rename product corvo_team\nconflict price corvo_team_1_base\nconflict price corvo_team_1_executions")
	want(t, "why", list[1].Detail, "its amount is 1, not 4900")
	list, err = w.svc.Sync(t.Context(), false)
	no(t, "again", err)
	want(t, "differences", lines(list), "conflict price corvo_team_1_base\nconflict price corvo_team_1_executions")
}

// nextVersion gives the plan team another price.
func (w *world) nextVersion(t *testing.T) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		v, err := tx.GetPlan(ctx, "team", 0)
		if err != nil {
			return err
		}
		v.Version, v.BaseAmount, v.Prices = 2, 5900, []store.Price{{Meter: "executions", Per: 1000, Amount: 1}}
		return tx.InsertPlanVersion(ctx, v)
	})
}

func TestSync_ANewVersionGetsPricesOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nextVersion(t)
	list, err := w.svc.Sync(t.Context(), false)
	no(t, "sync", err)
	want(t, "differences", lines(list), "create price corvo_team_2_base\ncreate price corvo_team_2_executions")
}

// Whoever pays first for a version that was applied since the last sync doesn't wait for the next one.
func TestCheckout_ANewVersionIsPaidForAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nextVersion(t)
	w.stripe.Faults(loseFirst("POST /v1/prices"))
	_, ctx := w.tenant(t, "acme")
	r := &cloudv1.StartCheckoutRequest{Tenant: "acme", Plan: "team"}
	page, err := w.svc.StartCheckout(ctx, r)
	if err != nil { // The answer that was lost; what is there isn't made again.
		page, err = w.svc.StartCheckout(ctx, r)
	}
	no(t, "checkout", err)
	w.stripe.Pay(page.GetUrl())
	w.deliver(t)
	want(t, "prices of the version", strings.Count(fmt.Sprint(w.stripe.Show("price", "lookup_key")), "corvo_team_2_"), 2)
	list, err := w.svc.Sync(t.Context(), false)
	no(t, "sync", err)
	want(t, "what a sync still finds", lines(list), "")
}

func TestSync_APriceTooSmallForStripeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		v, err := tx.GetPlan(ctx, "team", 0)
		if err != nil {
			return err
		}
		v.Version, v.Prices = 2, []store.Price{{Meter: "executions", Per: 3_000_000_000_000, Amount: 1}}
		return tx.InsertPlanVersion(ctx, v)
	})
	if _, err := w.svc.Sync(t.Context(), false); err == nil || !strings.Contains(err.Error(), "choose a larger amount") {
		t.Errorf("got %v", err)
	}
}

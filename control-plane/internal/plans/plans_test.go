package plans_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// world is a tenant acme with its owner, and a service where acme can pay.
type world struct {
	*cloudtest.World
	*plans.Service
	tenant store.Tenant
	ctx    context.Context
}

type paying bool

func (p paying) Pays(context.Context, *store.Tx, string) (bool, error) { return bool(p), nil }

func newWorld(t *testing.T, w *cloudtest.World) *world {
	t.Helper()
	tn, u := w.Tenant(t, "acme", "ada@acme.test")
	ctx, _ := w.As(t, tn, u, permission.RoleOwner)
	return &world{w, plans.New(plans.Needs{Kit: w.Kit, Payments: paying(true)}), tn, ctx}
}

func (w *world) in(t *testing.T, f func(context.Context, *store.Tx) error) {
	t.Helper()
	if err := w.World.Store.Tenant(w.ctx, w.tenant.ID, func(tx *store.Tx) error { return f(w.ctx, tx) }); err != nil {
		t.Fatal(err)
	}
}

func (w *world) change(plan string) (*cloudv1.ChangePlanResponse, error) {
	return w.ChangePlan(w.ctx, &cloudv1.ChangePlanRequest{Plan: plan})
}

func (w *world) choose(t *testing.T, plan string) *cloudv1.ChangePlanResponse {
	t.Helper()
	res, err := w.change(plan)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (w *world) subscription(t *testing.T) *cloudv1.GetSubscriptionResponse {
	t.Helper()
	res, err := w.GetSubscription(w.ctx, &cloudv1.GetSubscriptionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (w *world) plan(t *testing.T) string {
	t.Helper()
	return w.subscription(t).GetSubscription().GetPlan().GetName()
}

func (w *world) carryOut(t *testing.T) {
	t.Helper()
	if err := w.CarryOut(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (w *world) set(t *testing.T, plan string) {
	t.Helper()
	w.in(t, func(ctx context.Context, tx *store.Tx) error {
		tn, err := tx.GetTenant(ctx, w.tenant.ID)
		if err != nil {
			return err
		}
		return plans.Set(ctx, w.World.Kit, tx, &tn, plan, "")
	})
}

func (w *world) override(t *testing.T, v store.Override) error {
	t.Helper()
	return w.World.Store.Tenant(w.ctx, w.tenant.ID, func(tx *store.Tx) error {
		tn, err := tx.GetTenant(w.ctx, w.tenant.ID)
		if err != nil {
			return err
		}
		return plans.SetOverride(w.ctx, w.World.Kit, tx, &tn, v)
	})
}

func (w *world) limits(t *testing.T) (l *cellv1.Limits) {
	t.Helper()
	w.in(t, func(ctx context.Context, tx *store.Tx) (err error) {
		l, err = plans.Limits(ctx, tx, w.tenant.ID, w.World.Now())
		return err
	})
	return l
}

func (w *world) namespaces(t *testing.T, n int) {
	t.Helper()
	w.in(t, func(ctx context.Context, tx *store.Tx) error {
		for i := range n {
			id := "ns_" + strings.Repeat("x", i)
			if err := tx.InsertNamespace(ctx, store.Namespace{TenantID: w.tenant.ID, ID: id, Name: id, CreatedAt: w.World.Now(), Version: 1, Generation: 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) told(t *testing.T) (n int) {
	t.Helper()
	for _, o := range w.Outbox(t) {
		if o.Kind == store.OutboxTenant && o.Subject == w.tenant.ID {
			n++
		}
	}
	return n
}

func TestListPlans_ShowsWhatCanBeSeenTheSmallestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	res, err := w.ListPlans(w.ctx, &cloudv1.ListPlansRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range res.GetPlans() {
		names = append(names, p.GetName())
	}
	if !slices.Equal(names, []string{"free", "team", "business", "dedicated"}) || res.GetPlans()[1].GetBaseAmount() != 4900 || len(res.GetPlans()[1].GetPrices()) != 4 {
		t.Errorf("%v", names)
	}
}

func TestChangePlan_ABiggerOneCountsAtOnceASmallerOneAtTheEndOfThePeriod(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, c *cloudtest.World) {
		w := newWorld(t, c)
		begin := w.World.Now()
		w.World.Advance(90 * time.Minute)
		if res := w.choose(t, "team"); !res.GetEffectiveAt().AsTime().Equal(w.World.Now()) || res.GetSubscription().GetPlan().GetName() != "team" {
			t.Errorf("%v", res)
		}
		if w.told(t) != 1 || w.limits(t).GetEnqueueBurst() != 20_000 || w.limits(t).GetOpenJobsMax() != 5_000_000 {
			t.Errorf("the cell: %v", w.limits(t))
		}
		up := w.World.Now()
		end := time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)
		res := w.choose(t, "free")
		if s := res.GetSubscription(); !res.GetEffectiveAt().AsTime().Equal(end) || s.GetPlan().GetName() != "team" || s.GetNextPlan() != "free" || !s.GetNextPlanAt().AsTime().Equal(end) || !s.GetPeriodEnd().AsTime().Equal(end) {
			t.Errorf("%v", res)
		}
		w.World.Advance(end.Sub(w.World.Now()) - time.Nanosecond)
		if w.carryOut(t); w.plan(t) != "team" {
			t.Error("it changed before the end of the period")
		}
		w.World.Advance(time.Hour + time.Nanosecond) // Late, as after an outage.
		if w.carryOut(t); w.plan(t) != "free" || w.subscription(t).GetSubscription().GetNextPlan() != "" {
			t.Error("it did not change at the end of the period")
		}
		w.in(t, func(ctx context.Context, tx *store.Tx) error {
			list, err := tx.SubscriptionChanges(ctx, w.tenant.ID, begin, w.World.Now())
			want := []store.SubscriptionChange{{TenantID: w.tenant.ID, At: begin, Plan: "free", PlanVersion: 1}, {TenantID: w.tenant.ID, At: up, Plan: "team", PlanVersion: 1}, {TenantID: w.tenant.ID, At: end, Plan: "free", PlanVersion: 1}}
			if !slices.Equal(list, want) {
				t.Errorf("history %v, want %v", list, want)
			}
			return err
		})
		if acts := w.Audit(t, w.tenant.ID); !slices.Equal(acts, []string{"plan.change", "plan.schedule_change", "plan.change"}) {
			t.Errorf("audit log: %v", acts)
		}
	})
}

func TestChangePlan_RefusesWhatCannotBeChosen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	for plan, reason := range map[string]string{"gold": "INVALID_ARGUMENT", "unlimited": "INVALID_ARGUMENT", "dedicated": "PLAN_NOT_SELF_SERVE"} {
		_, err := w.change(plan)
		cloudtest.Refused(t, err, reason)
	}
	_, err := w.ChangePlan(w.ctx, &cloudv1.ChangePlanRequest{Plan: "team", Etag: "old"})
	cloudtest.Refused(t, err, "ETAG_MISMATCH")
	w.Payments = paying(false)
	_, err = w.change("team")
	if f := cloudtest.Refused(t, err, "PAYMENT_REQUIRED"); !strings.Contains(f.Message, "corvo billing checkout team") {
		t.Error(f.Message)
	}
	w.Payments = nil
	_, err = w.change("team")
	if f := cloudtest.Refused(t, err, "PAYMENT_REQUIRED"); !strings.Contains(f.Message, "ask the operator") {
		t.Error(f.Message)
	}
	w.Payments = paying(true)
	w.in(t, func(ctx context.Context, tx *store.Tx) error {
		return plans.SetState(ctx, w.World.Kit, tx, w.tenant.ID, plans.Restricted, "unpaid", time.Time{})
	})
	for _, pays := range []paying{true, false} {
		w.Payments = pays
		_, err = w.change("team")
		if f := cloudtest.Refused(t, err, "PAYMENT_REQUIRED"); !strings.Contains(f.Message, "an invoice isn't paid") {
			t.Error(f.Message)
		}
	}
	if w.plan(t) != "free" {
		t.Error("a refused change was made")
	}
}

func TestChangePlan_OnlyAskedForChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	ask := func(plan string) *cloudv1.ChangePlanResponse {
		res, err := w.ChangePlan(w.ctx, &cloudv1.ChangePlanRequest{Plan: plan, ValidateOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := ask("business"); res.GetSubscription().GetPlan().GetName() != "business" || w.plan(t) != "free" {
		t.Errorf("%v", res)
	}
	w.choose(t, "business")
	before := w.subscription(t).GetSubscription()
	if res := ask("team"); res.GetSubscription().GetNextPlan() != "team" || w.subscription(t).GetSubscription().GetEtag() != before.GetEtag() {
		t.Errorf("%v", res)
	}
}

func TestChangePlan_TheSameAgainChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.choose(t, "team")
	w.choose(t, "free")
	etag := w.subscription(t).GetSubscription().GetEtag()
	if w.choose(t, "free"); w.subscription(t).GetSubscription().GetEtag() != etag {
		t.Error("the change that waits was made again")
	}
	_, err := w.change("team")
	cloudtest.Refused(t, err, "PLAN_CHANGE_WAITS")
	for range 2 {
		res, err := w.CancelPlanChange(w.ctx, &cloudv1.CancelPlanChangeRequest{})
		if err != nil || res.GetSubscription().GetNextPlan() != "" || res.GetSubscription().GetPlan().GetName() != "team" {
			t.Fatalf("%v, %v", res, err)
		}
	}
	w.World.Advance(40 * 24 * time.Hour)
	if w.carryOut(t); w.plan(t) != "team" {
		t.Error("a change that was taken back was made")
	}
}

func TestChangePlan_TooSmallNamesEachThing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.Used = func(context.Context, *store.Tx, string, time.Time) (plans.Used, error) {
		return plans.Used{JobsThisMonth: 1 << 40, OpenJobs: 600_000, StoredBytes: 1}, nil
	}
	w.choose(t, "team")
	w.namespaces(t, 61)
	w.in(t, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.GetNamespace(ctx, w.tenant.ID, "ns_x")
		n.Retention.Dead = 180 * 24 * 3600
		return errors.Join(err, tx.UpdateNamespace(ctx, &n), tx.InsertRole(ctx, store.Role{TenantID: w.tenant.ID, ID: "role_1", Name: "ops", Version: 1}))
	})
	w.version(t, "free", func(s *plans.Spec) { s.Entitlements[plans.FeatureCustomRoles] = 0 })
	_, err := w.change("free")
	f := cloudtest.Refused(t, err, "PLAN_TOO_SMALL")
	var names []string
	for _, field := range f.Fields {
		names = append(names, field.Name)
	}
	if !slices.Equal(names, []string{"namespaces_max", "feature.custom_roles", "retention.dead_seconds_max", "open_jobs_max"}) || f.Fields[0].Problem != "namespaces: 61 in use, the plan free allows 60" {
		t.Errorf("%v", f.Fields)
	}
}

// version applies a new version of a plan.
func (w *world) version(t *testing.T, plan string, edit func(*plans.Spec)) (version int64, differ []plans.Difference) {
	t.Helper()
	w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
		p, err := tx.GetPlan(ctx, plan, 0)
		if err != nil {
			return err
		}
		s := plans.SpecOf(p)
		edit(&s)
		version, differ, err = plans.Apply(ctx, tx, w.World.Now(), s, plans.AnyBase, false)
		return err
	})
	return version, differ
}

// A plan that fitted when it was chosen may be too small when its time comes.
func TestCarryOut_KeepsThePlanAndTellsTheOwnersIfTheNextIsTooSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.choose(t, "team")
	w.choose(t, "free")
	w.namespaces(t, 61)
	w.World.Advance(40 * 24 * time.Hour)
	w.carryOut(t)
	if m := w.Email(t); m.To != "ada@acme.test" || !strings.Contains(m.Text, "namespaces: 61 in use, the plan free allows 60") {
		t.Errorf("%v", m)
	}
	if s := w.subscription(t).GetSubscription(); s.GetPlan().GetName() != "team" || s.GetNextPlan() != "" {
		t.Errorf("%v", s)
	}
	if acts := w.Audit(t, w.tenant.ID); acts[2] != "plan.keep" {
		t.Errorf("%v", acts)
	}
	w.carryOut(t)
	if more := w.Emails(t); len(more) != 0 {
		t.Errorf("told again: %v", more)
	}
}

// The transaction looks again, so that a lost lease does no harm.
func TestCarryOut_TwoAtOnceChangeThePlanOnce(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, c *cloudtest.World) {
		w := newWorld(t, c)
		w.choose(t, "business")
		w.choose(t, "team")
		w.World.Advance(40 * 24 * time.Hour)
		var both sync.WaitGroup
		for range 4 {
			other := plans.New(plans.Needs{Kit: w.World.Kit})
			both.Go(func() {
				if err := other.Pass(t.Context(), w.World.Now()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if acts := w.Audit(t, w.tenant.ID); w.plan(t) != "team" || !slices.Equal(acts, []string{"plan.change", "plan.schedule_change", "plan.change"}) {
			t.Errorf("%s: %v", w.plan(t), acts)
		}
	})
}

func TestOverride_CountsUntilItsEndAndTheCellFollows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	ends := w.World.Now().Add(48 * time.Hour)
	for _, v := range []store.Override{
		{Name: "streams_max", Value: 7, Reason: "a trial", EndsAt: ends},
		{Name: "namespaces_max", Unlimited: true, Reason: "they asked"},
	} {
		for range 2 { // The same again changes nothing.
			if err := w.override(t, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	if acts := w.Audit(t, w.tenant.ID); len(acts) != 2 || w.told(t) != 2 {
		t.Errorf("%v", acts)
	}
	if w.limits(t).GetStreamsMax() != 7 || len(w.subscription(t).GetSubscription().GetOverrides()) != 2 {
		t.Errorf("%v", w.limits(t))
	}
	w.World.Advance(48*time.Hour - 1)
	if w.carryOut(t); w.limits(t).GetStreamsMax() != 7 {
		t.Error("it ended early")
	}
	w.World.Advance(1)
	if w.limits(t).GetStreamsMax() != 200 || w.told(t) != 1 {
		t.Error("it counts after its end, or the cell is not told")
	}
	w.carryOut(t)
	if s := w.subscription(t).GetSubscription(); len(s.GetOverrides()) != 1 || w.Audit(t, w.tenant.ID)[2] != "override.end" {
		t.Errorf("%v", s)
	}
}

func TestOverride_RefusesWhatIsNoEntitlementAndNeedsAReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	for _, v := range []store.Override{
		{Name: "luck_max", Value: 1, Reason: "x"}, {Name: "luck_max", Unlimited: true, Reason: "x"}, {Name: "feature.sso", Value: 2, Reason: "x"},
		{Name: "streams_max", Value: 0, Reason: "x"}, {Name: "streams_max", Value: 1, Reason: " "}, {Name: "streams_max", Value: 1, Reason: "x", EndsAt: w.World.Now()},
	} {
		cloudtest.Refused(t, w.override(t, v), "INVALID_ARGUMENT")
	}
}

// A larger one would be sold and refused: the payload comes in a request.
func TestOverride_APayloadIsNoLargerThanARequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	if err := w.override(t, store.Override{Name: "payload_bytes_max", Value: 4 << 20, Reason: "x"}); err != nil {
		t.Error(err)
	}
	f := cloudtest.Refused(t, w.override(t, store.Override{Name: "payload_bytes_max", Value: 4<<20 + 1, Reason: "x"}), "INVALID_ARGUMENT")
	if len(f.Fields) != 1 || f.Fields[0].Name != "payload_bytes_max" || f.Fields[0].Problem != "is 4194305, must be from 1 to 4194304" {
		t.Errorf("%v", f.Fields)
	}
}

func TestAnother_RefusesWithTheLimitItsValueAndWhereToRaiseIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	if err := w.override(t, store.Override{Name: "members_max", Value: 2, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	another := func(c plans.Counted, besides int) error {
		return w.World.Store.Tenant(w.ctx, w.tenant.ID, func(tx *store.Tx) error {
			return plans.Another(w.ctx, tx, w.tenant.ID, w.World.Now(), c, besides)
		})
	}
	if err := another(plans.Members, 0); err != nil {
		t.Error(err)
	}
	if f := cloudtest.Refused(t, another(plans.Members, 1), "PLAN_LIMIT"); !strings.Contains(f.Message, "allows 2 members (members_max)") || !strings.Contains(f.Message, "corvo plan list") {
		t.Error(f.Message)
	}
	for state, allowed := range map[string]bool{plans.PastDue: true, plans.Restricted: false, plans.Suspended: false, plans.Active: true} {
		w.in(t, func(ctx context.Context, tx *store.Tx) error {
			return plans.SetState(ctx, w.World.Kit, tx, w.tenant.ID, state, "an invoice", time.Time{})
		})
		for _, c := range []plans.Counted{plans.Namespaces, plans.Keys} {
			if err := another(c, 0); allowed && err != nil {
				t.Errorf("%s: %v", state, err)
			} else if !allowed {
				cloudtest.Refused(t, err, "PAYMENT_REQUIRED")
			}
		}
	}
}

func TestFeature_SaysWhichPlanHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.version(t, "free", func(s *plans.Spec) { s.Entitlements[plans.FeatureSSO] = 0 })
	ask := func() error {
		return w.World.Store.Tenant(w.ctx, w.tenant.ID, func(tx *store.Tx) error {
			return plans.Feature(w.ctx, tx, w.tenant.ID, w.World.Now(), plans.FeatureSSO)
		})
	}
	if err := ask(); err != nil {
		t.Errorf("a new version reached a tenant that did not choose it: %v", err)
	}
	w.set(t, "free")
	if f := cloudtest.Refused(t, ask(), "PLAN_FEATURE"); f.Message != "the plan free of tenant acme doesn't have single sign-on (feature.sso); the plan team does" {
		t.Error(f.Message)
	}
}

func TestHolds_TheStrongestGivesTheNameAndAllOfThemHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	hold := func(v store.Hold) {
		v.TenantID = w.tenant.ID
		w.in(t, func(ctx context.Context, tx *store.Tx) error { return plans.SetHold(ctx, w.World.Kit, tx, v) })
	}
	soon, late := w.World.Now().Add(time.Hour), w.World.Now().Add(2*time.Hour)
	hold(store.Hold{Limit: "jobs_per_month", Dispatch: true, Value: 5, Until: late})
	hold(store.Hold{Limit: "jobs_per_month", Dispatch: true, Value: 5, Until: late})
	if h := w.limits(t).GetHold(); h.GetLimit() != "jobs_per_month" || !h.GetDispatch() || h.GetEnqueue() || h.GetValue() != 5 || h.GetUntilNs() != late.UnixNano() || w.told(t) != 1 {
		t.Errorf("%v", h)
	}
	hold(store.Hold{Limit: "spend", Enqueue: true, Until: soon})
	if h := w.limits(t).GetHold(); h.GetLimit() != "spend" || !h.GetDispatch() || !h.GetEnqueue() {
		t.Errorf("%v", h)
	}
	w.told(t)
	w.World.Advance(time.Hour)
	if h := w.limits(t).GetHold(); h.GetLimit() != "jobs_per_month" || h.GetEnqueue() || w.told(t) != 1 {
		t.Errorf("after the end of one: %v", h)
	}
	for range 2 {
		w.in(t, func(ctx context.Context, tx *store.Tx) error {
			return plans.ClearHold(ctx, w.World.Kit, tx, w.tenant.ID, "jobs_per_month")
		})
	}
	if h := w.limits(t).GetHold(); h != nil || w.told(t) != 1 {
		t.Errorf("%v", h)
	}
	w.in(t, func(ctx context.Context, tx *store.Tx) error {
		return plans.SetState(ctx, w.World.Kit, tx, w.tenant.ID, plans.Suspended, "unpaid", time.Time{})
	})
	if h := w.limits(t).GetHold(); h.GetLimit() != "payment" || !h.GetDispatch() || h.GetUntilNs() != 0 || w.told(t) != 1 {
		t.Errorf("suspended: %v", h)
	}
}

func TestGetSubscription_SaysWhereEachLimitStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.namespaces(t, 3)
	w.Used = func(context.Context, *store.Tx, string, time.Time) (plans.Used, error) {
		return plans.Used{JobsThisMonth: 1_000_000, OpenJobs: 4, StoredBytes: 5}, nil
	}
	w.in(t, func(ctx context.Context, tx *store.Tx) error {
		return plans.SetHold(ctx, w.World.Kit, tx, store.Hold{TenantID: w.tenant.ID, Limit: "jobs_per_month", Dispatch: true})
	})
	got := make(map[string]*cloudv1.LimitStatus)
	for _, l := range w.subscription(t).GetLimits() {
		got[l.GetName()] = l
	}
	if n := got["namespaces_max"]; len(got) != 6 || n.GetUsed() != 3 || n.GetMax() != 60 || got["members_max"].GetUsed() != 1 || got["stored_bytes_max"].GetUsed() != 5 {
		t.Errorf("%v", got)
	}
	if j := got["jobs_per_month_max"]; j.GetHolds() != "dispatch" || !j.GetResetsAt().AsTime().Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v", j)
	}
	w.in(t, func(ctx context.Context, tx *store.Tx) error {
		return plans.SetHold(ctx, w.World.Kit, tx, store.Hold{TenantID: w.tenant.ID, Limit: "spend", Dispatch: true, Enqueue: true, Value: 50000})
	})
	limits := w.subscription(t).GetLimits()
	if s := limits[len(limits)-1]; len(limits) != 7 || s.GetName() != "spend" || s.GetHolds() != "enqueue" || s.GetMax() != 0 || !s.GetResetsAt().AsTime().Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("a spend limit that was reached: %v", limits)
	}
}

func TestApply_MakesAVersionOfWhatIsDifferentOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	if v, differ := w.version(t, "team", func(*plans.Spec) {}); v != 1 || len(differ) != 0 {
		t.Errorf("the same: version %d, %v", v, differ)
	}
	v, differ := w.version(t, "team", func(s *plans.Spec) {
		s.BaseAmount = 5900
		delete(s.Entitlements, "keys_max")
	})
	if want := []plans.Difference{{"base_amount", "4900", "5900"}, {"entitlements.keys_max", "1000", ""}}; v != 2 || !slices.Equal(differ, want) {
		t.Errorf("version %d, %v", v, differ)
	}
	w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
		_, _, err := plans.Apply(ctx, tx, w.World.Now(), plans.Spec{Name: "Gold", Entitlements: map[string]int64{"luck": 1, "feature.sso": 2}, Prices: []plans.SpecPrice{{Meter: "streams_peak", Per: 0}}}, plans.AnyBase, false)
		if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); len(f.Fields) != 9 {
			t.Errorf("%v", f.Fields)
		}
		return nil
	})
}

func TestApply_MoneyOfTwoCurrenciesIsNeverAddedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	// applied is why a version of a plan is refused; empty: it isn't.
	applied := func(plan string, edit func(*plans.Spec)) (why string) {
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			p, err := tx.GetPlan(ctx, plan, 0)
			if err != nil {
				return err
			}
			s := plans.SpecOf(p)
			edit(&s)
			if _, _, err = plans.Apply(ctx, tx, w.World.Now(), s, plans.AnyBase, false); err != nil {
				why = cloudtest.Refused(t, err, "INVALID_ARGUMENT").Fields[0].Problem
			}
			return nil
		})
		return why
	}
	euros := func(s *plans.Spec) { s.Currency = "eur" }
	named := func(s *plans.Spec) { s.Name, s.Currency, s.Listed = "starter", "eur", true }
	for _, c := range []struct {
		what, plan string
		edit       func(*plans.Spec)
		why        string
	}{
		{"another currency", "team", euros, `is "eur", but version 1 of the plan costs usd; make a plan of another name`},
		{"what costs nothing now", "team", func(s *plans.Spec) { s.BaseAmount, s.Prices = 0, nil }, ""},
		{"and did before", "team", euros, `is "eur", but version 1 of the plan costs usd; make a plan of another name`},
		{"what never cost anything", "free", euros, ""},
		{"beside a plan that tenants see", "business", named, `is "eur", but tenants can choose the plan business, which costs usd; apply that one with listed: false first`},
		{"a plan that nobody sees", "business", func(s *plans.Spec) { s.Listed = false }, ""},
		{"beside it", "business", named, ""},
		{"seen again", "business", func(s *plans.Spec) { s.Listed = true }, `is "usd", but tenants can choose the plan starter, which costs eur; apply that one with listed: false first`},
	} {
		if why := applied(c.plan, c.edit); why != c.why {
			t.Errorf("%s: refused because it %q, want %q", c.what, why, c.why)
		}
	}
}

// The month's currency is that of what is paid, whatever a free plan says at its end.
func TestPricesOf_WhatCostsNothingNamesNoCurrency(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.World.Advance(2 * time.Hour)
	w.choose(t, "team")
	w.version(t, "free", func(s *plans.Spec) { s.Currency = "eur" })
	w.World.Advance(2 * time.Hour)
	w.set(t, "free")
	w.World.Advance(2 * time.Hour)
	w.in(t, func(ctx context.Context, tx *store.Tx) error {
		month := bill.Month(w.World.Now())
		p, err := plans.PricesOf(ctx, tx, w.tenant, month, month.End)
		if len(p.Segments) != 3 || p.Currency != "usd" {
			t.Errorf("%d segments, %s", len(p.Segments), p.Currency)
		}
		return err
	})
}

// Hour by hour, as the rule is said: the plan in force at its beginning. Months of all
// lengths, changes anywhere in an hour, times in any zone.
func TestSegments_EveryHourBelongsToThePlanInForceAtItsBeginning(t *testing.T) {
	t.Parallel()
	zones := []*time.Location{time.UTC, time.FixedZone("a", 5*3600+1800), time.FixedZone("b", -11*3600)}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		inMonth := time.Date(2024+r.IntN(5), time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), 0, 0, 0, time.UTC)
		if seed%10 == 0 {
			inMonth = time.Date(2028, time.February, 29, 23, 59, 0, 0, time.UTC)
		}
		p := bill.Month(inMonth.In(zones[r.IntN(3)]))
		from, to := p.Start, p.End
		if inMonth.Before(from) || !inMonth.Before(to) || from.Day() != 1 || to.Day() != 1 || to.Month() == from.Month() {
			t.Fatalf("the period of %v is %v to %v", inMonth, from, to)
		}
		at := from.Add(-time.Duration(r.Int64N(int64(90 * time.Minute))))
		made := at.AddDate(-1, 0, 0)
		if seed%3 == 0 { // A tenant that was made in this month.
			at = from.Add(time.Duration(r.Int64N(int64(500 * time.Hour))))
			made = at
		}
		var changes []store.SubscriptionChange
		for at.Before(to) {
			changes = append(changes, store.SubscriptionChange{At: at.In(zones[r.IntN(3)]), Plan: []string{"free", "team"}[r.IntN(2)], PlanVersion: 1 + r.Int64N(2)})
			step := time.Duration(r.Int64N(int64(200 * time.Hour)))
			if r.IntN(3) == 0 {
				step = time.Duration(r.IntN(4)) * 30 * time.Minute // On the hour, too.
			}
			at = at.Add(step + time.Duration(r.IntN(2)))
			if r.IntN(3) == 0 {
				at = at.Truncate(time.Hour).Add(time.Hour)
			}
		}
		checkHours(t, seed, changes, plans.Segments(changes, made, p), made, p)
	}
}

// The plan of an hour is that of its segment, from the hour in which the tenant was made.
func TestAt_IsThePlanOfTheSegment(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, c *cloudtest.World) {
		c.Advance(25 * time.Minute)
		w := newWorld(t, c)
		made := w.World.Now()
		c.Advance(20 * time.Minute)
		w.choose(t, "team")
		w.in(t, func(ctx context.Context, tx *store.Tx) error {
			p, err := plans.PricesOf(ctx, tx, w.tenant, bill.Month(made), w.World.Now())
			if n := len(p.Segments); err != nil || n != 2 || !p.Segments[0].From.Equal(made.Truncate(time.Hour)) || p.Currency != "usd" || p.Segments[1].BaseAmount == 0 || len(p.Segments[1].Prices) == 0 {
				t.Fatalf("segments %+v, %v", p, err)
			}
			if before, err := plans.PricesOf(ctx, tx, w.tenant, bill.Month(made), made); err != nil || len(before.Segments) != 1 {
				t.Errorf("as of then: %+v, %v", before.Segments, err)
			}
			changes, err := tx.SubscriptionChanges(ctx, w.tenant.ID, made, w.World.Now().Add(time.Nanosecond))
			for _, s := range p.Segments {
				for _, hour := range []time.Time{s.From, s.To.Add(-time.Hour)} {
					if v, known := plans.At(changes, w.tenant.CreatedAt, hour); !known || v.Plan != s.Name || int32(v.Version) != s.Version {
						t.Errorf("at %v: %+v; want %s", hour, v, s.Name)
					}
				}
			}
			if v, known := plans.At(changes, w.tenant.CreatedAt, made.Truncate(time.Hour).Add(-time.Hour)); known {
				t.Errorf("before it was made: %+v", v)
			}
			return err
		})
	})
}

func checkHours(t *testing.T, seed uint64, changes []store.SubscriptionChange, segments []bill.Segment, made time.Time, p bill.Period) {
	t.Helper()
	if err := bill.Check(p, segments); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for hour := p.Start; hour.Before(p.End); hour = hour.Add(time.Hour) {
		first := !made.Before(hour) && made.Before(hour.Add(time.Hour))
		var want store.SubscriptionChange
		for _, c := range changes {
			if !c.At.After(hour) || first && !c.At.After(made) {
				want = c
			}
		}
		var got []bill.Segment
		for _, s := range segments {
			if s.Holds(hour) {
				got = append(got, s)
			}
		}
		if want.Plan == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0].Name != want.Plan || int64(got[0].Version) != want.PlanVersion {
			t.Fatalf("seed %d, hour %v: %v, want %v", seed, hour, got, want)
		}
	}
	for i, s := range segments[1:] {
		if before := segments[i]; before.Name == s.Name && before.Version == s.Version {
			t.Fatalf("seed %d: two segments of one plan side by side: %v", seed, segments)
		}
	}
}

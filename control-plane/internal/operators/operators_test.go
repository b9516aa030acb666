package operators_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/operators"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/stripe"
	"github.com/corvo-cloud/corvo/control-plane/internal/usage"
)

// world is two tenants, and an operator who is in neither.
type world struct {
	*cloudtest.World
	*operators.Service
	t          testing.TB
	ctx        context.Context
	acme, tiny store.Tenant
}

func newWorld(t testing.TB, w *cloudtest.World) *world {
	t.Helper()
	w.Advance(-20 * 24 * time.Hour) // It is November 1, 9:00.
	acme, _ := w.Tenant(t, "acme", "ada@acme.test")
	tiny, _ := w.Tenant(t, "tiny", "tim@tiny.test")
	payments, err := stripe.New(t.Context(), w.Kit, stripe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := &world{World: w, t: t, acme: acme, tiny: tiny}
	x.Service = operators.New(operators.Needs{
		Kit: w.Kit, Plans: plans.New(plans.Needs{Kit: w.Kit}), Usage: usage.New(usage.Needs{Kit: w.Kit, SetHold: plans.SetHold, ClearHold: plans.ClearHold}), Stripe: payments,
	})
	x.ctx = access.With(t.Context(), access.Caller{UserID: "usr_op", Name: "olga@corvo.test", SessionID: "ses_1", RequestID: "req_1", Operator: true})
	return x
}

func each(t *testing.T, test func(*testing.T, *world)) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) { test(t, newWorld(t, w)) })
}

func (w *world) no(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// count lets a shard tell of jobs in the present hour.
func (w *world) count(tn store.Tenant, jobs int64) {
	w.t.Helper()
	w.World.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		r := metering.Reading{
			UsageKey: store.UsageKey{TenantID: tn.ID, NamespaceID: "ns_" + tn.Name, Hour: metering.Hour(w.World.Now())}, Seq: 1,
			Counts: store.Counts{JobsEnqueued: jobs}, OpenJobs: jobs / 2, StoredBytes: 100,
		}
		_, err := metering.Take(ctx, tx, metering.Said{Cell: "test", Source: "shard/1", Epoch: "e", Readings: []metering.Reading{r}}, w.World.Now())
		return err
	})
}

func (w *world) refresh() {
	w.t.Helper()
	w.no(w.Refresh(w.t.Context()))
}

// list is each tenant with its revenue and its jobs of a day.
func (w *world) list(r *cloudv1.ListTenantsRequest) string {
	w.t.Helper()
	var out []string
	for r.PageSize = 1; ; {
		res, err := w.ListTenants(w.ctx, r)
		w.no(err)
		for _, v := range res.GetTenants() {
			out = append(out, fmt.Sprint(v.GetTenant(), " ", v.GetFigures().GetRevenue(), " ", v.GetFigures().GetJobsDay()))
		}
		if r.PageToken = res.GetNextPageToken(); r.PageToken == "" {
			return strings.Join(out, ", ")
		}
	}
}

func (w *world) want(what string, got, want any) {
	w.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestTenants_AreListedByStoredFigures(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.want("before anything was computed", w.list(&cloudv1.ListTenantsRequest{Sort: "revenue"}), "acme 0 0, tiny 0 0")
		w.count(w.acme, 10)
		w.count(w.tiny, 40)
		w.refresh()
		w.want("by jobs", w.list(&cloudv1.ListTenantsRequest{Sort: "jobs_day"}), "tiny 0 40, acme 0 10")
		w.count(w.acme, 90)
		w.refresh()
		w.want("a minute later", w.list(&cloudv1.ListTenantsRequest{Sort: "jobs_day"}), "tiny 0 40, acme 0 10")
		w.Advance(11 * time.Minute)
		w.count(w.acme, 100)
		w.refresh()
		w.want("after they changed", w.list(&cloudv1.ListTenantsRequest{Sort: "jobs_day"}), "acme 0 100, tiny 0 40")
		_, err := w.SetTenantPlan(w.ctx, &cloudv1.SetTenantPlanRequest{Tenant: "tiny", Plan: "team", Reason: "contract"})
		w.no(err)
		w.Advance(time.Second)
		w.refresh()
		w.want("by revenue, at once after a change of plan", w.list(&cloudv1.ListTenantsRequest{Sort: "revenue"}), "tiny 4831 40, acme 0 100")
		w.want("of a plan", w.list(&cloudv1.ListTenantsRequest{Plan: "team"}), "tiny 4831 40")
		w.want("by name", w.list(&cloudv1.ListTenantsRequest{Search: "AC", Sort: "name"}), "acme 0 100")
		w.Advance(26 * time.Hour)
		w.refresh()
		w.want("a day later", w.list(&cloudv1.ListTenantsRequest{Sort: "name"}), "acme 0 0, tiny 4831 0")
		for field, r := range map[string]*cloudv1.ListTenantsRequest{"sort": {Sort: "luck"}, "state": {State: "rich"}} {
			_, err := w.ListTenants(w.ctx, r)
			f := cloudtest.Refused(w.t, err, "INVALID_ARGUMENT")
			w.want("field", f.Fields[0].Name, field)
		}
	})
}

func TestChanges_AreInTheTenantsAuditLogByTheOperator(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ends := timestamppb.New(w.World.Now().Add(time.Hour))
		_, err := w.SetOverride(w.ctx, &cloudv1.SetOverrideRequest{Tenant: "acme", Name: "keys_max", Value: 900, Reason: "migration", EndsAt: ends})
		w.no(err)
		set, err := w.SetTenantPlan(w.ctx, &cloudv1.SetTenantPlanRequest{Tenant: w.acme.ID, Plan: "business", Reason: " contract 17 "})
		w.no(err)
		w.want("plan", set.GetSubscription().GetPlan().GetName(), "business")
		w.want("override", set.GetSubscription().GetOverrides()[0].GetValue(), 900)
		removed, err := w.RemoveOverride(w.ctx, &cloudv1.RemoveOverrideRequest{Tenant: "acme", Name: "keys_max", Reason: "done"})
		w.no(err)
		w.want("overrides", len(removed.GetSubscription().GetOverrides()), 0)
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			all, err := tx.ListAudit(ctx, w.acme.ID, store.AuditFilter{}, store.Page{})
			var got []string
			for _, e := range all {
				got = append(got, fmt.Sprint(e.Action, " ", e.ActorType, " ", e.Actor, " ", e.Changes["reason"].After))
			}
			w.want("acme's log", strings.Join(got, ", "),
				"override.remove operator olga@corvo.test done, plan.change operator olga@corvo.test contract 17, override.set operator olga@corvo.test migration")
			others, othersErr := tx.ListAudit(ctx, w.tiny.ID, store.AuditFilter{}, store.Page{})
			w.want("entries of the other tenant", len(others), 0)
			return errors.Join(err, othersErr)
		})
	})
}

func TestChanges_NeedAReasonAnEndAndATenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	soon, past := timestamppb.New(w.World.Now().Add(time.Hour)), timestamppb.New(w.World.Now().Add(-time.Hour))
	for what, tc := range map[string]struct {
		r     *cloudv1.SetOverrideRequest
		field string
	}{
		"no reason":       {&cloudv1.SetOverrideRequest{Tenant: "acme", Name: "keys_max", Reason: " ", EndsAt: soon}, "reason"},
		"a long reason":   {&cloudv1.SetOverrideRequest{Tenant: "acme", Name: "keys_max", Reason: strings.Repeat("x", 501), EndsAt: soon}, "reason"},
		"no end":          {&cloudv1.SetOverrideRequest{Tenant: "acme", Name: "keys_max", Reason: "x"}, "ends_at"},
		"a past end":      {&cloudv1.SetOverrideRequest{Tenant: "acme", Name: "keys_max", Reason: "x", EndsAt: past}, "ends_at"},
		"unknown":         {&cloudv1.SetOverrideRequest{Tenant: "acme", Name: "luck", Reason: "x", EndsAt: soon}, "luck"},
		"unknown, no max": {&cloudv1.SetOverrideRequest{Tenant: "acme", Name: "luck", Unlimited: true, Reason: "x", EndsAt: soon}, "luck"},
	} {
		_, err := w.SetOverride(w.ctx, tc.r)
		f := cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		w.want(what, f.Fields[0].Name, tc.field)
	}
	_, err := w.SetTenantPlan(w.ctx, &cloudv1.SetTenantPlanRequest{Tenant: "nobody", Plan: "team", Reason: "x"})
	cloudtest.Refused(t, err, "NOT_FOUND")
	_, err = w.SetTenantPlan(w.ctx, &cloudv1.SetTenantPlanRequest{Tenant: "acme", Plan: "team"})
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	_, err = w.RemoveOverride(w.ctx, &cloudv1.RemoveOverrideRequest{Tenant: "acme", Name: "keys_max", Reason: "x"})
	cloudtest.Refused(t, err, "NOT_FOUND")
	w.want("acme's log", len(w.Audit(t, w.acme.ID)), 0)
}

func TestDescribeTenant_ShowsPlanBillsAndReadings(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.count(w.acme, 30)
		w.Advance(time.Hour)
		_, err := w.SetTenantPlan(w.ctx, &cloudv1.SetTenantPlanRequest{Tenant: "acme", Plan: "team", Reason: "x"})
		w.no(err)
		w.refresh()
		d, err := w.DescribeTenant(w.ctx, &cloudv1.DescribeTenantRequest{Tenant: "acme"})
		w.no(err)
		w.want("tenant", []any{d.GetTenant().GetTenant(), d.GetTenant().GetMembers(), d.GetTenant().GetFigures().GetOpenJobs()}, []any{"acme", 1, 15})
		w.want("plan", d.GetSubscription().GetPlan().GetName(), "team")
		w.want("segments", len(d.GetSegments()), 2)
		w.want("the newest first", d.GetSegments()[0].GetPlan(), "team")
		w.want("readings", []any{len(d.GetReadings()), d.GetReadings()[0].GetCounts().GetJobsEnqueued(), d.GetReadings()[0].GetSource()}, []any{1, 30, "shard/1"})
		w.want("bills", []any{d.GetCurrent().GetTotal() > 4000, d.GetLastMonth().GetTotal(), d.GetCurrent().GetTenantId()}, []any{true, 0, w.acme.ID})
		_, err = w.DescribeTenant(w.ctx, &cloudv1.DescribeTenantRequest{Tenant: "nobody"})
		cloudtest.Refused(w.t, err, "NOT_FOUND")
	})
}

func TestApplyPlan_IsShownThenAppliedAndLogged(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		listed, err := w.ListPlanVersions(w.ctx, &cloudv1.ListPlanVersionsRequest{Plan: "team"})
		w.no(err)
		spec := listed.GetVersions()[0].GetSpec()
		spec.BaseAmount = 5900
		delete(spec.Entitlements, "keys_max")
		dry, err := w.ApplyPlan(w.ctx, &cloudv1.ApplyPlanRequest{Spec: spec, BaseVersion: 1, ValidateOnly: true})
		w.no(err)
		var differ []string
		for _, d := range dry.GetDifferences() {
			differ = append(differ, d.GetField()+" "+d.GetBefore()+">"+d.GetAfter())
		}
		w.want("differences", strings.Join(differ, ", "), "base_amount 4900>5900, entitlements.keys_max 1000>")
		_, err = w.ApplyPlan(w.ctx, &cloudv1.ApplyPlanRequest{Spec: spec, BaseVersion: 1})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		for range 2 { // The same again changes nothing.
			_, err = w.ApplyPlan(w.ctx, &cloudv1.ApplyPlanRequest{Spec: spec, BaseVersion: 1, Reason: "new prices"})
			if err == nil {
				continue
			}
			cloudtest.Refused(t, err, "CONFLICT")
		}
		listed, err = w.ListPlanVersions(w.ctx, &cloudv1.ListPlanVersionsRequest{Plan: "team"})
		w.no(err)
		w.want("versions", []any{len(listed.GetVersions()), listed.GetVersions()[0].GetNewest(), listed.GetVersions()[1].GetNewest()}, []any{2, true, false})
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			log, err := tx.ListOperatorEntries(ctx, 9)
			w.want("log", fmt.Sprint(len(log), log[0].Actor, log[0].Action, log[0].Target, log[0].Detail), "1olga@corvo.testplan.applyteam 2new prices")
			return err
		})
		_, err = w.ListPlanVersions(w.ctx, &cloudv1.ListPlanVersionsRequest{Plan: "gold"})
		cloudtest.Refused(t, err, "NOT_FOUND")
	})
}

func TestOperators_AreNamedOnTheHostAndLogged(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			// What a tenant's own provider says of an address is no account that signs in by email.
			if err := tx.InsertUser(ctx, store.User{ID: "usr_sso", Email: "eve@acme.test", HomeTenant: w.acme.ID, CreatedAt: w.World.Now()}); err != nil {
				return err
			}
			_, err := operators.Add(ctx, w.World.Kit, tx, "eve@acme.test", store.OperatorAdmin, "root on host")
			cloudtest.Refused(t, err, "NOT_FOUND")
			_, err = operators.Add(ctx, w.World.Kit, tx, "ada@acme.test", "owner", "root on host")
			cloudtest.Refused(t, err, "INVALID_ARGUMENT")
			for _, role := range []string{store.OperatorViewer, store.OperatorViewer, store.OperatorAdmin} {
				w.Advance(time.Second)
				o, err := operators.Add(ctx, w.World.Kit, tx, " Ada@acme.test ", role, "root on host")
				w.no(err)
				w.want("role", o.Role, role)
			}
			w.Advance(time.Second)
			w.no(operators.Remove(ctx, w.World.Kit, tx, "ada@acme.test", "root on host"))
			cloudtest.Refused(t, operators.Remove(ctx, w.World.Kit, tx, "ada@acme.test", "root on host"), "NOT_FOUND")
			log, err := tx.ListOperatorEntries(ctx, 9)
			var got []string
			for _, e := range log {
				got = append(got, e.Action+" "+e.Target+" "+e.Detail)
			}
			w.want("log", strings.Join(got, ", "), "operator.remove ada@acme.test , operator.add ada@acme.test admin, operator.add ada@acme.test viewer")
			return err
		})
	})
}

func TestReconciliation_ShowsWhatKeepsHoursOpen(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		now := w.World.Now()
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			source := func(name string, behind, heard time.Duration) error {
				return tx.PutUsageSource(ctx, store.UsageSource{Cell: "test", Source: name, Epoch: "e", CompleteTo: now.Add(-behind), HeardAt: now.Add(-heard)})
			}
			return errors.Join(source("shard/1", time.Hour, time.Hour), source("shard/2", time.Minute, time.Minute),
				source("proxy/slow", 6*time.Minute, 6*time.Minute), source("proxy/gone", time.Hour/2, time.Hour/2),
				tx.PutUsageClosing(ctx, store.UsageClosing{Cell: "test", Hour: metering.Hour(now) - 2, ClosedAt: now}),
				tx.NoteUsageAlarm(ctx, store.UsageAlarm{UsageKey: store.UsageKey{TenantID: w.acme.ID, NamespaceID: "ns_1", Hour: 1}, Cell: "test", Source: "shard/1", Problem: metering.Decrease}, now),
				tx.PutBillingDifference(ctx, store.BillingDifference{TenantID: w.tiny.ID, Meter: "executions", Day: now.Truncate(24 * time.Hour), Ledger: 3, Pushed: 2, Summed: 1, FoundAt: now}),
				tx.InsertBillingPush(ctx, store.BillingPush{TenantID: w.tiny.ID, Meter: "executions", Hour: now, Identifier: "i", Kind: "event", State: "open", FirstSentAt: now, LastError: "no answer", CreatedAt: now.Add(-4 * time.Hour)}))
		})
		r, err := w.GetReconciliation(w.ctx, &cloudv1.GetReconciliationRequest{})
		w.no(err)
		cell := r.GetCells()[0]
		var late []string
		for _, s := range cell.GetLateSources() {
			late = append(late, s.GetSource())
		}
		w.want("cell", []any{cell.GetLate(), late}, []any{true, []string{"proxy/slow", "shard/1"}})
		w.want("alarm", r.GetAlarms()[0].GetTenant()+" "+r.GetAlarms()[0].GetProblem(), "acme decrease")
		w.want("difference", r.GetDifferences()[0].GetTenant()+" "+r.GetDifferences()[0].GetDay(), "tiny 2026-11-01")
		w.want("pushes", []any{r.GetPushesWaiting(), r.GetPushesUnanswered(), r.GetPushesDiffering(), r.GetPushes()[0].GetState()}, []any{0, 1, 0, "unanswered"})
		w.want("problems", strings.Join(r.GetProblems(), "; "), "the ledger, what was sent and Stripe don't agree; what was sent isn't confirmed by Stripe after more than 3 h; "+
			"hours of test aren't closing; there are alarms of the last 24 h")
		w.want("payments", r.GetPayments(), false)
		_, err = w.RunReconciliation(w.ctx, &cloudv1.RunReconciliationRequest{})
		cloudtest.Refused(t, err, "NO_PAYMENTS")
	})
}

func TestReconciliation_ProblemsEndWithTheirCause(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		problems := func(what, wanted string) {
			t.Helper()
			r, err := w.GetReconciliation(w.ctx, &cloudv1.GetReconciliationRequest{})
			w.no(err)
			w.want(what, strings.Join(r.GetProblems(), "; "), wanted)
		}
		problems("of a new service", "")
		w.count(w.acme, 1)
		problems("in its first hour", "")
		w.Advance(time.Hour)
		problems("an hour that ended just now", "")
		w.Advance(20 * time.Minute)
		problems("no hour was ever closed", "hours of test aren't closing")
		hour := metering.Hour(w.World.Now())
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			for n, state := range []string{"open", "open", "differs"} {
				p := store.BillingPush{TenantID: w.tiny.ID, Meter: "executions", Hour: metering.Start(int64(n)), Identifier: fmt.Sprint(n), Kind: "event", State: state, CreatedAt: w.World.Now().Add(-time.Duration(n) * time.Hour)}
				if err := tx.InsertBillingPush(ctx, p); err != nil {
					return err
				}
			}
			return errors.Join(tx.PutUsageClosing(ctx, store.UsageClosing{Cell: "test", Hour: hour, ClosedAt: w.World.Now()}),
				tx.NoteUsageAlarm(ctx, store.UsageAlarm{UsageKey: store.UsageKey{TenantID: w.acme.ID, NamespaceID: "ns_1", Hour: 1}, Cell: "test", Source: "shard/1", Problem: metering.Decrease}, w.World.Now()))
		})
		problems("what is on its way is none", "Stripe took something differently; there are alarms of the last 24 h")
		w.Advance(150 * time.Minute)
		problems("later", "Stripe took something differently; what was sent isn't confirmed by Stripe after more than 3 h; hours of test aren't closing; there are alarms of the last 24 h")
		r, err := w.GetReconciliation(w.ctx, &cloudv1.GetReconciliationRequest{})
		w.no(err)
		w.want("late", r.GetPushesLate(), 1)
		w.Advance(24 * time.Hour)
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			now := w.World.Now()
			for n := range 3 {
				p, err := tx.ListBillingPushes(ctx, w.tiny.ID, metering.Start(int64(n)), metering.Start(int64(n+1)))
				if err != nil {
					return err
				}
				p[0].State, p[0].DoneAt = "done", now
				if err := tx.NoteBillingPush(ctx, p[0], p[0].Attempts); err != nil {
					return err
				}
			}
			return errors.Join(tx.PutUsageClosing(ctx, store.UsageClosing{Cell: "test", Hour: metering.Hour(now), ClosedAt: now}),
				tx.PutSetting(ctx, "stripe_compared_at", now.Add(-49*time.Hour).UTC().Format(time.RFC3339Nano), now))
		})
		problems("a comparison of long ago", "nothing was compared with Stripe for more than 2 d")
		w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.PutSetting(ctx, "stripe_compared_at", w.World.Now().UTC().Format(time.RFC3339Nano), w.World.Now())
		})
		problems("in the end", "")
	})
}

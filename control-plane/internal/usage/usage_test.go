package usage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/usage"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// world is a tenant on the plan team since November 11, 9:00. It is November 21, 9:00.
type world struct {
	*cloudtest.World
	t   testing.TB
	ctx context.Context
	tn  store.Tenant
	s   *usage.Service
}

var november = bill.Month(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))

func newWorld(t testing.TB, w *cloudtest.World) *world {
	w.Advance(-10 * 24 * time.Hour)
	tn, u := w.Tenant(t, "acme", "ada@acme.test")
	x := &world{World: w, t: t, tn: tn}
	x.ctx, _ = w.As(t, tn, u, permission.RoleOwner)
	x.s = usage.New(usage.Needs{Kit: w.Kit, SetHold: setHold, ClearHold: clearHold})
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		for _, id := range []string{"ns_1", "ns_2"} {
			ns := store.Namespace{TenantID: tn.ID, ID: id, Name: "name-" + id[3:], CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1}
			if err := tx.InsertNamespace(ctx, ns); err != nil {
				return err
			}
		}
		return nil
	})
	x.plan("team")
	w.Advance(10 * 24 * time.Hour)
	return x
}

func setHold(ctx context.Context, _ kit.Kit, tx *store.Tx, h store.Hold) error {
	return tx.PutHold(ctx, h)
}

func clearHold(ctx context.Context, _ kit.Kit, tx *store.Tx, tenantID, limit string) error {
	if err := tx.DeleteHold(ctx, tenantID, limit); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// plan gives the tenant a plan from now on.
func (w *world) plan(name string) {
	w.t.Helper()
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		t, err := tx.GetTenant(ctx, w.tn.ID)
		if err != nil {
			return err
		}
		t.Plan = name
		return errors.Join(tx.UpdateTenant(ctx, &t), tx.PutSubscriptionChange(ctx, store.SubscriptionChange{TenantID: t.ID, At: w.Now(), Plan: name, PlanVersion: 1}))
	})
}

// entitle overrides what the plan gives.
func (w *world) entitle(name string, value int64) {
	w.t.Helper()
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		return tx.PutOverride(ctx, store.Override{TenantID: w.tn.ID, Name: name, Value: value, CreatedAt: w.Now()})
	})
}

func at(d, h int) time.Time { return time.Date(2026, 11, d, h, 0, 0, 0, time.UTC) }

// count lets a shard tell of an hour.
func (w *world) count(namespaceID string, hour time.Time, c store.Counts) {
	w.t.Helper()
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		r := metering.Reading{UsageKey: store.UsageKey{TenantID: w.tn.ID, NamespaceID: namespaceID, Hour: metering.Hour(hour)}, Seq: c.JobsEnqueued + 1, Counts: c, OpenJobs: 7}
		_, err := metering.Take(ctx, tx, metering.Said{Cell: "test", Source: "shard/1", Epoch: "e", Readings: []metering.Reading{r}}, w.Now())
		return err
	})
}

// close closes the hours that end by a time.
func (w *world) close(to time.Time) {
	w.t.Helper()
	for more := true; more; {
		w.Service(w.t, func(ctx context.Context, tx *store.Tx) (err error) {
			more, err = metering.Close(ctx, tx, "test", metering.Hour(to), w.Now())
			return err
		})
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func jobs(n int64) store.Counts { return store.Counts{JobsEnqueued: n} }

func TestGetUsage_HasClosedAndOpenHours(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, cw *cloudtest.World) {
		w := newWorld(t, cw)
		w.count("ns_1", at(19, 5), store.Counts{JobsEnqueued: 10, StreamsPeak: 3})
		w.count("ns_2", at(19, 5), store.Counts{JobsEnqueued: 5, StreamsPeak: 4})
		w.count("ns_1", at(20, 23), jobs(100))
		w.close(at(21, 8))
		w.count("ns_1", at(21, 8), jobs(1000))
		type point struct {
			start  string
			name   string
			jobs   int64
			closed bool
		}
		of := func(r *cloudv1.GetUsageRequest) (out []point, res *cloudv1.GetUsageResponse) {
			res = must(w.s.GetUsage(w.ctx, r))(t)
			for _, p := range res.GetPoints() {
				out = append(out, point{p.GetStart().AsTime().Format("02T15"), p.GetNamespace(), p.GetCounts().GetJobsEnqueued(), p.GetClosed()})
			}
			return out, res
		}
		want := func(what string, got []point, want ...point) {
			t.Helper()
			if len(got) != len(want) {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
		}
		days, res := of(&cloudv1.GetUsageRequest{})
		want("days", days, point{"19T00", "", 15, true}, point{"20T00", "", 100, true}, point{"21T00", "", 1000, false})
		if total := res.GetTotal(); total.GetJobsEnqueued() != 1115 || total.GetStreamsPeak() != 7 {
			t.Errorf("total %v", total)
		}
		if !res.GetClosedTo().AsTime().Equal(at(21, 8)) {
			t.Errorf("closed to %v", res.GetClosedTo().AsTime())
		}
		// 115 in the 168 hours before 8:00, for the 231 that are left: 158.
		if f := res.GetForecast().GetJobsEnqueued(); f != 1115+158 {
			t.Errorf("forecast %d", f)
		}
		hours, res := of(&cloudv1.GetUsageRequest{From: timestamppb.New(at(20, 0)), To: timestamppb.New(at(22, 0)), Interval: "hour", ByNamespace: true})
		want("hours", hours, point{"20T23", "name-1", 100, true}, point{"21T08", "name-1", 1000, false})
		if res.GetForecast() != nil {
			t.Error("another span has a forecast")
		}
		byName, _ := of(&cloudv1.GetUsageRequest{From: timestamppb.New(at(19, 3)), To: timestamppb.New(at(19, 7)), ByNamespace: true})
		want("days by namespace", byName, point{"19T00", "name-1", 10, true}, point{"19T00", "name-2", 5, true})
	})
}

func TestGetUsage_RefusesSpansThatCantBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	for field, r := range map[string]*cloudv1.GetUsageRequest{
		"from:":                    {To: timestamppb.New(at(2, 0))},
		"interval: must be hour":   {Interval: "week"},
		"to: must be after":        {From: timestamppb.New(at(2, 0)), To: timestamppb.New(at(1, 0))},
		"to: is too far":           {From: timestamppb.New(at(2, 0).AddDate(-2, 0, 0)), To: timestamppb.New(at(1, 0))},
		"at most 744 points":       {From: timestamppb.New(at(1, 0)), To: timestamppb.New(at(33, 0)), Interval: "hour"},
		"to: must be a valid time": {From: timestamppb.New(at(1, 0)), To: &timestamppb.Timestamp{Nanos: -1}},
	} {
		_, err := w.s.GetUsage(w.ctx, r)
		if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); !strings.Contains(f.Error(), field) {
			t.Errorf("%s: %s", field, f.Error())
		}
	}
}

// The preview, the export and whoever adds the export up agree.
func TestPreviewInvoice_IsWhatTheExportSays(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, cw *cloudtest.World) {
		w := newWorld(t, cw)
		w.count("ns_1", at(12, 5), jobs(4_000_000))
		w.close(at(13, 0))
		w.count("ns_1", at(12, 5), jobs(9_000_000)) // A revision.
		w.count("ns_2", at(20, 5), jobs(3_000_000))
		w.Advance(30 * time.Minute)
		w.plan("business") // From 10:00 on.
		w.count("ns_1", at(21, 9), jobs(1_000_000))
		w.count("ns_2", at(21, 10), jobs(50_000_000))
		w.close(at(21, 11))
		w.Advance(2 * time.Hour)

		res := must(w.s.PreviewInvoice(w.ctx, &cloudv1.PreviewInvoiceRequest{}))(t)
		inv := res.GetInvoice()
		// 241 hours of team: base 4900 × 241 / 720 = 1640, included 5,000,000 × 241 / 720 =
		// 1,673,612; (13,000,000 − 1,673,612) × 200 / 1,000,000 = 2265. 230 hours of business:
		// 49900 × 230 / 720 = 15940; included 31,944,445, (50,000,000 − that) × 120 / 1,000,000
		// = 2166.
		if inv.GetTotal() != 1640+2265+15940+2166 || inv.GetState() != "draft" || inv.GetCurrency() != "usd" {
			t.Errorf("total %d, %s: %v", inv.GetTotal(), inv.GetState(), inv.GetLines())
		}
		if l := inv.GetLines()[0]; l.GetTitle() != "Team plan" || !l.GetFrom().AsTime().Equal(at(11, 9)) || !l.GetTo().AsTime().Equal(at(21, 10)) {
			t.Errorf("first line %v", l)
		}
		if res.GetForecastTotal() <= inv.GetTotal() {
			t.Errorf("forecast %d of %d", res.GetForecastTotal(), inv.GetTotal())
		}
		var file []byte
		for r := (&cloudv1.ExportUsageRequest{}); ; {
			part := must(w.s.ExportUsage(w.ctx, r))(t)
			file = append(file, part.GetData()...)
			if r.PageToken = part.GetNextPageToken(); r.GetPageToken() == "" {
				break
			}
		}
		report := must(bill.Verify(bytes.NewReader(file)))(t)
		if !report.Valid() || report.Total != inv.GetTotal() || report.Rows != 5 || len(report.Lines) != len(inv.GetLines()) {
			t.Errorf("%d rows, total %d, problems %v\n%s", report.Rows, report.Total, report.Problems, file)
		}
	})
}

// An export of many pages is one file, whatever is corrected and changed while it is read.
func TestExportUsage_PagesAreOneFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		for h := range int64(100) {
			var readings []metering.Reading
			for n := range 50 {
				id := "ns_x" + string(rune('a'+n/26)) + string(rune('a'+n%26))
				readings = append(readings, metering.Reading{UsageKey: store.UsageKey{TenantID: w.tn.ID, NamespaceID: id, Hour: metering.Hour(at(12, 0)) + h}, Counts: jobs(h + 1)})
			}
			if _, err := metering.Take(ctx, tx, metering.Said{Cell: "test", Source: "shard/1", Epoch: "e", Readings: readings}, w.Now()); err != nil {
				return err
			}
		}
		return nil
	})
	w.close(at(21, 0))
	var file []byte
	pages := 0
	for r := (&cloudv1.ExportUsageRequest{Period: timestamppb.New(november.Start)}); ; pages++ {
		part := must(w.s.ExportUsage(w.ctx, r))(t)
		file = append(file, part.GetData()...)
		if r.PageToken = part.GetNextPageToken(); r.GetPageToken() == "" {
			break
		}
		w.Advance(time.Minute)
		w.plan("business")
		w.count("ns_xaa", at(12, 0), jobs(1000+int64(pages)))
		w.count("ns_xaa", at(16, 3), jobs(1000+int64(pages)))
	}
	report := must(bill.Verify(bytes.NewReader(file)))(t)
	if !report.Valid() || pages != 2 || report.Rows < 5000 {
		t.Errorf("%d pages, %d rows: %v", pages, report.Rows, report.Problems)
	}
	_, err := w.s.ExportUsage(w.ctx, &cloudv1.ExportUsageRequest{PageToken: "x"})
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
}

// A month begins with its first hour, not with the last one of the month before.
func TestExportUsage_HasTheHoursOfItsMonthAlone(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, cw *cloudtest.World) {
		w := newWorld(t, cw)
		w.Advance(11 * 24 * time.Hour)
		w.count("ns_1", at(30, 23), jobs(4))
		w.count("ns_1", november.End, jobs(2))
		w.close(november.End.Add(2 * time.Hour))
		for month, want := range map[time.Time]int64{november.Start: 4, november.End: 2} {
			file := must(w.s.ExportUsage(w.ctx, &cloudv1.ExportUsageRequest{Period: timestamppb.New(month)}))(t).GetData()
			report := must(bill.Verify(bytes.NewReader(file)))(t)
			if !report.Valid() || report.Rows != 1 || report.Totals.JobsEnqueued != want {
				t.Errorf("%d rows, %d jobs, want %d: %v\n%s", report.Rows, report.Totals.JobsEnqueued, want, report.Problems, file)
			}
		}
	})
}

func TestPreviewInvoice_OfOtherPeriodsAndPlans(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.count("ns_1", at(12, 5), jobs(9_000_000))
	w.close(at(21, 0))
	other := must(w.s.PreviewInvoice(w.ctx, &cloudv1.PreviewInvoiceRequest{Plan: "business"}))(t).GetInvoice()
	// 471 hours: 49900 × 471 / 720.
	if other.GetTotal() != 32642 || other.GetLines()[0].GetPlan() != "business" {
		t.Errorf("with business: %v", other)
	}
	if before := must(w.s.PreviewInvoice(w.ctx, &cloudv1.PreviewInvoiceRequest{Period: timestamppb.New(november.Start.AddDate(0, -1, 0))}))(t); before.GetInvoice().GetTotal() != 0 || before.GetForecastTotal() != 0 {
		t.Errorf("before the tenant was there: %v", before)
	}
	for field, r := range map[string]*cloudv1.PreviewInvoiceRequest{
		"period: must be the first day": {Period: timestamppb.New(at(2, 0))},
		"period: is in the future":      {Period: timestamppb.New(november.End)},
		"plan: ":                        {Plan: "gold"},
		`"unlimited" is no plan`:        {Plan: "unlimited"},
	} {
		_, err := w.s.PreviewInvoice(w.ctx, r)
		if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); !strings.Contains(f.Error(), field) {
			t.Errorf("%s: %s", field, f.Error())
		}
	}
	w.Advance(11 * 24 * time.Hour)
	w.close(november.End.Add(time.Hour))
	if past := must(w.s.PreviewInvoice(w.ctx, &cloudv1.PreviewInvoiceRequest{Period: timestamppb.New(november.Start)}))(t); past.GetInvoice().GetState() != "final" || past.GetForecastTotal() != 0 {
		t.Errorf("a past period: %v", past)
	}
}

// heldBy is what limits hold back, as limit:dispatch:enqueue.
func (w *world) heldBy() (out []string) {
	w.t.Helper()
	if err := w.s.Compare(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	w.Advance(time.Second) // Two changes have two times.
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		list, err := tx.ListHolds(ctx, w.tn.ID)
		for _, h := range list {
			text := h.Limit
			if h.Dispatch {
				text += " dispatch"
			}
			if h.Enqueue {
				text += " enqueue"
			}
			out = append(out, text)
		}
		return err
	})
	return out
}

func (w *world) wantHeld(what string, want ...string) {
	w.t.Helper()
	if got := w.heldBy(); strings.Join(got, ",") != strings.Join(want, ",") {
		w.t.Errorf("%s: held by %v, want %v", what, got, want)
	}
}

func (w *world) wantSubjects(what string, want ...string) (all []mail.Message) {
	w.t.Helper()
	all = w.Emails(w.t)
	var got []string
	for _, m := range all {
		got = append(got, m.To+" "+m.Subject)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.t.Errorf("%s: emails %q, want %q", what, got, want)
	}
	return all
}

func TestLimits_JobsOfAMonthHoldAndTell(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, cw *cloudtest.World) {
		w := newWorld(t, cw)
		w.Member(t, w.tn.ID, "bill@acme.test", permission.RoleBilling)
		w.Member(t, w.tn.ID, "dev@acme.test", permission.RoleDeveloper)
		w.entitle("jobs_per_month_max", 1000)
		w.count("ns_1", at(20, 5), jobs(700))
		w.close(at(21, 8))
		w.count("ns_2", at(21, 8), jobs(99)) // Open hours count.
		w.wantHeld("79.9 %")
		w.wantSubjects("79.9 %")
		w.count("ns_2", at(21, 8), jobs(100))
		w.wantHeld("80 %")
		w.wantSubjects("80 %", "ada@acme.test acme: 80% of the jobs for this month used", "bill@acme.test acme: 80% of the jobs for this month used")
		w.count("ns_2", at(21, 8), jobs(101))
		w.wantHeld("more")
		w.wantSubjects("more")
		w.count("ns_2", at(21, 8), jobs(300))
		w.wantHeld("100 %", "jobs_per_month dispatch")
		mails := w.wantSubjects("100 %", "ada@acme.test acme: All jobs for this month used", "bill@acme.test acme: All jobs for this month used")
		if len(mails) > 0 && !(strings.Contains(mails[0].Text, "1,000 of the 1,000 jobs") && strings.Contains(mails[0].Text, "/acme/settings/plan")) {
			t.Errorf("email %s", mails[0].Text)
		}
		// Raised, it opens, and begins anew.
		w.entitle("jobs_per_month_max", 1200)
		w.wantHeld("raised")
		w.count("ns_2", at(21, 9), jobs(1))
		w.wantHeld("raised, and more jobs")
		w.wantSubjects("raised", "ada@acme.test acme: 80% of the jobs for this month used", "bill@acme.test acme: 80% of the jobs for this month used")
		w.count("ns_2", at(21, 9), jobs(900))
		w.wantHeld("again", "jobs_per_month dispatch")
		w.Emails(t)
		w.Advance(10 * 24 * time.Hour)
		w.wantHeld("the next month")
	})
}

func TestLimits_OpenJobsOfANamespaceTell(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.entitle("open_jobs_max", 9)
	w.count("ns_1", at(21, 8), jobs(7)) // Seven are open.
	w.wantHeld("77 %")
	w.wantSubjects("77 %")
	w.entitle("open_jobs_max", 8)
	w.count("ns_1", at(21, 8), jobs(8))
	w.wantHeld("87 %")
	mails := w.wantSubjects("87 %", "ada@acme.test acme: A namespace has 80% of its open jobs")
	if len(mails) > 0 && !(strings.Contains(mails[0].Text, "has 7 open jobs. Its plan allows 8") && strings.Contains(mails[0].Text, "/acme/settings/plan")) {
		t.Errorf("email %s", mails[0].Text)
	}
	w.entitle("open_jobs_max", 7)
	w.count("ns_1", at(21, 8), jobs(9))
	w.wantHeld("100 %") // A node refuses the next one; nothing is held.
	w.wantSubjects("100 %", "ada@acme.test acme: A namespace is at its limit of open jobs")
}

func TestExportUsage_BeforeAnHourIsClosedSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	part := must(w.s.ExportUsage(w.ctx, &cloudv1.ExportUsageRequest{Period: timestamppb.New(november.Start)}))(t)
	report := must(bill.Verify(bytes.NewReader(part.GetData())))(t)
	if !report.Valid() || !report.Header.ClosedTo.Equal(november.Start) {
		t.Errorf("closed to %v, problems %v", report.Header.ClosedTo, report.Problems)
	}
}

func TestLimits_SpendHoldsAsTheTenantSaid(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, cw *cloudtest.World) {
		w := newWorld(t, cw)
		set := func(l *cloudv1.SpendLimit) *cloudv1.SpendLimit {
			t.Helper()
			return must(w.s.SetSpendLimit(w.ctx, &cloudv1.SetSpendLimitRequest{Limit: l}))(t).GetLimit()
		}
		first := must(w.s.GetSpendLimit(w.ctx, &cloudv1.GetSpendLimitRequest{}))(t)
		// 471 hours of 4900.
		if first.GetLimit().GetAmount() != 0 || first.GetLimit().GetAction() != "alert" || first.GetLimit().GetCurrency() != "usd" || first.GetSpent() != 3205 {
			t.Errorf("at first %v", first)
		}
		l := set(&cloudv1.SpendLimit{Amount: 4000, Action: "alert", AlertPercents: []int32{90, 50}, Etag: first.GetLimit().GetEtag()})
		if l.GetAlertPercents()[0] != 50 || l.GetEtag() == first.GetLimit().GetEtag() {
			t.Errorf("set %v", l)
		}
		_, err := w.s.SetSpendLimit(w.ctx, &cloudv1.SetSpendLimitRequest{Limit: &cloudv1.SpendLimit{Amount: 1, Etag: first.GetLimit().GetEtag()}})
		cloudtest.Refused(t, err, "ETAG_MISMATCH")
		w.wantHeld("80 % of an alert")
		mails := w.wantSubjects("50 %", "ada@acme.test acme: 50% of the spend limit used")
		if len(mails) > 0 && !strings.Contains(mails[0].Text, "$32.05 of its spend limit of $40.00") {
			t.Errorf("email %s", mails[0].Text)
		}
		w.Advance(time.Second)
		set(&cloudv1.SpendLimit{Amount: 3205, Action: "hold"})
		w.wantHeld("reached", "spend dispatch")
		w.Advance(time.Second)
		set(&cloudv1.SpendLimit{Amount: 3205, Action: "reject", AlertPercents: []int32{100}})
		w.wantHeld("stricter", "spend dispatch enqueue")
		w.wantSubjects("100 %", "ada@acme.test acme: Spend limit reached")
		w.Advance(time.Second)
		set(&cloudv1.SpendLimit{Amount: 3206, Action: "reject"})
		w.wantHeld("raised")
		set(&cloudv1.SpendLimit{Amount: 0})
		w.wantHeld("removed")
		if got := strings.Join(w.Audit(t, w.tn.ID), " "); strings.Count(got, "spend_limit.update") != 5 {
			t.Errorf("audit %s", got)
		}
		for field, l := range map[string]*cloudv1.SpendLimit{
			"limit.amount": {Amount: -1}, "limit.action": {Action: "stop"}, "limit.currency": {Currency: "eur"},
			"more than five": {AlertPercents: []int32{1, 2, 3, 4, 5, 6}}, "different numbers": {AlertPercents: []int32{5, 5}}, "from 1 to 100": {AlertPercents: []int32{101}},
		} {
			_, err := w.s.SetSpendLimit(w.ctx, &cloudv1.SetSpendLimitRequest{Limit: l})
			if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); !strings.Contains(f.Error(), field) {
				t.Errorf("%s: %s", field, f.Error())
			}
		}
	})
}

// manyTenants makes tenants that use nothing, each before the others in the order of ids.
func (w *world) manyTenants(n int) (made []string) {
	w.t.Helper()
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) (err error) {
		made = nil
		for i := range n {
			tn := store.Tenant{ID: fmt.Sprintf("tn_-many_%d", i), Name: fmt.Sprintf("many-%d", i), Plan: "free", Cell: "test", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1}
			made, err = append(made, tn.ID), errors.Join(err, tx.InsertTenant(ctx, tn))
		}
		return err
	})
	return made
}

func (w *world) touch(when time.Time, tenantIDs ...string) {
	w.t.Helper()
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) error { return tx.TouchUsage(ctx, tenantIDs, when) })
}

// A change has the time at which its transaction began, and is seen when that ends.
func TestLimits_AChangeThatIsCommittedAfterMoreThanFitLaterOnesIsCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.entitle("jobs_per_month_max", 10)
	w.touch(w.Now(), w.manyTenants(500)...)
	w.wantHeld("before")
	w.count("ns_1", at(21, 8), jobs(11))
	w.touch(w.Now().Add(-2*time.Second), w.tn.ID) // A second before the others.
	w.wantHeld("committed late", "jobs_per_month dispatch")
}

// cutOff is a store in which a pass's time is over after so many reads.
type cutOff struct {
	store.Store
	left int
	end  context.CancelFunc
}

func (c *cutOff) ReadService(ctx context.Context, f func(*store.Tx) error) error {
	if c.left--; c.left < 0 {
		c.end()
	}
	return errors.Join(ctx.Err(), c.Store.ReadService(ctx, f))
}

// All change again before a pass has compared a third of them, in the same order each time.
func TestLimits_WhomAPassDidntGetToIsComparedByTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.entitle("jobs_per_month_max", 10)
	w.count("ns_1", at(21, 8), jobs(11))
	many := w.manyTenants(20)
	k := w.Kit
	cut := &cutOff{Store: k.Store}
	k.Store = cut
	w.s = usage.New(usage.Needs{Kit: k, SetHold: setHold, ClearHold: clearHold})
	for range 4 {
		w.touch(w.Now(), many...)
		w.touch(w.Now().Add(time.Millisecond), w.tn.ID)
		var ctx context.Context
		ctx, cut.end = context.WithCancel(t.Context())
		cut.left = 9 // Two of them to know whom to compare.
		if w.s.Compare(ctx) == nil {
			t.Error("a pass that was cut off was no problem")
		}
		w.Advance(15 * time.Second)
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		list, err := tx.ListHolds(ctx, w.tn.ID)
		if len(list) == 0 {
			t.Error("the last tenant was never compared")
		}
		return err
	})
}

// Those of a time may be on two pages.
func TestLimits_ManyThatChangedAtOnceAreAllCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.entitle("jobs_per_month_max", 10)
	w.count("ns_1", at(21, 8), jobs(11))
	many := w.manyTenants(600)
	w.touch(w.Now(), many[:300]...)
	w.touch(w.Now().Add(time.Second), append(many[300:], w.tn.ID)...)
	w.Advance(time.Hour)
	w.wantHeld("after those of a second before", "jobs_per_month dispatch")
}

// breakPlan gives the tenant a version of its plan that isn't there.
func (w *world) breakPlan(broken bool) {
	w.t.Helper()
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		sub, err := tx.GetSubscription(ctx, w.tn.ID)
		if err != nil {
			return err
		}
		sub.PlanVersion = 1
		if broken {
			sub.PlanVersion = 99
		}
		return tx.UpdateSubscription(ctx, &sub)
	})
}

// other is another tenant of the same world, on the plan free.
func (w *world) other(name string) *world {
	tn, _ := w.Tenant(w.t, name, "owner@"+name+".test")
	o := *w
	o.tn = tn
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertNamespace(ctx, store.Namespace{TenantID: tn.ID, ID: "ns_" + name, Name: "main", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1})
	})
	return &o
}

// holdsAfter makes a pass, of which it gives the problem, and says whether a limit of jobs holds the
// tenant.
func (w *world) holdsAfter() (held bool, problem error) {
	w.t.Helper()
	problem = w.s.Compare(context.Background())
	w.Advance(time.Second)
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		list, err := tx.ListHolds(ctx, w.tn.ID)
		held = len(list) > 0
		return err
	})
	return held, problem
}

// wantProblem makes a pass that must have a problem, and wants the tenant held or not.
func (w *world) wantProblem(what string, held bool) {
	w.t.Helper()
	got, err := w.holdsAfter()
	if err == nil || !strings.Contains(err.Error(), "entitlements of tenant") {
		w.t.Errorf("%s: the problem is %v", what, err)
	}
	if got != held {
		w.t.Errorf("%s: held %v, want %v", what, got, held)
	}
}

func TestLimits_ATenantThatCantBeComparedIsNotTheOthersProblem(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, cw *cloudtest.World) {
		bad := newWorld(t, cw)
		good := bad.other("zeta") // Its id is the later one.
		for _, w := range []*world{bad, good} {
			w.entitle("jobs_per_month_max", 10)
		}
		bad.count("ns_1", at(21, 8), jobs(11))
		bad.wantHeld("at first", "jobs_per_month dispatch")
		bad.breakPlan(true)
		bad.count("ns_1", at(21, 8), jobs(12))
		bad.Advance(time.Second)
		good.count("ns_zeta", at(21, 8), jobs(11))
		good.wantProblem("over its limit", true)
		good.Advance(10 * 24 * time.Hour)
		good.wantProblem("the next month", false)
	})
}

// It isn't forgotten: not by the process, and not by the next one.
func TestLimits_ATenantThatCouldntBeComparedIsComparedAgain(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, cw *cloudtest.World) {
		w := newWorld(t, cw)
		w.entitle("jobs_per_month_max", 10)
		w.count("ns_1", at(21, 8), jobs(11))
		w.breakPlan(true)
		for range 5 {
			w.wantProblem("broken", false)
			w.Advance(50 * time.Second)
		}
		w.breakPlan(false)
		w.Advance(10 * time.Minute) // Past the lease, too.
		again := *w
		again.s = usage.New(w.s.Needs)
		again.wantHeld("mended", "jobs_per_month dispatch")
	})
}

// Those that a tenant named for its bills read of its limits too; whoever is also a member,
// once.
func TestLimits_BillingContactsGetTheEmailsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertBillingContacts(ctx, store.BillingContacts{TenantID: w.tn.ID, Emails: []string{"ada@acme.test", "books@acme.test"}, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1})
	})
	w.entitle("jobs_per_month_max", 10)
	w.count("ns_1", at(21, 8), jobs(9))
	w.wantHeld("90 %")
	w.wantSubjects("90 %", "ada@acme.test acme: 80% of the jobs for this month used", "books@acme.test acme: 80% of the jobs for this month used")
}

// Of two processes one writes an email.
func TestLimits_EachEmailIsWrittenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.entitle("jobs_per_month_max", 10)
	w.count("ns_1", at(21, 8), jobs(9))
	w.wantHeld("90 %")
	w.Advance(2 * time.Minute) // Past the lease.
	again := *w
	again.s = usage.New(w.s.Needs)
	again.wantHeld("by another process")
	if n := len(w.Emails(t)); n != 1 {
		t.Errorf("%d emails, want 1", n)
	}
}

func TestUsedBy_CountsTheMonthAndWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.count("ns_1", at(12, 5), jobs(5))
	w.close(at(21, 8))
	w.count("ns_2", at(21, 8), jobs(6))
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		u, err := usage.UsedBy(ctx, tx, w.tn.ID, w.Now())
		if u.JobsThisMonth != 11 || u.OpenJobs != 7 {
			t.Errorf("used %+v", u)
		}
		return err
	})
}

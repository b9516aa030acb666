package usage

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/recurring"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	day = 24 * time.Hour
	// hoursMax and daysMax bound a series.
	hoursMax = 31 * 24
	daysMax  = 400
	// pointsMax bounds an answer.
	pointsMax = 50_000
	// forecastHours are those by which a forecast goes.
	forecastHours = 7 * 24
	// exportRows of the ledger are a page of an export.
	exportRows = 2000
)

// Needs of a Service.
type Needs struct {
	kit.Kit
	// SetHold and ClearHold hold back jobs of a tenant for a limit, and end that. Repeating
	// them changes nothing.
	SetHold   func(ctx context.Context, k kit.Kit, tx *store.Tx, h store.Hold) error
	ClearHold func(ctx context.Context, k kit.Kit, tx *store.Tx, tenantID, limit string) error
}

// Service is the use cases and the loop.
type Service struct {
	Needs

	loop *recurring.Loop
	// seen is when a tenant had changed when it was compared last, of the loop alone.
	seen map[string]time.Time
}

// New makes a Service.
func New(n Needs) *Service {
	s := &Service{Needs: n, seen: make(map[string]time.Time)}
	s.loop = recurring.New(n.Kit, recurring.Work{Name: "usage-limits", Every: tick, Lease: leaseFor, Failed: "can't compare usage with limits", Pass: s.pass})
	return s
}

// standing is a tenant and up to where its hours are closed.
type standing struct {
	store.Tenant
	store.UsageClosing
	now time.Time
}

func (s *Service) standing(ctx context.Context, tx *store.Tx) (st standing, err error) {
	st.now = s.Now()
	if st.Tenant, err = tx.GetTenant(ctx, access.From(ctx).TenantID); err != nil {
		return st, err
	}
	st.UsageClosing, err = closingOf(ctx, tx, st.Tenant)
	return st, err
}

// closedTo is when the last closed hour ended; zero for none.
func (s standing) closedTo() time.Time { return metering.Start(s.Hour) }

// firstOpen is the first hour that isn't closed for the tenant.
func (s standing) firstOpen() int64 { return firstOpen(s.UsageClosing, s.Tenant.ID) }

// span is what a series is asked for.
type span struct {
	from, to int64 // Hours.
	unit     int64 // Hours of a point.
	by       bool
}

// GetUsage gives a series, its total, and for the current period what it may become.
func (s *Service) GetUsage(ctx context.Context, r *cloudv1.GetUsageRequest) (*cloudv1.GetUsageResponse, error) {
	span, current, err := spanOf(r, s.Now())
	if err != nil {
		return nil, err
	}
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.GetUsageResponse, error) {
		st, err := s.standing(ctx, tx)
		if err != nil {
			return nil, err
		}
		points, err := pointsOf(ctx, tx, st, span)
		if err != nil {
			return nil, err
		}
		res := &cloudv1.GetUsageResponse{ClosedTo: timestamppb.New(st.closedTo())}
		if res.Points, err = named(ctx, tx, st, span, points); err != nil {
			return nil, err
		}
		total := totalOf(points)
		res.Total = message(total)
		if current {
			p := bill.Month(st.now)
			week, hours, err := lastWeek(ctx, tx, st)
			if err != nil {
				return nil, err
			}
			// Open hours are in the total already, so the forecast begins now.
			res.Forecast = message(bill.Forecast(total, week, hours, int64(p.End.Sub(st.now)/time.Hour)))
		}
		return res, nil
	})
}

// spanOf checks what is asked for; current: it is the billing period of now.
func spanOf(r *cloudv1.GetUsageRequest, now time.Time) (s span, current bool, _ error) {
	p := bill.Month(now)
	from, to := p.Start, p.End
	current = r.GetFrom() == nil && r.GetTo() == nil
	var wrong []fault.Field
	add := func(name, format string, args ...any) {
		wrong = append(wrong, fault.Field{Name: name, Problem: fmt.Sprintf(format, args...)})
	}
	for _, t := range []struct {
		name string
		is   *timestamppb.Timestamp
		into *time.Time
	}{{"from", r.GetFrom(), &from}, {"to", r.GetTo(), &to}} {
		switch {
		case t.is == nil && !current:
			add(t.name, "is required with the other end of the span")
		case t.is != nil && t.is.CheckValid() != nil:
			add(t.name, "must be a valid time")
		case t.is != nil:
			*t.into = t.is.AsTime()
		}
	}
	s.unit, s.by = 24, r.GetByNamespace()
	unit, most := day, daysMax
	switch r.GetInterval() {
	case "", "day":
	case "hour":
		s.unit, unit, most = 1, time.Hour, hoursMax
	default:
		add("interval", "must be hour or day")
	}
	from, to = from.Truncate(unit), to.Add(unit-1).Truncate(unit)
	if len(wrong) == 0 && !from.Before(to) {
		add("to", "must be after from")
	} else if len(wrong) == 0 && int64(to.Sub(from)/unit) > int64(most) {
		add("to", "is too far from from: at most %d points of this interval", most)
	}
	s.from, s.to = metering.Hour(from), metering.Hour(to)
	return s, current, fault.InvalidFields(wrong)
}

// pointsOf are the closed hours or days of a span, with what is open added, by time and
// namespace.
func pointsOf(ctx context.Context, tx *store.Tx, st standing, s span) ([]store.UsageAt, error) {
	read := tx.UsageByHour
	if s.unit == 24 {
		read = tx.UsageByDay
	}
	closed, err := read(ctx, st.Tenant.ID, s.from/s.unit, s.to/s.unit, s.by)
	if err != nil {
		return nil, err
	}
	open, err := tx.OpenUsage(ctx, st.Tenant.ID, max(firstOpen(st.UsageClosing, st.Tenant.ID), s.from))
	if err != nil {
		return nil, err
	}
	// Namespaces of one hour add up, hours of a day follow each other.
	hours := make(map[store.UsageAt]bill.Counts)
	for _, o := range open {
		if o.At >= s.to {
			continue
		}
		at := store.UsageAt{At: o.At}
		if s.by {
			at.NamespaceID = o.NamespaceID
		}
		hours[at] = hours[at].Plus(bill.Counts(o.Counts))
	}
	all := make(map[store.UsageAt]bill.Counts)
	for _, c := range closed {
		all[store.UsageAt{At: c.At, NamespaceID: c.NamespaceID}] = bill.Counts(c.Counts)
	}
	for at, c := range hours {
		at.At /= s.unit
		all[at] = all[at].Then(c)
	}
	var out []store.UsageAt
	for at, c := range all {
		at.Counts = store.Counts(c)
		out = append(out, at)
	}
	slices.SortFunc(out, func(a, b store.UsageAt) int {
		return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.NamespaceID, b.NamespaceID))
	})
	if len(out) > pointsMax {
		return nil, fault.InvalidField("to", "gives more than %d points; ask for less at a time", pointsMax)
	}
	return out, nil
}

// named shows points with the names of their namespaces.
func named(ctx context.Context, tx *store.Tx, st standing, s span, points []store.UsageAt) (out []*cloudv1.UsagePoint, err error) {
	var names map[string]string
	if s.by {
		if names, err = tx.NamespaceNames(ctx, st.Tenant.ID); err != nil {
			return nil, err
		}
	}
	for _, p := range points {
		out = append(out, &cloudv1.UsagePoint{
			Start: timestamppb.New(metering.Start(p.At * s.unit)), NamespaceId: p.NamespaceID, Namespace: names[p.NamespaceID],
			Counts: message(bill.Counts(p.Counts)), Closed: (p.At+1)*s.unit <= st.Hour,
		})
	}
	return out, nil
}

func totalOf(points []store.UsageAt) (total bill.Counts) {
	byTime := make(map[int64]bill.Counts)
	for _, p := range points {
		byTime[p.At] = byTime[p.At].Plus(bill.Counts(p.Counts))
	}
	for _, c := range byTime {
		total = total.Then(c)
	}
	return total
}

// lastWeek is what the last closed hours counted, at most seven days, and how many they are: a
// tenant may be younger.
func lastWeek(ctx context.Context, tx *store.Tx, st standing) (sum bill.Counts, hours int64, _ error) {
	open := st.firstOpen()
	from := max(open-forecastHours, metering.Hour(st.CreatedAt))
	if from >= open {
		return sum, 0, nil
	}
	counts, err := undivided(bill.Period{Start: metering.Start(from), End: metering.Start(open)}).counts(ctx, tx, st.Tenant.ID, open)
	if err != nil {
		return sum, 0, err
	}
	return counts[0], open - from, nil
}

// PreviewInvoice gives the invoice of a billing period from the ledger.
func (s *Service) PreviewInvoice(ctx context.Context, r *cloudv1.PreviewInvoiceRequest) (*cloudv1.PreviewInvoiceResponse, error) {
	p, err := periodOf(r.GetPeriod(), s.Now())
	if err != nil {
		return nil, err
	}
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.PreviewInvoiceResponse, error) {
		st, err := s.standing(ctx, tx)
		if err != nil {
			return nil, err
		}
		var prices priced
		if r.GetPlan() == "" {
			prices, err = pricesOf(ctx, tx, st.Tenant, p, st.now)
		} else {
			prices, err = pricesWith(ctx, tx, st.Tenant, p, st.now, r.GetPlan())
		}
		if err != nil {
			return nil, err
		}
		counts, err := prices.counts(ctx, tx, st.Tenant.ID, st.firstOpen())
		if err != nil {
			return nil, err
		}
		return preview(ctx, tx, st, prices, counts)
	})
}

func preview(ctx context.Context, tx *store.Tx, st standing, p priced, counts []bill.Counts) (*cloudv1.PreviewInvoiceResponse, error) {
	inv, err := p.invoice(counts)
	if err != nil {
		return nil, err
	}
	res := &cloudv1.PreviewInvoiceResponse{Invoice: invoiceMessage(st, p, inv)}
	if n := len(counts); n > 0 && st.now.Before(p.End) {
		week, hours, err := lastWeek(ctx, tx, st)
		if err != nil {
			return nil, err
		}
		// Hours since the last closed one are to come.
		counts[n-1] = bill.Forecast(counts[n-1], week, hours, metering.Hour(p.End)-max(st.firstOpen(), metering.Hour(p.Start)))
		whole, err := p.invoice(counts)
		if err != nil {
			return nil, err
		}
		res.ForecastTotal = whole.Total
	}
	return res, nil
}

// periodOf is the billing period that begins at a time; unset, the current one.
func periodOf(t *timestamppb.Timestamp, now time.Time) (bill.Period, error) {
	if t == nil {
		return bill.Month(now), nil
	}
	p := bill.Month(t.AsTime())
	if t.CheckValid() != nil || !p.Start.Equal(t.AsTime()) {
		return p, fault.InvalidField("period", "must be the first day of a month at 00:00 UTC, such as 2026-11-01T00:00:00Z")
	}
	if p.Start.After(now) {
		return p, fault.InvalidField("period", "is in the future")
	}
	return p, nil
}

func invoiceMessage(st standing, p priced, inv bill.Invoice) *cloudv1.Invoice {
	m := &cloudv1.Invoice{
		TenantId: st.Tenant.ID, PeriodStart: timestamppb.New(p.Start), PeriodEnd: timestamppb.New(p.End), Currency: p.Currency, Total: inv.Total, State: "draft",
	}
	if !st.closedTo().Before(p.End) {
		m.State = "final"
	}
	for _, l := range inv.Lines {
		m.Lines = append(m.Lines, &cloudv1.InvoiceLine{
			Item: l.Item, Title: titleOf(l.Item, p.Segments, l.From), Plan: l.Plan, PlanVersion: l.PlanVersion, From: timestamppb.New(l.From), To: timestamppb.New(l.To),
			Quantity: l.Quantity, Included: l.Included, Per: l.Per, UnitAmount: l.UnitAmount, Amount: l.Amount,
		})
	}
	return m
}

// titles of what is on an invoice.
var titles = map[string]string{
	bill.JobsEnqueued: "Jobs enqueued", bill.Executions: "Executions", bill.PayloadBytes: "Payload bytes",
	bill.StoredByteHours: "Stored byte-hours", bill.EgressBytes: "Bytes sent", bill.StreamsPeak: "Most streams at a time",
}

func titleOf(item string, segments []bill.Segment, from time.Time) string {
	if item != bill.Base {
		return titles[item]
	}
	i := slices.IndexFunc(segments, func(s bill.Segment) bool { return s.From.Equal(from) })
	return segments[i].Title + " plan"
}

func message(c bill.Counts) *cloudv1.Counts {
	return &cloudv1.Counts{JobsEnqueued: c.JobsEnqueued, Executions: c.Executions, PayloadBytes: c.PayloadBytes, StoredByteHours: c.StoredByteHours,
		EgressBytes: c.EgressBytes, StreamsPeak: c.StreamsPeak}
}

// exporting is where an export goes on: the state of its sums, and what it began with.
type exporting struct {
	began  time.Time // Changes of plans after it don't count.
	closed int64     // Hours before it are exported.
	after  store.UsageAfter
	sums   []byte
}

func (e exporting) text() string {
	return fmt.Sprintf("%d %d %d %d %s %s", e.began.UnixNano(), e.closed, e.after.Hour, e.after.Revision, cmp.Or(e.after.NamespaceID, "-"), base64.RawURLEncoding.EncodeToString(e.sums))
}

func parseExporting(text string) (e exporting, _ error) {
	var began int64
	var sums string
	if _, err := fmt.Sscanf(text, "%d %d %d %d %s %s", &began, &e.closed, &e.after.Hour, &e.after.Revision, &e.after.NamespaceID, &sums); err != nil {
		return e, fmt.Errorf("read the page token of an export: %w", err)
	}
	e.began = time.Unix(0, began).UTC()
	var err error
	e.sums, err = base64.RawURLEncoding.DecodeString(sums)
	return e, err
}

// tokenMax is less than what a page token may have.
const tokenMax = 1400

// ExportUsage gives a part of the export of a period; see package bill.
func (s *Service) ExportUsage(ctx context.Context, r *cloudv1.ExportUsageRequest) (*cloudv1.ExportUsageResponse, error) {
	p, err := periodOf(r.GetPeriod(), s.Now())
	if err != nil {
		return nil, err
	}
	c := access.From(ctx)
	caller, filter := c.TenantID+" "+c.ID(), "ExportUsage "+p.Start.Format(time.DateOnly)
	token, err := s.Seal.ParsePageToken(caller, filter, r.GetPageToken())
	if err != nil {
		return nil, fault.InvalidField("page_token", "must be the next_page_token of an earlier call by the same caller for the same period")
	}
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.ExportUsageResponse, error) {
		st, err := s.standing(ctx, tx)
		if err != nil {
			return nil, err
		}
		x := &export{tx: tx, standing: st, period: p}
		if token == "" {
			x.exporting = exporting{began: st.now, closed: min(st.Hour, metering.Hour(p.End)), after: store.UsageAfter{Hour: metering.Hour(p.Start)}}
		} else if x.exporting, err = parseExporting(token); err != nil {
			return nil, err
		}
		more, err := x.page(ctx, token == "")
		if err != nil {
			return nil, err
		}
		res := &cloudv1.ExportUsageResponse{Data: x.data}
		if more {
			text := x.exporting.text()
			if len(text) > tokenMax {
				return nil, fault.New(fault.Conflict, "TOO_MANY_PLAN_CHANGES", "the plan changed too often in this period to export it in parts; ask us for the file")
			}
			res.NextPageToken = s.Seal.PageToken(caller, filter, text)
		}
		return res, nil
	})
}

// later is the later of two times. While no hour is closed, none of the period is.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// export is one page at work.
type export struct {
	exporting
	standing
	tx     *store.Tx
	period bill.Period
	data   []byte
}

func (x *export) page(ctx context.Context, first bool) (more bool, _ error) {
	prices, err := pricesOf(ctx, x.tx, x.Tenant, x.period, x.began)
	if err != nil {
		return false, err
	}
	var sums bill.Summer
	if sums.Begin(prices.Segments); !first {
		if err := sums.Resume(prices.Segments, x.exporting.sums); err != nil {
			return false, err
		}
	} else if err := x.line(bill.Header{TenantID: x.Tenant.ID, Tenant: x.Name, PeriodStart: x.period.Start, PeriodEnd: x.period.End,
		ClosedTo: later(x.period.Start, metering.Start(x.closed)), Currency: prices.Currency, Segments: append([]bill.Segment{}, prices.Segments...)}); err != nil {
		return false, err
	}
	rows, err := x.tx.ListUsageHours(ctx, x.Tenant.ID, x.after, x.closed, exportRows)
	if err != nil {
		return false, err
	}
	if err := x.rows(ctx, &sums, rows); err != nil {
		return false, err
	}
	if len(rows) == exportRows {
		last := rows[len(rows)-1]
		x.after, x.exporting.sums = store.UsageAfter{Hour: last.Hour, NamespaceID: last.NamespaceID, Revision: last.Revision}, sums.State()
		return true, nil
	}
	inv, err := prices.invoice(sums.End())
	if err != nil {
		return false, err
	}
	return false, x.line(bill.Footer{Rows: sums.Rows, Totals: sums.Totals, Superseded: &sums.Superseded, Lines: inv.Lines, Total: inv.Total})
}

func (x *export) rows(ctx context.Context, sums *bill.Summer, rows []store.UsageHour) error {
	names, err := x.tx.NamespaceNames(ctx, x.Tenant.ID)
	for _, r := range rows {
		row := bill.Row{Hour: metering.Start(r.Hour), NamespaceID: r.NamespaceID, Namespace: names[r.NamespaceID], Revision: r.Revision, Counts: bill.Counts(r.Counts)}
		if err == nil {
			err = sums.Add(row)
		}
		if err == nil {
			err = x.line(row)
		}
	}
	return err
}

func (x *export) line(l any) error {
	text, err := bill.Text(l)
	x.data = append(x.data, text...)
	return err
}

package operators

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/stripe"
)

const (
	differencesShown = 1000
	pushesShown      = 100
	alarmsShown      = 100
	alarmsSince      = 30 * 24 * time.Hour
	// sourcesSince is how far back sources are looked at; those of shards always are.
	sourcesSince = time.Hour
)

// When somebody should look.
const (
	// pushLate is longer than it takes to ask Stripe twice what it has: an hour each.
	pushLate = 3 * time.Hour
	// comparedLate leaves a daily comparison a day to come to its end.
	comparedLate = 48 * time.Hour
	// alarmNew is for how long an alarm is news.
	alarmNew = 24 * time.Hour
)

// GetReconciliation tells what doesn't agree, and what keeps hours from closing.
func (s *Service) GetReconciliation(ctx context.Context, _ *cloudv1.GetReconciliationRequest) (*cloudv1.GetReconciliationResponse, error) {
	res, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) (*cloudv1.GetReconciliationResponse, error) {
		return Reconciliation(ctx, tx, s.Now())
	})
	if err == nil {
		res.Payments = s.Stripe.Payments()
	}
	return res, err
}

// Reconciliation is all that the database tells of it: not whether tenants can pay here.
func Reconciliation(ctx context.Context, tx *store.Tx, now time.Time) (*cloudv1.GetReconciliationResponse, error) {
	differences, err := tx.ListBillingDifferences(ctx, differencesShown)
	if err != nil {
		return nil, err
	}
	pushes, err := tx.ListUndoneBillingPushes(ctx, pushesShown)
	if err != nil {
		return nil, err
	}
	alarms, err := tx.ListUsageAlarms(ctx, now.Add(-alarmsSince), alarmsShown)
	if err != nil {
		return nil, err
	}
	names, err := namesOf(ctx, tx, differences, pushes, alarms)
	if err != nil {
		return nil, err
	}
	res := &cloudv1.GetReconciliationResponse{Differences: differenceMessages(differences, names), Pushes: pushMessages(pushes, names), Alarms: alarmMessages(alarms, names)}
	if err := countPushes(ctx, tx, now, res); err != nil {
		return nil, err
	}
	compared, err := stripe.Compared(ctx, tx)
	if err != nil {
		return nil, err
	}
	res.ComparedAt, res.AskedAt = maybe(compared.At), maybe(compared.Asked)
	res.Cells, err = cells(ctx, tx, now)
	res.Problems = problems(res, now)
	return res, err
}

// problems are what somebody should look at.
func problems(res *cloudv1.GetReconciliationResponse, now time.Time) (out []string) {
	note := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	note(len(res.GetDifferences()) > 0, "the ledger, what was sent and Stripe don't agree")
	note(res.GetPushesDiffering() > 0, "Stripe took something differently")
	note(res.GetPushesLate() > 0, "what was sent isn't confirmed by Stripe after more than %d h", pushLate/time.Hour)
	at := res.GetComparedAt()
	note(at != nil && now.Sub(at.AsTime()) > comparedLate, "nothing was compared with Stripe for more than %d d", comparedLate/(24*time.Hour))
	for _, c := range res.GetCells() {
		note(c.GetLate(), "hours of %s aren't closing", c.GetCell())
	}
	isNew := func(a *cloudv1.UsageAlarm) bool { return now.Sub(a.GetLastAt().AsTime()) < alarmNew }
	note(slices.ContainsFunc(res.GetAlarms(), isNew), "there are alarms of the last %d h", alarmNew/time.Hour)
	return out
}

func maybe(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// namesOf are the names of all tenants that something is said of.
func namesOf(ctx context.Context, tx *store.Tx, differences []store.BillingDifference, pushes []store.BillingPush, alarms []store.UsageAlarm) (map[string]string, error) {
	seen := make(map[string]bool)
	for _, d := range differences {
		seen[d.TenantID] = true
	}
	for _, p := range pushes {
		seen[p.TenantID] = true
	}
	for _, a := range alarms {
		seen[a.TenantID] = true
	}
	var all []string
	for id := range seen {
		all = append(all, id)
	}
	return tx.TenantNames(ctx, all)
}

func differenceMessages(list []store.BillingDifference, names map[string]string) (out []*cloudv1.BillingDifference) {
	for _, d := range list {
		out = append(out, &cloudv1.BillingDifference{
			TenantId: d.TenantID, Tenant: names[d.TenantID], Meter: d.Meter, Day: d.Day.UTC().Format(time.DateOnly),
			Ledger: d.Ledger, Sent: d.Pushed, Stripe: d.Summed, FoundAt: timestamppb.New(d.FoundAt),
		})
	}
	return out
}

// States of pushes that aren't done, as operators read them.
const (
	pushWaiting    = "waiting"
	pushUnanswered = "unanswered"
	pushDiffers    = "differs"
)

func pushState(state string, sent bool) string {
	switch {
	case state == pushDiffers:
		return pushDiffers
	case sent:
		return pushUnanswered
	}
	return pushWaiting
}

func pushMessages(list []store.BillingPush, names map[string]string) (out []*cloudv1.BillingPush) {
	for _, p := range list {
		out = append(out, &cloudv1.BillingPush{
			TenantId: p.TenantID, Tenant: names[p.TenantID], Meter: p.Meter, Hour: timestamppb.New(p.Hour), Value: p.Value,
			State: pushState(p.State, !p.FirstSentAt.IsZero()), Attempts: int32(p.Attempts), LastError: p.LastError, DueAt: maybe(p.DueAt),
		})
	}
	return out
}

func alarmMessages(list []store.UsageAlarm, names map[string]string) (out []*cloudv1.UsageAlarm) {
	for _, a := range list {
		out = append(out, &cloudv1.UsageAlarm{
			TenantId: a.TenantID, Tenant: names[a.TenantID], NamespaceId: a.NamespaceID, Hour: timestamppb.New(metering.Start(a.Hour)),
			Cell: a.Cell, Source: a.Source, Problem: a.Problem, Times: a.Times, LastAt: timestamppb.New(a.LastAt),
		})
	}
	return out
}

func countPushes(ctx context.Context, tx *store.Tx, now time.Time, res *cloudv1.GetReconciliationResponse) error {
	counts, err := tx.CountBillingPushes(ctx)
	if err != nil {
		return err
	}
	for _, c := range counts {
		switch pushState(c.State, c.Sent) {
		case pushWaiting:
			res.PushesWaiting += c.N
		case pushUnanswered:
			res.PushesUnanswered += c.N
		case pushDiffers:
			res.PushesDiffering += c.N
		}
	}
	late, err := tx.OpenBillingPushes(ctx, now.Add(-pushLate))
	res.PushesLate = int64(late)
	return err
}

// cells is up to where each has closed hours.
func cells(ctx context.Context, tx *store.Tx, now time.Time) (out []*cloudv1.CellUsage, _ error) {
	all, err := tx.ListUsageCells(ctx)
	for _, name := range all {
		c, err := cellUsage(ctx, tx, name, now)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, err
}

func cellUsage(ctx context.Context, tx *store.Tx, cell string, now time.Time) (*cloudv1.CellUsage, error) {
	sources, err := tx.UsageSources(ctx, cell, now.Add(-sourcesSince))
	if err != nil {
		return nil, err
	}
	at, err := metering.Closing(ctx, tx, cell, metering.Hour(now))
	m := &cloudv1.CellUsage{Cell: cell, ClosedTo: timestamppb.New(metering.Start(at.Hour)), Late: metering.LateClosing(at, now)}
	for _, v := range metering.Late(sources, now) {
		m.LateSources = append(m.LateSources, &cloudv1.UsageSource{Source: v.Source, CompleteTo: maybe(v.CompleteTo), HeardAt: maybe(v.HeardAt)})
	}
	return m, err
}

// closing of a cell; zero if it has closed nothing.
func closing(ctx context.Context, tx *store.Tx, cell string) (store.UsageClosing, error) {
	at, err := tx.GetUsageClosing(ctx, cell)
	if errors.Is(err, store.ErrNotFound) {
		return store.UsageClosing{}, nil
	}
	return at, err
}

// RunReconciliation has the loop compare at its next turn.
func (s *Service) RunReconciliation(ctx context.Context, _ *cloudv1.RunReconciliationRequest) (*cloudv1.RunReconciliationResponse, error) {
	if !s.Stripe.Payments() {
		return nil, fault.New(fault.Conflict, "NO_PAYMENTS", "payments are off here, so there is nothing to compare; set up Stripe first")
	}
	now := s.Now()
	return &cloudv1.RunReconciliationResponse{AskedAt: timestamppb.New(now)}, s.Store.Service(ctx, func(tx *store.Tx) error {
		if err := stripe.AskToCompare(ctx, tx, now); err != nil {
			return err
		}
		return note(ctx, s.Kit, tx, access.From(ctx).Name, "reconciliation.run", "", "")
	})
}

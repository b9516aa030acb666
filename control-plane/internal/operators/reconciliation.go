package operators

import (
	"context"
	"errors"
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
	pushesShown = 100
	alarmsShown = 100
	alarmsSince = 30 * 24 * time.Hour
	// sourcesSince is how far back sources are looked at; those of shards always are.
	sourcesSince = time.Hour
)

// GetReconciliation tells what doesn't agree, and what keeps hours from closing.
func (s *Service) GetReconciliation(ctx context.Context, _ *cloudv1.GetReconciliationRequest) (*cloudv1.GetReconciliationResponse, error) {
	compared, err := s.Stripe.Compared(ctx)
	if err != nil {
		return nil, err
	}
	differences, err := s.Stripe.Differences(ctx)
	if err != nil {
		return nil, err
	}
	res := &cloudv1.GetReconciliationResponse{Payments: s.Stripe.Payments(), ComparedAt: maybe(compared.At), AskedAt: maybe(compared.Asked)}
	return res, s.Store.ReadService(ctx, func(tx *store.Tx) error {
		pushes, err := tx.ListUndoneBillingPushes(ctx, pushesShown)
		if err != nil {
			return err
		}
		alarms, err := tx.ListUsageAlarms(ctx, s.Now().Add(-alarmsSince), alarmsShown)
		if err != nil {
			return err
		}
		names, err := namesOf(ctx, tx, differences, pushes, alarms)
		if err != nil {
			return err
		}
		res.Differences, res.Pushes, res.Alarms = differenceMessages(differences, names), pushMessages(pushes, names), alarmMessages(alarms, names)
		if err := countPushes(ctx, tx, res); err != nil {
			return err
		}
		res.Cells, err = s.cells(ctx, tx)
		return err
	})
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

func countPushes(ctx context.Context, tx *store.Tx, res *cloudv1.GetReconciliationResponse) error {
	counts, err := tx.CountBillingPushes(ctx)
	res.PushesWaiting, res.PushesUnanswered, res.PushesDiffering = 0, 0, 0
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
	return err
}

// cells is up to where each has closed hours.
func (s *Service) cells(ctx context.Context, tx *store.Tx) (out []*cloudv1.CellUsage, _ error) {
	now := s.Now()
	all, err := tx.ListUsageClosings(ctx)
	for _, at := range all {
		sources, err := tx.UsageSources(ctx, at.Cell, now.Add(-sourcesSince))
		if err != nil {
			return nil, err
		}
		m := &cloudv1.CellUsage{Cell: at.Cell, ClosedTo: timestamppb.New(metering.Start(at.Hour)), Late: metering.LateClosing(at, now)}
		for _, v := range metering.Late(sources, now) {
			m.LateSources = append(m.LateSources, &cloudv1.UsageSource{Source: v.Source, CompleteTo: maybe(v.CompleteTo), HeardAt: maybe(v.HeardAt)})
		}
		out = append(out, m)
	}
	return out, err
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

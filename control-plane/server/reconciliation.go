package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/operators"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Reconciliation is what doesn't agree, and what keeps hours from closing, as operators see it in
// the console. ComparedAt is nil if nothing was ever compared.
type Reconciliation struct {
	// Problems are what somebody should look at; empty if all is as it should be.
	Problems    []string           `json:"problems"`
	ComparedAt  *time.Time         `json:"compared_at"`
	Differences []TenantDifference `json:"differences"`
	Pushes      PushCounts         `json:"pushes"`
	Undone      []UndonePush       `json:"undone_pushes"`
	Cells       []CellUsage        `json:"cells"`
	Alarms      []UsageAlarm       `json:"alarms"`
}

// TenantDifference is a UsageDifference with the tenant's name.
type TenantDifference struct {
	Tenant string `json:"tenant"`
	UsageDifference
}

// PushCounts is how many numbers aren't at Stripe for certain: never sent, sent without an
// answer, taken with another number. Late are those of the first two that wait for hours.
type PushCounts struct {
	Waiting    int64 `json:"waiting"`
	Unanswered int64 `json:"unanswered"`
	Differing  int64 `json:"differing"`
	Late       int64 `json:"late"`
}

// UndonePush is one of them.
type UndonePush struct {
	Tenant    string    `json:"tenant"`
	TenantID  string    `json:"tenant_id"`
	Meter     string    `json:"meter"`
	Hour      time.Time `json:"hour"`
	Value     int64     `json:"value"`
	State     string    `json:"state"`
	Attempts  int32     `json:"attempts"`
	LastError string    `json:"last_error"`
}

// CellUsage is up to where a cell's hours are closed, and what keeps the next one open.
type CellUsage struct {
	Cell        string        `json:"cell"`
	ClosedTo    time.Time     `json:"closed_to"`
	Late        bool          `json:"late"`
	LateSources []UsageSource `json:"late_sources"`
}

// UsageSource is a shard or a proxy, and up to where it told all that it counted; nil: nothing.
type UsageSource struct {
	Source     string     `json:"source"`
	CompleteTo *time.Time `json:"complete_to"`
	HeardAt    *time.Time `json:"heard_at"`
}

// UsageAlarm is what a source said that can't be.
type UsageAlarm struct {
	Tenant      string    `json:"tenant"`
	TenantID    string    `json:"tenant_id"`
	NamespaceID string    `json:"namespace_id"`
	Hour        time.Time `json:"hour"`
	Cell        string    `json:"cell"`
	Source      string    `json:"source"`
	Problem     string    `json:"problem"`
	Times       int64     `json:"times"`
	LastAt      time.Time `json:"last_at"`
}

// Reconcile tells how the ledger, what was sent and Stripe agreed when they were last compared,
// and what waits now. It asks nobody and changes nothing.
func Reconcile(ctx context.Context, m Maintenance) (Reconciliation, error) {
	s, err := m.database(ctx)
	if err != nil {
		return Reconciliation{}, err
	}
	found, err := store.Get(ctx, s.ReadService, func(tx *store.Tx) (*cloudv1.GetReconciliationResponse, error) {
		return operators.Reconciliation(ctx, tx, time.Now())
	})
	return reconciliation(found), errors.Join(err, s.Close())
}

func reconciliation(r *cloudv1.GetReconciliationResponse) Reconciliation {
	out := Reconciliation{
		Problems: append([]string{}, r.GetProblems()...), ComparedAt: timeOf(r.GetComparedAt()),
		Differences: []TenantDifference{}, Undone: []UndonePush{}, Cells: []CellUsage{}, Alarms: []UsageAlarm{},
		Pushes: PushCounts{r.GetPushesWaiting(), r.GetPushesUnanswered(), r.GetPushesDiffering(), r.GetPushesLate()},
	}
	for _, d := range r.GetDifferences() {
		out.Differences = append(out.Differences, TenantDifference{d.GetTenant(),
			UsageDifference{d.GetTenantId(), d.GetMeter(), d.GetDay(), d.GetLedger(), d.GetSent(), d.GetStripe(), d.GetFoundAt().AsTime()}})
	}
	for _, p := range r.GetPushes() {
		out.Undone = append(out.Undone, UndonePush{p.GetTenant(), p.GetTenantId(), p.GetMeter(), p.GetHour().AsTime(), p.GetValue(), p.GetState(), p.GetAttempts(), p.GetLastError()})
	}
	for _, c := range r.GetCells() {
		out.Cells = append(out.Cells, cellUsage(c))
	}
	for _, a := range r.GetAlarms() {
		out.Alarms = append(out.Alarms, UsageAlarm{a.GetTenant(), a.GetTenantId(), a.GetNamespaceId(), a.GetHour().AsTime(), a.GetCell(), a.GetSource(), a.GetProblem(), a.GetTimes(), a.GetLastAt().AsTime()})
	}
	return out
}

func cellUsage(c *cloudv1.CellUsage) CellUsage {
	out := CellUsage{Cell: c.GetCell(), ClosedTo: c.GetClosedTo().AsTime(), Late: c.GetLate(), LateSources: []UsageSource{}}
	for _, v := range c.GetLateSources() {
		out.LateSources = append(out.LateSources, UsageSource{v.GetSource(), timeOf(v.GetCompleteTo()), timeOf(v.GetHeardAt())})
	}
	return out
}

func timeOf(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}

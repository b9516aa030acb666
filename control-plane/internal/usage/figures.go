package usage

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Figures are what operators compare a tenant by, open hours too.
func Figures(ctx context.Context, tx *store.Tx, tenantID string, now time.Time) (f store.TenantFigures, err error) {
	st := standing{now: now}
	if st.Tenant, err = tx.GetTenant(ctx, tenantID); err != nil {
		return f, err
	}
	month, hour := bill.Month(now), metering.Hour(now)
	f = store.TenantFigures{TenantID: tenantID, At: now, Month: month.Start}
	if f.Revenue, f.Currency, err = spentIn(ctx, tx, st, month); err != nil {
		return f, err
	}
	if f.RevenueLastMonth, _, err = spentIn(ctx, tx, st, bill.Month(month.Start.Add(-1))); err != nil {
		return f, err
	}
	if f.JobsDay, err = jobsOf(ctx, tx, st, hour-23, hour+1); err != nil {
		return f, err
	}
	if f.JobsHour, err = jobsOf(ctx, tx, st, hour-1, hour); err != nil {
		return f, err
	}
	levels, err := tx.ListUsageLevels(ctx, tenantID)
	for _, l := range levels {
		f.OpenJobs, f.StoredBytes = f.OpenJobs+l.OpenJobs, f.StoredBytes+l.StoredBytes
	}
	return f, err
}

// jobsOf counts the jobs enqueued in the hours from one up to before another.
func jobsOf(ctx context.Context, tx *store.Tx, st standing, from, to int64) (int64, error) {
	counts, err := soFar(ctx, tx, st.Tenant, undivided(bill.Period{Start: metering.Start(from), End: metering.Start(to)}))
	if err != nil {
		return 0, err
	}
	return counts[0].JobsEnqueued, nil
}

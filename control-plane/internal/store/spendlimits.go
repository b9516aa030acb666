package store

import (
	"context"
	"time"
)

// SpendLimit is what a tenant set for itself, per billing period.
type SpendLimit struct {
	TenantID             string
	Amount               int64 // In the smallest unit of the currency; 0: no limit.
	Currency, Action     string
	Alerts               []int
	CreatedAt, UpdatedAt time.Time
	Version              int64
}

var spendLimits = table[SpendLimit]{
	name: "spend_limits", columns: "tenant_id, amount, currency, action, alerts, created_at, updated_at, version",
	fields: func(v *SpendLimit) []any {
		return []any{&v.TenantID, &v.Amount, &v.Currency, &v.Action, asJSON{&v.Alerts}, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version}
	},
	key: "tenant_id", changes: "amount, currency, action, alerts, updated_at",
}

// GetSpendLimit reads a tenant's; ErrNotFound if it never set one.
func (t *Tx) GetSpendLimit(ctx context.Context, tenantID string) (SpendLimit, error) {
	return spendLimits.get(ctx, t.of(tenantID), "tenant_id = ?", tenantID)
}

// InsertSpendLimit adds a tenant's first one.
func (t *Tx) InsertSpendLimit(ctx context.Context, v SpendLimit) error {
	return spendLimits.insert(ctx, t.of(v.TenantID), v)
}

// UpdateSpendLimit writes it at the version that was read.
func (t *Tx) UpdateSpendLimit(ctx context.Context, v *SpendLimit) error {
	return spendLimits.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// NoteLimitNotice records that a notice about a limit was written in a period; ErrExists if it
// was before.
func (t *Tx) NoteLimitNotice(ctx context.Context, tenantID string, period time.Time, notice string, now time.Time) error {
	return t.of(tenantID).insert(ctx, "limit_notices", "tenant_id, period, notice, sent_at", tenantID, period, notice, now)
}

// DeleteLimitNoticesBefore forgets those of periods that began before a time, and counts them.
func (t *Tx) DeleteLimitNoticesBefore(ctx context.Context, period time.Time) (int, error) {
	return t.across().exec(ctx, "forget limit notices", "DELETE FROM limit_notices WHERE period < ?", period)
}

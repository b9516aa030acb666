package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const outboxColumns = "tenant_id, id, kind, subject, payload, created_at, due_at, attempts, last_error, claimed_by, claimed_till"

func scanOutbox(s scanner) (v Outbox, err error) {
	return v, s.Scan(&v.TenantID, &v.ID, &v.Kind, &v.Subject, &v.Payload, toTime{&v.CreatedAt}, toTime{&v.DueAt}, &v.Attempts, &v.LastError,
		&v.ClaimedBy, toTime{&v.ClaimedTill})
}

func (t *tx) InsertOutbox(ctx context.Context, v Outbox) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.insert(ctx, "outbox", outboxColumns+", wanted_at", v.TenantID, v.ID, v.Kind, v.Subject, v.Payload, v.CreatedAt, v.DueAt, v.Attempts, v.LastError,
		v.ClaimedBy, v.ClaimedTill, v.DueAt)
}

func (t *tx) ClaimOutbox(ctx context.Context, holder string, now, till time.Time, limit int, kinds ...OutboxKind) ([]Outbox, error) {
	if err := t.service(); err != nil {
		return nil, err
	}
	args, which := []any{holder, till, now, now, now, now}, ""
	if len(kinds) > 0 {
		which = " AND kind IN (" + places(len(kinds)) + ")"
		for _, k := range kinds {
			args = append(args, k)
		}
	}
	// In turns: every tenant's first row, then every tenant's second. PostgreSQL cannot lock
	// rows that it numbers, so the chosen rows are checked again once they are locked.
	rows, err := many(ctx, t, "claim outbox rows", scanOutbox,
		`UPDATE outbox SET claimed_by = ?, claimed_till = ?, attempts = attempts + 1 WHERE (tenant_id, id) IN (
		   SELECT tenant_id, id FROM outbox WHERE due_at <= ? AND claimed_till <= ? AND (tenant_id, id) IN (
		     SELECT tenant_id, id FROM (
		       SELECT tenant_id, id, ROW_NUMBER() OVER (PARTITION BY tenant_id ORDER BY id) AS turn
		       FROM outbox WHERE due_at <= ? AND claimed_till <= ?`+which+`) AS due
		     ORDER BY turn, id LIMIT ?)`+t.dialect.skipLocked+`)
		 RETURNING `+outboxColumns, append(args, Page{Limit: limit}.limit())...)
	// RETURNING promises no order.
	slices.SortFunc(rows, func(a, b Outbox) int { return cmp.Compare(a.ID, b.ID) })
	return rows, err
}

func (t *tx) HasOutbox(ctx context.Context, tenantID string, kind OutboxKind, subject string, due time.Time) (bool, error) {
	if !t.sees(tenantID) {
		return false, nil
	}
	found, err := many(ctx, t, "look for an outbox row", number,
		"SELECT 1 FROM outbox WHERE tenant_id = ? AND kind = ? AND subject = ? AND due_at <= ? LIMIT 1", tenantID, kind, subject, due)
	return len(found) > 0, err
}

func (t *tx) FinishOutbox(ctx context.Context, v Outbox) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.update(ctx, "finish outbox row", "DELETE FROM outbox WHERE tenant_id = ? AND id = ? AND claimed_by = ? AND attempts = ?",
		[]any{v.TenantID, v.ID, v.ClaimedBy, v.Attempts}, outboxExists, v.TenantID, v.ID)
}

const outboxExists = "SELECT 1 FROM outbox WHERE tenant_id = ? AND id = ?"

func (t *tx) DeferOutbox(ctx context.Context, v Outbox, due time.Time, problem string) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.update(ctx, "defer outbox row",
		"UPDATE outbox SET due_at = ?, last_error = ?, claimed_by = '', claimed_till = 0 WHERE tenant_id = ? AND id = ? AND claimed_by = ? AND attempts = ?",
		[]any{due, problem, v.TenantID, v.ID, v.ClaimedBy, v.Attempts}, outboxExists, v.TenantID, v.ID)
}

func (t *tx) CountOutbox(ctx context.Context, before time.Time) (int, time.Time, error) {
	if err := t.service(); err != nil {
		return 0, time.Time{}, err
	}
	type sum struct {
		n      int
		oldest time.Time
	}
	v, err := one(ctx, t, "count outbox", func(s scanner) (v sum, err error) { return v, s.Scan(&v.n, toTime{&v.oldest}) },
		"SELECT COUNT(*), COALESCE(MIN(wanted_at), 0) FROM outbox WHERE due_at < ?", before)
	return v.n, v.oldest, err
}

func (t *tx) OldestOutbox(ctx context.Context, now time.Time, kinds ...OutboxKind) (time.Time, error) {
	if err := t.service(); err != nil {
		return time.Time{}, err
	}
	args := []any{now}
	for _, k := range kinds {
		args = append(args, k)
	}
	return one(ctx, t, "oldest outbox row", func(s scanner) (at time.Time, err error) { return at, s.Scan(toTime{&at}) },
		"SELECT COALESCE(MIN(wanted_at), 0) FROM outbox WHERE wanted_at <= ? AND kind IN ("+places(len(kinds))+")", args...)
}

func (t *tx) CountParked(ctx context.Context, before time.Time) (int, error) {
	if err := t.service(); err != nil {
		return 0, err
	}
	n, err := one(ctx, t, "count parked outbox rows", number, "SELECT COUNT(*) FROM outbox WHERE last_error <> '' AND due_at > ?", before)
	return int(n), err
}

func scanLease(s scanner) (v Lease, err error) {
	return v, s.Scan(&v.Name, &v.Holder, &v.Token, toTime{&v.ExpiresAt})
}

func (t *tx) TakeLease(ctx context.Context, name, holder string, now, till time.Time) (Lease, bool, error) {
	l, err := one(ctx, t, "take lease", scanLease,
		`INSERT INTO leases (name, holder, token, expires_at) VALUES (?, ?, 1, ?)
		 ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
		   token = CASE WHEN leases.holder = excluded.holder AND leases.expires_at > ? THEN leases.token ELSE leases.token + 1 END
		   WHERE leases.holder = excluded.holder OR leases.expires_at <= ?
		 RETURNING name, holder, token, expires_at`, name, holder, till, now, now)
	if !errors.Is(err, ErrNotFound) {
		return l, err == nil, err
	}
	l, err = one(ctx, t, "read lease", scanLease, "SELECT name, holder, token, expires_at FROM leases WHERE name = ?", name)
	return l, false, err
}

func (t *tx) ReleaseLease(ctx context.Context, name, holder string) error {
	// The row stays: its token only grows.
	_, err := t.exec(ctx, "release lease", "UPDATE leases SET expires_at = 0 WHERE name = ? AND holder = ?", name, holder)
	return err
}

func (t *tx) HeldLeases(ctx context.Context, prefix string, now time.Time) ([]Lease, error) {
	return many(ctx, t, "list leases", scanLease,
		"SELECT name, holder, token, expires_at FROM leases WHERE substr(name, 1, length(CAST(? AS TEXT))) = ? AND expires_at > ? ORDER BY name LIMIT ?",
		prefix, prefix, now, Page{}.limit())
}

func (t *tx) GetSetting(ctx context.Context, name string) (string, error) {
	return one(ctx, t, "get setting", text, "SELECT value FROM settings WHERE name = ?", name)
}

func (t *tx) InsertSetting(ctx context.Context, name, value string, now time.Time) error {
	return t.insert(ctx, "settings", "name, value, created_at", name, value, now)
}

func (t *tx) PutSetting(ctx context.Context, name, value string, now time.Time) error {
	_, err := t.exec(ctx, "put setting",
		"INSERT INTO settings (name, value, created_at) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value, now)
	return err
}

func (t *tx) SettingNames(ctx context.Context, prefix string) ([]string, error) {
	return many(ctx, t, "list settings", text,
		"SELECT name FROM settings WHERE substr(name, 1, length(CAST(? AS TEXT))) = ? ORDER BY name LIMIT ?", prefix, prefix, Page{}.limit())
}

func (t *tx) RaiseSetting(ctx context.Context, name string, now time.Time) (int64, error) {
	n, err := one(ctx, t, "raise setting", number,
		`INSERT INTO settings (name, value, created_at) VALUES (?, '1', ?)
		 ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(settings.value AS BIGINT) + 1 AS TEXT)
		 RETURNING CAST(value AS BIGINT)`, name, now)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

func (t *tx) EndSignIns(ctx context.Context) (map[string]int, error) {
	if err := t.service(); err != nil {
		return nil, err
	}
	ended := make(map[string]int)
	for _, what := range []struct{ name, text string }{
		{"sessions", "DELETE FROM sessions"},
		{"one_time_tokens", "DELETE FROM one_time_tokens"},
		{"invitations", "DELETE FROM invitations"},
		{"sign_ups", "DELETE FROM signups WHERE confirmed_at = 0"},
		{"letters", "DELETE FROM outbox WHERE kind = 'mail'"},
	} {
		n, err := t.exec(ctx, "end "+what.name, what.text)
		if err != nil {
			return nil, err
		}
		ended[what.name] = n
	}
	return ended, nil
}

func (t *tx) CountRate(ctx context.Context, bucket string, window time.Time) (int, error) {
	n, err := one(ctx, t, "count rate", number,
		`INSERT INTO rates (bucket, window_at, count) VALUES (?, ?, 1)
		 ON CONFLICT (bucket, window_at) DO UPDATE SET count = rates.count + 1 RETURNING count`, bucket, window)
	return int(n), err
}

func (t *tx) DeleteRatesBefore(ctx context.Context, window time.Time) (int, error) {
	return t.exec(ctx, "delete old rates", "DELETE FROM rates WHERE window_at < ?", window)
}

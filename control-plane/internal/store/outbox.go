package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

var (
	outbox = table[Outbox]{
		name: "outbox", columns: "tenant_id, id, kind, subject, payload, created_at, due_at, attempts, last_error, claimed_by, claimed_till",
		fields: func(v *Outbox) []any {
			return []any{&v.TenantID, &v.ID, &v.Kind, &v.Subject, &v.Payload, asTime{&v.CreatedAt}, asTime{&v.DueAt}, &v.Attempts, &v.LastError,
				&v.ClaimedBy, asTime{&v.ClaimedTill}}
		},
	}
	leases = table[Lease]{
		name: "leases", columns: "name, holder, token, expires_at",
		fields: func(v *Lease) []any { return []any{&v.Name, &v.Holder, &v.Token, asTime{&v.ExpiresAt}} },
	}
)

// InsertOutbox adds something to be done outside the database.
func (t *Tx) InsertOutbox(ctx context.Context, v Outbox) error {
	return t.of(v.TenantID).insert(ctx, outbox.name, outbox.columns+", wanted_at", append(outbox.fields(&v), v.DueAt)...)
}

// ClaimOutbox takes up to limit due rows, of all tenants, in the order they were made;
// no other holder gets them before till. A claim counts as an attempt. No kinds means all.
func (t *Tx) ClaimOutbox(ctx context.Context, holder string, now, till time.Time, limit int, kinds ...OutboxKind) ([]Outbox, error) {
	args, which := []any{holder, till, now, now, now, now}, ""
	if len(kinds) > 0 {
		which = " AND kind IN (" + places(len(kinds)) + ")"
		for _, k := range kinds {
			args = append(args, k)
		}
	}
	// In turns: every tenant's first row, then every tenant's second. PostgreSQL cannot lock
	// rows that it numbers, so the chosen rows are checked again once they are locked.
	rows, err := query(ctx, t.across(), "claim outbox rows", outbox.fields,
		`UPDATE outbox SET claimed_by = ?, claimed_till = ?, attempts = attempts + 1 WHERE (tenant_id, id) IN (
		   SELECT tenant_id, id FROM outbox WHERE due_at <= ? AND claimed_till <= ? AND (tenant_id, id) IN (
		     SELECT tenant_id, id FROM (
		       SELECT tenant_id, id, ROW_NUMBER() OVER (PARTITION BY tenant_id ORDER BY id) AS turn
		       FROM outbox WHERE due_at <= ? AND claimed_till <= ?`+which+`) AS due
		     ORDER BY turn, id LIMIT ?)`+t.dialect.skipLocked+`)
		 RETURNING `+outbox.columns, append(args, Page{Limit: limit}.limit())...)
	// RETURNING promises no order.
	slices.SortFunc(rows, func(a, b Outbox) int { return cmp.Compare(a.ID, b.ID) })
	return rows, err
}

// HasOutbox reports whether a row about a subject is waiting and due by then.
func (t *Tx) HasOutbox(ctx context.Context, tenantID string, kind OutboxKind, subject string, due time.Time) (bool, error) {
	n, err := t.of(tenantID).count(ctx, "look for an outbox row",
		"SELECT 1 FROM outbox WHERE tenant_id = ? AND kind = ? AND subject = ? AND due_at <= ? LIMIT 1", tenantID, kind, subject, due)
	return n > 0, err
}

// FinishOutbox removes a row that is done, as it was claimed: ErrStale if another holder
// has claimed it since.
func (t *Tx) FinishOutbox(ctx context.Context, v Outbox) error {
	return t.claimed(ctx, v, "finish outbox row", "DELETE FROM outbox")
}

// DeferOutbox puts back a row, as it was claimed, and records why it failed.
func (t *Tx) DeferOutbox(ctx context.Context, v Outbox, due time.Time, problem string) error {
	return t.claimed(ctx, v, "defer outbox row", "UPDATE outbox SET due_at = ?, last_error = ?, claimed_by = '', claimed_till = 0", due, problem)
}

// ExtendOutbox lets the claim on a row end later: ErrStale if another holder has claimed it
// since.
func (t *Tx) ExtendOutbox(ctx context.Context, v Outbox, till time.Time) error {
	return t.claimed(ctx, v, "extend the claim on an outbox row", "UPDATE outbox SET claimed_till = ?", till)
}

// claimed does something to a row that nobody has claimed since.
func (t *Tx) claimed(ctx context.Context, v Outbox, doing, text string, args ...any) error {
	n, err := t.of(v.TenantID).exec(ctx, doing, text+" WHERE tenant_id = ? AND id = ? AND claimed_by = ? AND attempts = ?",
		append(args, v.TenantID, v.ID, v.ClaimedBy, v.Attempts)...)
	if err == nil && n == 0 {
		err = t.of(v.TenantID).stale(ctx, doing, outbox.name, "tenant_id = ? AND id = ?", v.TenantID, v.ID)
	}
	return err
}

// CountOutbox counts the rows of all tenants that are due before a time, failures
// included, and returns since when the oldest has been due.
func (t *Tx) CountOutbox(ctx context.Context, before time.Time) (int, time.Time, error) {
	type sum struct {
		n      int
		oldest time.Time
	}
	v, err := first(ctx, t.across(), "count outbox", func(v *sum) []any { return []any{&v.n, asTime{&v.oldest}} },
		"SELECT COUNT(*), COALESCE(MIN(wanted_at), 0) FROM outbox WHERE due_at < ?", before)
	return v.n, v.oldest, err
}

// OldestOutbox is since when the oldest row of some kinds has been due, parked or not;
// zero: none is.
func (t *Tx) OldestOutbox(ctx context.Context, now time.Time, kinds ...OutboxKind) (time.Time, error) {
	args := []any{now}
	for _, k := range kinds {
		args = append(args, k)
	}
	return first(ctx, t.across(), "oldest outbox row", func(v *time.Time) []any { return []any{asTime{v}} },
		"SELECT COALESCE(MIN(wanted_at), 0) FROM outbox WHERE wanted_at <= ? AND kind IN ("+places(len(kinds))+")", args...)
}

// CountParked counts rows that failed and are not retried before a time.
func (t *Tx) CountParked(ctx context.Context, before time.Time) (int, error) {
	return t.across().count(ctx, "count parked outbox rows", "SELECT COUNT(*) FROM outbox WHERE last_error <> '' AND due_at > ?", before)
}

// TakeLease takes or renews a lease; false if another holder has it.
func (t *Tx) TakeLease(ctx context.Context, name, holder string, now, till time.Time) (Lease, bool, error) {
	l, err := first(ctx, t.common(), "take lease", leases.fields,
		`INSERT INTO leases (name, holder, token, expires_at) VALUES (?, ?, 1, ?)
		 ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
		   token = CASE WHEN leases.holder = excluded.holder AND leases.expires_at > ? THEN leases.token ELSE leases.token + 1 END
		   WHERE leases.holder = excluded.holder OR leases.expires_at <= ?
		 RETURNING `+leases.columns, name, holder, till, now, now)
	if !errors.Is(err, ErrNotFound) {
		return l, err == nil, err
	}
	l, err = leases.get(ctx, t.common(), "name = ?", name)
	return l, false, err
}

// ReleaseLease ends a lease early.
func (t *Tx) ReleaseLease(ctx context.Context, name, holder string) error {
	// The row stays: its token only grows.
	_, err := t.common().exec(ctx, "release lease", "UPDATE leases SET expires_at = 0 WHERE name = ? AND holder = ?", name, holder)
	return err
}

// HeldLeases lists held leases whose names begin with prefix.
func (t *Tx) HeldLeases(ctx context.Context, prefix string, now time.Time) ([]Lease, error) {
	return leases.list(ctx, t.common(), pageMax, "substr(name, 1, length(CAST(? AS TEXT))) = ? AND expires_at > ? ORDER BY name", prefix, prefix, now)
}

// GetSetting reads one of the service's own keys and numbers.
func (t *Tx) GetSetting(ctx context.Context, name string) (string, error) {
	return first(ctx, t.common(), "get setting", single[string], "SELECT value FROM settings WHERE name = ?", name)
}

// InsertSetting fails with ErrExists if the setting exists.
func (t *Tx) InsertSetting(ctx context.Context, name, value string, now time.Time) error {
	return t.common().insert(ctx, "settings", "name, value, created_at", name, value, now)
}

// PutSetting overwrites.
func (t *Tx) PutSetting(ctx context.Context, name, value string, now time.Time) error {
	_, err := t.common().exec(ctx, "put setting",
		"INSERT INTO settings (name, value, created_at) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value, now)
	return err
}

// SettingNames lists those that begin with a text.
func (t *Tx) SettingNames(ctx context.Context, prefix string) ([]string, error) {
	return query(ctx, t.common(), "list settings", single[string],
		"SELECT name FROM settings WHERE substr(name, 1, length(CAST(? AS TEXT))) = ? ORDER BY name LIMIT ?", prefix, prefix, pageMax)
}

// RaiseSetting adds one to a number, 0 at first, and returns it.
func (t *Tx) RaiseSetting(ctx context.Context, name string, now time.Time) (int64, error) {
	n, err := first(ctx, t.common(), "raise setting", single[int64],
		`INSERT INTO settings (name, value, created_at) VALUES (?, '1', ?)
		 ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(settings.value AS BIGINT) + 1 AS TEXT)
		 RETURNING CAST(value AS BIGINT)`, name, now)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

// EndSignIns, for a database that was restored from a backup, removes sessions, one-time
// tokens, invitations, sign-ups and unsent letters of all tenants, and counts them by name.
func (t *Tx) EndSignIns(ctx context.Context) (map[string]int, error) {
	ended := make(map[string]int)
	for _, what := range []struct{ name, text string }{
		{"sessions", "DELETE FROM sessions"},
		{"one_time_tokens", "DELETE FROM one_time_tokens"},
		{"invitations", "DELETE FROM invitations"},
		{"sign_ups", "DELETE FROM signups WHERE confirmed_at = 0"},
		{"letters", "DELETE FROM outbox WHERE kind = 'mail'"},
	} {
		n, err := t.across().exec(ctx, "end "+what.name, what.text)
		if err != nil {
			return nil, err
		}
		ended[what.name] = n
	}
	return ended, nil
}

// CountRate adds one to a bucket's window and returns the sum.
func (t *Tx) CountRate(ctx context.Context, bucket string, window time.Time) (int, error) {
	return t.common().count(ctx, "count rate",
		`INSERT INTO rates (bucket, window_at, count) VALUES (?, ?, 1)
		 ON CONFLICT (bucket, window_at) DO UPDATE SET count = rates.count + 1 RETURNING count`, bucket, window)
}

// DeleteRatesBefore forgets old windows and counts them.
func (t *Tx) DeleteRatesBefore(ctx context.Context, window time.Time) (int, error) {
	return t.common().exec(ctx, "delete old rates", "DELETE FROM rates WHERE window_at < ?", window)
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
)

// ExplainAudit is how the database runs ListAudit with a filter.
func ExplainAudit(ctx context.Context, tx *Tx, tenantID string, f AuditFilter) (string, error) {
	branches, err := tx.auditBranches(ctx, tenantID, f)
	if err != nil {
		return "", err
	}
	rest, args := auditPage(branches, auditConditions(f, Page{}), tenantID, 50)
	return explain(ctx, tx, rest("SELECT "+auditLog.columns+" FROM audit", " WHERE tenant_id = ?"), args...)
}

// ExplainChain is how the database runs a read of the chain, and the loops' searches.
func ExplainChain(ctx context.Context, tx *Tx, where string, args ...any) (string, error) {
	return explain(ctx, tx, "SELECT * FROM "+where, args...)
}

func explain(ctx context.Context, tx *Tx, text string, args ...any) (_ string, err error) {
	bound, err := bind(args)
	if err != nil {
		return "", err
	}
	verb := "EXPLAIN "
	if tx.dialect.name == "SQLite" {
		verb = "EXPLAIN QUERY PLAN "
	}
	rows, err := tx.q.QueryContext(ctx, tx.dialect.text(verb+text), bound...)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	var plan strings.Builder
	for err == nil && rows.Next() {
		into := make([]any, len(columns))
		for i := range into {
			into[i] = new(sql.NullString)
		}
		err = rows.Scan(into...)
		plan.WriteString(into[len(into)-1].(*sql.NullString).String + "\n")
	}
	return plan.String(), errors.Join(err, rows.Err())
}

// MigrateTo brings a database to an older schema.
func MigrateTo(ctx context.Context, db *sql.DB, postgres bool, version int64) error {
	dialect, files := goose.DialectSQLite3, sqliteFiles()
	if postgres {
		dialect, files = goose.DialectPostgres, postgresFiles()
	}
	p, err := goose.NewProvider(dialect, db, files, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err == nil {
		_, err = p.UpTo(ctx, version)
	}
	return err
}

// ExplainBindingsOf is how the database runs BindingsOf.
func ExplainBindingsOf(ctx context.Context, tx *Tx, tenantID, principalID string) (string, error) {
	return explainCall(ctx, tx, "role_bindings", func(tx *Tx) error {
		_, err := tx.BindingsOf(ctx, tenantID, principalID)
		return err
	}, tenantID, principalID, tenantID, principalID, HeldMax)
}

// ExplainChangedHours is how the database runs ChangedHours.
func ExplainChangedHours(ctx context.Context, tx *Tx, after ChangedHour, limit int) (string, error) {
	return explainCall(ctx, tx, "usage_hours", func(tx *Tx) error {
		_, err := tx.ChangedHours(ctx, after, limit)
		return err
	}, after.At, after.TenantID, after.Hour, limit)
}

// ExplainDuePushes is how the database runs DueBillingPushes.
func ExplainDuePushes(ctx context.Context, tx *Tx, now time.Time, limit int) (string, error) {
	return explainCall(ctx, tx, "billing_pushes", func(tx *Tx) error {
		_, err := tx.DueBillingPushes(ctx, now, limit)
		return err
	}, now, limit)
}

// ExplainPushesOf is how the database runs BillingPushesOf one hour.
func ExplainPushesOf(ctx context.Context, tx *Tx, h TenantHour) (string, error) {
	return explainCall(ctx, tx, "billing_pushes", func(tx *Tx) error {
		_, err := tx.BillingPushesOf(ctx, []TenantHour{h})
		return err
	}, h.TenantID, time.Unix(h.Hour*3600, 0), pushesMax)
}

// explainCall is how the database runs the last query of a call, which has these arguments.
func explainCall(ctx context.Context, tx *Tx, table string, call func(*Tx) error, args ...any) (string, error) {
	if tx.dialect.name != "SQLite" { // As a database in use does by itself.
		if _, err := tx.q.ExecContext(ctx, "ANALYZE "+table); err != nil {
			return "", err
		}
	}
	var asked string
	listening := *tx.dialect
	listening.text = func(s string) string { asked = s; return tx.dialect.text(s) }
	if err := call(&Tx{q: tx.q, dialect: &listening, tenant: tx.tenant}); err != nil {
		return "", err
	}
	return explain(ctx, tx, asked, args...)
}

// CompiledMax is how many statements of a pool are kept.
const CompiledMax = compiledMax

// Compiled is how many statements the pools of a store keep.
func Compiled(s Store) (write, read int) {
	d, _ := s.(*database)
	size := func(c *compiled) int {
		if c == nil {
			return 0
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.all)
	}
	return size(d.compiled[d.write]), size(d.compiled[d.read])
}

// CountBy runs a statement of any text that gives one number.
func CountBy(ctx context.Context, tx *Tx, text string) (int, error) {
	return tx.common().count(ctx, "count", text)
}

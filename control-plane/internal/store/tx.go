package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// pageMax bounds a listing, also one that named no limit.
const pageMax = 1001 // A full page of the API and one more, which shows that there is a next page.

var (
	errForeign = errors.New("the transaction was opened for another tenant")
	errScope   = errors.New("this needs a transaction of the service, not of one tenant")
)

// tx implements Tx. Its methods on one tenant's rows call in, those across tenants call
// service, so that SQLite separates tenants as PostgreSQL's policies do.
type tx struct {
	q       *sql.Tx
	dialect *dialect
	tenant  string // allTenants for the service.
	race    error  // The first statement that lost a race; nothing after it counts.
}

// sees reports whether the tenant's rows are visible to this transaction.
func (t *tx) sees(tenantID string) bool { return t.tenant == allTenants || t.tenant == tenantID }

// in refuses to write another tenant's rows.
func (t *tx) in(tenantID string) error {
	if !t.sees(tenantID) {
		return errForeign
	}
	return nil
}

func (t *tx) service() error {
	if t.tenant != allTenants {
		return errScope
	}
	return nil
}

// failed names a statement's error and remembers a lost race.
func (t *tx) failed(doing string, err error) error {
	kind := t.dialect.problem(err)
	if kind == nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	err = fmt.Errorf("%s: %w: %w", doing, kind, err)
	if errors.Is(kind, errRace) && t.race == nil {
		t.race = err
	}
	return err
}

// exec runs a statement and counts the rows it changed.
func (t *tx) exec(ctx context.Context, doing, text string, args ...any) (int, error) {
	bound, err := bind(args)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	res, err := t.q.ExecContext(ctx, t.dialect.text(text), bound...)
	if err != nil {
		return 0, t.failed(doing, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, t.failed(doing, err)
	}
	return int(n), nil
}

// insert adds a row. An existing row is not an error of the database, which would end
// the whole transaction on PostgreSQL.
func (t *tx) insert(ctx context.Context, table, columns string, args ...any) error {
	n, err := t.exec(ctx, "insert into "+table, "INSERT INTO "+table+" ("+columns+") VALUES ("+places(len(args))+") ON CONFLICT DO NOTHING", args...)
	if err == nil && n == 0 {
		err = fmt.Errorf("insert into %s: %w", table, ErrExists)
	}
	return err
}

// places is n parameters.
func places(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// change runs a statement that must affect a row.
func (t *tx) change(ctx context.Context, doing, text string, args ...any) error {
	n, err := t.exec(ctx, doing, text, args...)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	return err
}

// update runs a statement that affects a row only at the version that was read;
// exists finds the row at any version.
func (t *tx) update(ctx context.Context, doing, text string, args []any, exists string, key ...any) error {
	n, err := t.exec(ctx, doing, text, args...)
	if err != nil || n > 0 {
		return err
	}
	if _, err := one(ctx, t, doing, number, exists, key...); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", doing, ErrStale)
}

// scanner is *sql.Rows, as far as reading one row goes.
type scanner interface{ Scan(into ...any) error }

// one reads one row.
func one[T any](ctx context.Context, t *tx, doing string, scan func(scanner) (T, error), text string, args ...any) (T, error) {
	var none T
	found, err := many(ctx, t, doing, scan, text, args...)
	if err != nil {
		return none, err
	}
	if len(found) == 0 {
		return none, fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	return found[0], nil
}

// many reads all rows; the statement has a limit.
func many[T any](ctx context.Context, t *tx, doing string, scan func(scanner) (T, error), text string, args ...any) (out []T, err error) {
	bound, err := bind(args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	rows, err := t.q.QueryContext(ctx, t.dialect.text(text), bound...)
	if err != nil {
		return nil, t.failed(doing, err)
	}
	defer func() {
		if closed := rows.Close(); closed != nil && err == nil {
			err = t.failed(doing, closed)
		}
	}()
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, t.failed(doing, err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, t.failed(doing, err)
	}
	return out, nil
}

func number(s scanner) (n int64, err error) { return n, s.Scan(&n) }

func text(s scanner) (v string, err error) { return v, s.Scan(&v) }

// limit of a page.
func (p Page) limit() int {
	if p.Limit <= 0 || p.Limit > pageMax {
		return pageMax
	}
	return p.Limit
}

// asJSON is a column of JSON text, to write and to read.
type asJSON struct{ v any }

// bind turns arguments into the two types of our columns, text and whole numbers.
func bind(args []any) ([]any, error) {
	out := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			out[i] = clean(a)
		case time.Time:
			out[i] = nanos(a)
		case bool:
			out[i] = int64(0)
			if a {
				out[i] = int64(1)
			}
		case asJSON:
			b, err := json.Marshal(a.v)
			if err != nil {
				return nil, fmt.Errorf("encode column %d: %w", i+1, err)
			}
			out[i] = string(b)
		case cloudv1.TenantRole:
			out[i] = int64(a)
		case cloudv1.KeyKind:
			out[i] = int64(a)
		case OutboxKind:
			out[i] = string(a)
		case int:
			out[i] = int64(a)
		case int64:
			out[i] = a
		default:
			return nil, fmt.Errorf("column %d has type %T, which no column of ours has", i+1, a)
		}
	}
	return out, nil
}

// clean replaces what PostgreSQL refuses in a text: a caller's header must not make a
// statement fail.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// nanos is a time as the tables keep it: Unix nanoseconds, 0 for never.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// toTime reads such a column.
type toTime struct{ t *time.Time }

// Scan implements sql.Scanner.
func (c toTime) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a time column holds a %T", v)
	}
	*c.t = time.Time{}
	if n != 0 {
		*c.t = time.Unix(0, n).UTC()
	}
	return nil
}

// toBool reads a column of 0 and 1.
type toBool struct{ b *bool }

// Scan implements sql.Scanner.
func (c toBool) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a yes-or-no column holds a %T", v)
	}
	*c.b = n != 0
	return nil
}

// Scan implements sql.Scanner.
func (c asJSON) Scan(v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("a JSON column holds a %T", v)
	}
	return json.Unmarshal([]byte(s), c.v)
}

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

// Tx is one transaction. In one opened for a tenant, other tenants' records do not
// exist, and methods across tenants (by name, link or key id; for the loops) fail.
// Insert methods fail with ErrExists, Get methods with ErrNotFound, Update methods with
// ErrStale if Version is not the stored one; an Update raises Version in the record it
// was given.
type Tx struct {
	q       *sql.Tx
	dialect *dialect
	tenant  string // allTenants for the service.
	race    error  // The first statement that lost a race; nothing after it counts.
	// compiled may be nil; used is the statements that it lacked.
	compiled *compiled
	used     []string
}

// runs is what runs a statement, which is compiled already if it was in an earlier transaction.
func (t *Tx) runs(ctx context.Context, text string) runner {
	if t.compiled == nil {
		return plain{t.q, text}
	}
	if s := t.compiled.get(text); s != nil {
		return t.q.StmtContext(ctx, s)
	}
	t.used = append(t.used, text)
	return plain{t.q, text}
}

// scope is the rows that a statement is about, so that SQLite separates tenants as
// PostgreSQL's policies do.
type scope struct {
	*Tx
	// refused: they are not this transaction's. errForeign hides them from reads too.
	refused error
}

// of is the rows of one tenant.
func (t *Tx) of(tenantID string) scope {
	if t.tenant != allTenants && t.tenant != tenantID {
		return scope{t, errForeign}
	}
	return scope{t, nil}
}

// across is the rows of all tenants.
func (t *Tx) across() scope {
	if t.tenant != allTenants {
		return scope{t, errScope}
	}
	return scope{t, nil}
}

// common is rows that belong to no tenant.
func (t *Tx) common() scope { return scope{t, nil} }

// failed names a statement's error and remembers a lost race.
func (t *Tx) failed(doing string, err error) error {
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
func (s scope) exec(ctx context.Context, doing, text string, args ...any) (int, error) {
	if s.refused != nil {
		return 0, fmt.Errorf("%s: %w", doing, s.refused)
	}
	bound, err := bind(args)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	res, err := s.runs(ctx, s.dialect.text(text)).ExecContext(ctx, bound...)
	if err != nil {
		return 0, s.failed(doing, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, s.failed(doing, err)
	}
	return int(n), nil
}

// insert adds a row. An existing row is not an error of the database, which would end
// the whole transaction on PostgreSQL.
func (s scope) insert(ctx context.Context, table, columns string, args ...any) error {
	n, err := s.exec(ctx, "insert into "+table, "INSERT INTO "+table+" ("+columns+") VALUES ("+places(len(args))+") ON CONFLICT DO NOTHING", args...)
	if err == nil && n == 0 {
		err = fmt.Errorf("insert into %s: %w", table, ErrExists)
	}
	return err
}

// places is n parameters.
func places(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// change runs a statement that must affect a row; another tenant's is not there.
func (s scope) change(ctx context.Context, doing, text string, args ...any) error {
	n, err := s.exec(ctx, doing, text, args...)
	if err == nil && n == 0 || errors.Is(err, errForeign) {
		err = fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	return err
}

// stale tells why a statement that names a row as it was read affected none: the row of
// that key is another one by now, or gone.
func (s scope) stale(ctx context.Context, doing, table, where string, key ...any) error {
	n, err := s.count(ctx, doing, "SELECT 1 FROM "+table+" WHERE "+where, key...)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	return fmt.Errorf("%s: %w", doing, ErrStale)
}

// count reads one number; 0 if there is no row.
func (s scope) count(ctx context.Context, doing, text string, args ...any) (int, error) {
	found, err := query(ctx, s, doing, single[int], text, args...)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0], nil
}

// query reads all rows; the statement has a limit. into is where a row's columns go.
func query[T any](ctx context.Context, s scope, doing string, into func(*T) []any, text string, args ...any) (out []T, err error) {
	if errors.Is(s.refused, errForeign) {
		return nil, nil
	}
	if s.refused != nil {
		return nil, fmt.Errorf("%s: %w", doing, s.refused)
	}
	bound, err := bind(args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	rows, err := s.runs(ctx, s.dialect.text(text)).QueryContext(ctx, bound...)
	if err != nil {
		return nil, s.failed(doing, err)
	}
	defer func() {
		if closed := rows.Close(); closed != nil && err == nil {
			err = s.failed(doing, closed)
		}
	}()
	for rows.Next() {
		var r T
		if err := rows.Scan(into(&r)...); err != nil {
			return nil, s.failed(doing, err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, s.failed(doing, err)
	}
	return out, nil
}

// first reads the one row that a statement gives.
func first[T any](ctx context.Context, s scope, doing string, into func(*T) []any, text string, args ...any) (v T, err error) {
	found, err := query(ctx, s, doing, into, text, args...)
	if err != nil {
		return v, err
	}
	if len(found) == 0 {
		return v, fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	return found[0], nil
}

// single is a row of one column.
func single[T any](v *T) []any { return []any{v} }

// limit of a page.
func (p Page) limit() int {
	if p.Limit <= 0 || p.Limit > pageMax {
		return pageMax
	}
	return p.Limit
}

// bind turns arguments into the two types of our columns, text and whole numbers.
func bind(args []any) ([]any, error) {
	out := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			out[i] = clean(a)
		case *string:
			out[i] = clean(*a)
		case time.Time:
			out[i] = nanos(a)
		case asTime:
			out[i] = nanos(*a.t)
		case asBool:
			out[i] = int64(0)
			if *a.b {
				out[i] = int64(1)
			}
		case asJSON:
			b, err := json.Marshal(a.v)
			if err != nil {
				return nil, fmt.Errorf("encode column %d: %w", i+1, err)
			}
			out[i] = string(b)
		case *cloudv1.KeyKind:
			out[i] = int64(*a)
		case OutboxKind:
			out[i] = string(a)
		case *OutboxKind:
			out[i] = string(*a)
		case *FactorKind:
			out[i] = string(*a)
		case *SessionKind:
			out[i] = string(*a)
		case DeviceState:
			out[i] = string(a)
		case *DeviceState:
			out[i] = string(*a)
		case time.Duration:
			out[i] = int64(a)
		case *time.Duration:
			out[i] = int64(*a)
		case int:
			out[i] = int64(a)
		case *int:
			out[i] = int64(*a)
		case int64:
			out[i] = a
		case *int64:
			out[i] = *a
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

// asTime is such a column, to write and to read.
type asTime struct{ t *time.Time }

// Scan implements sql.Scanner.
func (c asTime) Scan(v any) error {
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

// asBool is a column of 0 and 1, to write and to read.
type asBool struct{ b *bool }

// Scan implements sql.Scanner.
func (c asBool) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a yes-or-no column holds a %T", v)
	}
	*c.b = n != 0
	return nil
}

// asJSON is a column of JSON text, to write and to read.
type asJSON struct{ v any }

// Scan implements sql.Scanner.
func (c asJSON) Scan(v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("a JSON column holds a %T", v)
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber() // Numbers stay as they were written.
	return d.Decode(c.v)
}

// Clean is a text as a column keeps it.
func Clean(s string) string { return clean(s) }

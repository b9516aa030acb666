package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// table is where records of one type are kept.
type table[T any] struct {
	name string
	// columns and fields are in the same order; fields says where a record keeps them.
	columns string
	fields  func(*T) []any
	// key finds a record, and changes are what an update writes; for records with a version.
	key, changes string
}

func list(columns string) []string { return strings.Split(columns, ", ") }

// under is the columns as they are called in a join.
func (d table[T]) under(alias string) string {
	return alias + "." + strings.Join(list(d.columns), ", "+alias+".")
}

func (d table[T]) insert(ctx context.Context, s scope, v T) error {
	return s.insert(ctx, d.name, d.columns, d.fields(&v)...)
}

// get reads the one record for which a condition holds.
func (d table[T]) get(ctx context.Context, s scope, where string, args ...any) (T, error) {
	return first(ctx, s, "read "+d.name, d.fields, "SELECT "+d.columns+" FROM "+d.name+" WHERE "+where, args...)
}

// list reads up to limit records for which a condition holds, in the order it ends with.
func (d table[T]) list(ctx context.Context, s scope, limit int, where string, args ...any) ([]T, error) {
	return query(ctx, s, "list "+d.name, d.fields, "SELECT "+d.columns+" FROM "+d.name+" WHERE "+where+" LIMIT ?", append(args, limit)...)
}

// update writes a record that is still at the version it was read at, and raises that.
func (d table[T]) update(ctx context.Context, s scope, v *T, version *int64) error {
	fields := make(map[string]any)
	for i, f := range d.fields(v) {
		fields[list(d.columns)[i]] = f
	}
	var set, where []string
	var args, key []any
	for _, c := range list(d.changes) {
		set, args = append(set, c+" = ?"), append(args, fields[c])
	}
	for _, c := range list(d.key) {
		where, key = append(where, c+" = ?"), append(key, fields[c])
	}
	doing, row := "update "+d.name, strings.Join(where, " AND ")
	n, err := s.exec(ctx, doing, fmt.Sprintf("UPDATE %s SET %s, version = version + 1 WHERE %s AND version = ?", d.name, strings.Join(set, ", "), row),
		append(append(args, key...), *version)...)
	if err == nil && n == 0 || errors.Is(err, errForeign) {
		err = s.stale(ctx, doing, d.name, row, key...)
	}
	if err == nil {
		*version++
	}
	return err
}

package store

import (
	"context"
	"fmt"
	"strings"
)

// The names of tables and columns are ours: package seal lists them, or the database does.

// SealedRow is the named columns of a row. Row identifies it within a transaction.
type SealedRow struct {
	Row    string
	Values []string
}

func (t *tx) SealedRows(ctx context.Context, table string, columns []string, containing string, limit int) ([]SealedRow, error) {
	if err := t.service(); err != nil {
		return nil, err
	}
	var names, where []string
	var args []any
	for _, c := range columns {
		names, where, args = append(names, quoted(c)), append(where, t.dialect.contains(quoted(c))), append(args, containing)
	}
	scan := func(s scanner) (v SealedRow, err error) {
		v.Values = make([]string, len(columns))
		into := []any{&v.Row}
		for i := range v.Values {
			into = append(into, &v.Values[i])
		}
		return v, s.Scan(into...)
	}
	return many(ctx, t, "list what is sealed in "+table, scan,
		"SELECT CAST("+t.dialect.rowID+" AS TEXT), "+strings.Join(names, ", ")+" FROM "+quoted(table)+
			" WHERE "+strings.Join(where, " OR ")+" LIMIT ?"+t.dialect.lockRows, append(args, limit)...)
}

func (t *tx) UpdateSealed(ctx context.Context, table string, columns []string, row SealedRow) error {
	if err := t.service(); err != nil {
		return err
	}
	var set []string
	var args []any
	for i, c := range columns {
		set, args = append(set, quoted(c)+" = ?"), append(args, row.Values[i])
	}
	return t.change(ctx, "seal anew in "+table, "UPDATE "+quoted(table)+" SET "+strings.Join(set, ", ")+
		" WHERE "+t.dialect.rowID+" = CAST(? AS "+t.dialect.rowIDType+")", append(args, row.Row)...)
}

// textColumn is one of the database.
type textColumn struct{ table, column string }

func scanColumn(s scanner) (v textColumn, err error) { return v, s.Scan(&v.table, &v.column) }

func (t *tx) Containing(ctx context.Context, part string) (map[string]int, error) {
	if err := t.service(); err != nil {
		return nil, err
	}
	columns, err := many(ctx, t, "list text columns", scanColumn, t.dialect.textColumns)
	if err != nil {
		return nil, err
	}
	found := make(map[string]int)
	for _, c := range columns {
		n, err := one(ctx, t, fmt.Sprintf("look through %s.%s", c.table, c.column), number,
			"SELECT COUNT(*) FROM "+quoted(c.table)+" WHERE "+t.dialect.contains(quoted(c.column)), part)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			found[c.table+"."+c.column] = int(n)
		}
	}
	return found, nil
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

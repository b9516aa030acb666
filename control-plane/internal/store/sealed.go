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

// SealedRows lists up to limit rows of a table in which a column contains a text, and
// locks them until the transaction ends.
func (t *Tx) SealedRows(ctx context.Context, table string, columns []string, containing string, limit int) ([]SealedRow, error) {
	var names, where []string
	var args []any
	for _, c := range columns {
		names, where, args = append(names, quoted(c)), append(where, t.dialect.contains(quoted(c))), append(args, containing)
	}
	fields := func(v *SealedRow) []any {
		v.Values = make([]string, len(columns))
		into := []any{&v.Row}
		for i := range v.Values {
			into = append(into, &v.Values[i])
		}
		return into
	}
	return query(ctx, t.across(), "list what is sealed in "+table, fields,
		"SELECT CAST("+t.dialect.rowID+" AS TEXT), "+strings.Join(names, ", ")+" FROM "+quoted(table)+
			" WHERE "+strings.Join(where, " OR ")+" LIMIT ?"+t.dialect.lockRows, append(args, limit)...)
}

// UpdateSealed writes the columns of a row that SealedRows gave in this transaction.
func (t *Tx) UpdateSealed(ctx context.Context, table string, columns []string, row SealedRow) error {
	var set []string
	var args []any
	for i, c := range columns {
		set, args = append(set, quoted(c)+" = ?"), append(args, row.Values[i])
	}
	return t.across().change(ctx, "seal anew in "+table, "UPDATE "+quoted(table)+" SET "+strings.Join(set, ", ")+
		" WHERE "+t.dialect.rowID+" = CAST(? AS "+t.dialect.rowIDType+")", append(args, row.Row)...)
}

// Containing counts the rows that contain a text, in every text column of every table
// that there is: "table.column". Columns without one are left out.
func (t *Tx) Containing(ctx context.Context, part string) (map[string]int, error) {
	type textColumn struct{ table, column string }
	columns, err := query(ctx, t.across(), "list text columns", func(v *textColumn) []any { return []any{&v.table, &v.column} }, t.dialect.textColumns)
	if err != nil {
		return nil, err
	}
	found := make(map[string]int)
	for _, c := range columns {
		n, err := t.across().count(ctx, fmt.Sprintf("look through %s.%s", c.table, c.column),
			"SELECT COUNT(*) FROM "+quoted(c.table)+" WHERE "+t.dialect.contains(quoted(c.column)), part)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			found[c.table+"."+c.column] = n
		}
	}
	return found, nil
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

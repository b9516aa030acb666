package store

import (
	"context"
	"database/sql"
	"sync"
)

// compiledMax bounds how many statements are kept: a list with filters has many forms.
const compiledMax = 256

// compiled is statements of SQLite by their text: to compile one takes longer than to run
// most of them. PostgreSQL's driver keeps its own.
type compiled struct {
	pool *sql.DB
	mu   sync.Mutex // Guards all.
	all  map[string]*sql.Stmt
}

func compiledOf(pools ...*sql.DB) map[*sql.DB]*compiled {
	out := make(map[*sql.DB]*compiled)
	for _, p := range pools {
		out[p] = &compiled{pool: p, all: make(map[string]*sql.Stmt)}
	}
	return out
}

func (c *compiled) get(text string) *sql.Stmt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[text]
}

// add compiles statements for later transactions. It can't be done in the one that needs
// them first, because that has the connection, which may be the only one.
func (c *compiled) add(ctx context.Context, texts []string) {
	for _, text := range texts {
		if !c.lacks(text) {
			continue
		}
		s, err := c.pool.PrepareContext(ctx, text)
		if err != nil {
			return // It runs as it is, and the next transaction tries again.
		}
		if !c.keep(text, s) {
			_ = s.Close() // Another transaction was first; nobody uses this one.
		}
	}
}

func (c *compiled) lacks(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[text] == nil && len(c.all) < compiledMax
}

func (c *compiled) keep(text string, s *sql.Stmt) (kept bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[text] != nil {
		return false
	}
	c.all[text] = s
	return true
}

// runner runs one statement.
type runner interface {
	ExecContext(ctx context.Context, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, args ...any) (*sql.Rows, error)
}

// plain is a statement that is not compiled yet.
type plain struct {
	tx   *sql.Tx
	text string
}

// ExecContext implements runner.
func (p plain) ExecContext(ctx context.Context, args ...any) (sql.Result, error) {
	return p.tx.ExecContext(ctx, p.text, args...)
}

// QueryContext implements runner.
func (p plain) QueryContext(ctx context.Context, args ...any) (*sql.Rows, error) {
	return p.tx.QueryContext(ctx, p.text, args...)
}

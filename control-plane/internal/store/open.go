package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"
)

// ErrInUse: another process has the database file open.
var ErrInUse = errors.New("in use by another process")

// Options of Open.
type Options struct {
	// Log gets what was migrated; nil discards it.
	Log *slog.Logger
	// AllowSuperuser allows a PostgreSQL role that row-level security does not bind:
	// for a laptop.
	AllowSuperuser bool
	// Beside opens a database that a running control plane may be using: for a command that
	// makes one change. It migrates nothing, and does not claim a SQLite file.
	Beside bool
}

const (
	sqliteScheme = "sqlite:"

	// attemptsMax and pauseMax bound how often and how far apart a transaction that
	// lost a race is run again; the caller's context may end it sooner.
	attemptsMax = 60
	pauseMin    = 2 * time.Millisecond
	pauseMax    = 100 * time.Millisecond
)

// Open opens the database, brings its schema up to date and hands out a Store:
// sqlite:PATH for a file, postgres://… for a server.
func Open(ctx context.Context, url string, o Options) (Store, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	switch {
	case strings.HasPrefix(url, sqliteScheme):
		return openSQLite(ctx, strings.TrimPrefix(url, sqliteScheme), o)
	case strings.HasPrefix(url, "postgres://"), strings.HasPrefix(url, "postgresql://"):
		return openPostgres(ctx, url, o)
	}
	return nil, errors.New("the database URL isn't supported; use sqlite:PATH or postgres://USER@HOST/DATABASE")
}

// database is a Store over one of the two kinds.
type database struct {
	dialect dialect
	// write and read may be one pool.
	write, read *sql.DB
	// writes, follows and reads are how transactions begin.
	writes, follows, reads sql.TxOptions
	// compiled is the statements of each pool; empty where the driver keeps them itself.
	compiled map[*sql.DB]*compiled
	// release runs after the pools are closed.
	release func() error
}

// dialect is what differs between the two kinds.
type dialect struct {
	name string
	// text rewrites a statement with ? for its parameters.
	text func(string) string
	// tenant tells the database whose transaction it is; nil if it does not need that.
	tenant func(ctx context.Context, t *sql.Tx, tenantID string) error
	// lockRows and skipLocked end a SELECT whose rows are about to be changed.
	lockRows, skipLocked string
	// indexed names the index to go by, behind a table's name; empty where the database
	// knows better.
	indexed func(index string) string
	// rowID identifies a row within a transaction.
	rowID, rowIDType string
	// contains is the condition that a column contains a parameter; textColumns selects
	// all tables and columns of text.
	contains    func(column string) string
	textColumns string
	// problem tells what kind of refusal an error is; nil for any other error.
	problem func(error) error
}

// errRace is a transaction that lost to another one and may be run again.
var errRace = errors.New("lost a race against another transaction")

// allTenants is the scope of the service's own transactions.
const allTenants = "*"

func (d *database) Tenant(ctx context.Context, tenantID string, f func(*Tx) error) error {
	if err := checkTenant(tenantID); err != nil {
		return err
	}
	return d.run(ctx, d.write, d.writes, tenantID, f)
}

func (d *database) ReadTenant(ctx context.Context, tenantID string, f func(*Tx) error) error {
	if err := checkTenant(tenantID); err != nil {
		return err
	}
	return d.run(ctx, d.read, d.reads, tenantID, f)
}

func (d *database) Service(ctx context.Context, f func(*Tx) error) error {
	return d.run(ctx, d.write, d.writes, allTenants, f)
}

func (d *database) Follow(ctx context.Context, f func(*Tx) error) error {
	return d.run(ctx, d.write, d.follows, allTenants, f)
}

func (d *database) ReadService(ctx context.Context, f func(*Tx) error) error {
	return d.run(ctx, d.read, d.reads, allTenants, f)
}

// checkTenant: a forgotten id must not become a transaction over everything.
func checkTenant(id string) error {
	if id == "" || id == allTenants {
		return fmt.Errorf("open transaction: %q is not a tenant id", id)
	}
	return nil
}

func (d *database) Ping(ctx context.Context) error {
	return errors.Join(d.write.PingContext(ctx), d.read.PingContext(ctx))
}

func (d *database) Close() error {
	err := d.read.Close()
	if d.write != d.read {
		err = errors.Join(err, d.write.Close())
	}
	if d.release != nil {
		err = errors.Join(err, d.release())
	}
	if err != nil {
		return fmt.Errorf("close %s store: %w", d.dialect.name, err)
	}
	return nil
}

// run runs f in a transaction, again if it lost a race.
func (d *database) run(ctx context.Context, pool *sql.DB, begin sql.TxOptions, tenantID string, f func(*Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := d.once(ctx, pool, begin, tenantID, f)
		if !errors.Is(err, errRace) || attempt == attemptsMax {
			return err
		}
		select {
		case <-time.After(pause(attempt)):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// pause before another attempt: half fixed, half random, so that two losers do not
// collide again.
func pause(attempt int) time.Duration {
	p := min(pauseMin<<min(attempt-1, 10), pauseMax)
	return p/2 + rand.N(p/2)
}

func (d *database) once(ctx context.Context, pool *sql.DB, begin sql.TxOptions, tenantID string, f func(*Tx) error) (err error) {
	q, err := pool.BeginTx(ctx, &begin)
	if err != nil {
		return d.named("begin transaction", err)
	}
	t := &Tx{q: q, compiled: d.compiled[pool], dialect: &d.dialect, tenant: tenantID}
	done := false
	defer func() { t.compiled.add(ctx, t.used) }() // After the next one, which ends the transaction.
	defer func() {
		if done {
			return
		}
		if back := q.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) && err != nil {
			err = errors.Join(err, fmt.Errorf("roll back: %w", back))
		}
	}()
	if d.dialect.tenant != nil {
		if err := d.dialect.tenant(ctx, q, tenantID); err != nil {
			return d.named("name the tenant to the database", err)
		}
	}
	err = f(t)
	if t.race != nil {
		// Whatever f returned, this attempt does not count.
		return t.race
	}
	var kept keptError
	if err != nil && !errors.As(err, &kept) {
		return err
	}
	done = true
	if err := q.Commit(); err != nil {
		return d.named("commit", err)
	}
	return err
}

// CommitDespite makes err one that does not undo the transaction it ends: a refusal whose count
// has to stay.
func CommitDespite(err error) error { return keptError{err} }

type keptError struct{ error }

// Unwrap gives the error.
func (e keptError) Unwrap() error { return e.error }

func (d *database) named(doing string, err error) error {
	if kind := d.dialect.problem(err); kind != nil {
		return fmt.Errorf("%s: %w: %w", doing, kind, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

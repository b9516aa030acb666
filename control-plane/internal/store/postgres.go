package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

const (
	// postgresConns is for one process; a server allows 100 by default.
	postgresConns = 16
	// migrateLock is the number of the advisory lock for schema changes, chosen freely.
	migrateLock = 0x636f72766f // "corvo"
	idleMax     = 5 * time.Minute
)

// SQLSTATE codes.
const (
	codeUnique        = "23505"
	codeForeignKey    = "23503"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
)

func openPostgres(ctx context.Context, url string, o Options) (Store, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		// The library's text hides the password.
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := preparePostgres(ctx, cfg.Copy(), o); err != nil {
		return nil, fmt.Errorf("open database %s on %s: %w", cfg.Database, cfg.Host, err)
	}
	// A serializable transaction that scans a table conflicts with every writer to it,
	// and the planner always scans small tables.
	cfg.RuntimeParams["enable_seqscan"] = "off"
	// That gives an unavoidable scan an absurd cost, for which it would first be
	// JIT-compiled for a second.
	cfg.RuntimeParams["jit"] = "off"
	cfg.RuntimeParams["application_name"] = "corvo-control"
	db := stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(postgresConns)
	db.SetMaxIdleConns(postgresConns)
	db.SetConnMaxIdleTime(idleMax)
	return &database{
		dialect: postgresDialect(), write: db, read: db,
		writes:  sql.TxOptions{Isolation: sql.LevelSerializable},
		follows: sql.TxOptions{Isolation: sql.LevelRepeatableRead},
		reads:   sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	}, nil
}

// preparePostgres checks the role and migrates, one process at a time.
func preparePostgres(ctx context.Context, cfg *pgx.ConnConfig, o Options) (err error) {
	// Migrations may move rows of all tenants.
	cfg.RuntimeParams["corvo.tenant"] = allTenants
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := checkRole(ctx, db, o.AllowSuperuser); err != nil {
		return err
	}
	if o.Beside {
		return upToDate(ctx, goose.DialectPostgres, db, postgresFiles())
	}
	lock, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := lock.ExecContext(ctx, "SELECT pg_advisory_lock($1)", migrateLock); err != nil {
		return fmt.Errorf("wait for another process that migrates: %w", err)
	}
	// The lock ends with its connection, which is closed right after.
	return migrate(ctx, goose.DialectPostgres, db, postgresFiles(), o.Log)
}

// checkRole refuses a role that row-level security does not bind: with it, one wrong
// statement could reach every tenant.
func checkRole(ctx context.Context, db *sql.DB, allow bool) error {
	var role string
	var super, bypass bool
	err := db.QueryRowContext(ctx, "SELECT rolname, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user").Scan(&role, &super, &bypass)
	if err != nil {
		return fmt.Errorf("ask what the role may: %w", err)
	}
	if !super && !bypass || allow {
		return nil
	}
	return fmt.Errorf("role %q is a superuser or has BYPASSRLS, so the database couldn't keep tenants apart: "+
		"connect as a plain role that owns the database (CREATE ROLE corvo LOGIN; CREATE DATABASE corvo OWNER corvo)", role)
}

func postgresDialect() dialect {
	return dialect{
		name: "PostgreSQL", text: numbered, problem: postgresProblem,
		indexed: func(string) string { return "" },
		rowID:   "ctid", rowIDType: "tid",
		contains: func(column string) string { return "position(? IN " + column + ") > 0" },
		textColumns: `SELECT table_name, column_name FROM information_schema.columns
			WHERE table_schema = current_schema() AND data_type = 'text' ORDER BY table_name, column_name`,
		lockRows: " FOR UPDATE", skipLocked: " FOR UPDATE SKIP LOCKED",
		tenant: func(ctx context.Context, t *sql.Tx, tenantID string) error {
			_, err := t.ExecContext(ctx, "SELECT set_config('corvo.tenant', $1, true)", tenantID)
			return err
		},
	}
}

// numbered turns ? into $1, $2, …; our statements have no question mark in a text.
func numbered(s string) string {
	var b strings.Builder
	n := 0
	for {
		i := strings.IndexByte(s, '?')
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		n++
		b.WriteString(s[:i])
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		s = s[i+1:]
	}
}

func postgresProblem(err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code {
	case codeUnique:
		return ErrExists
	case codeForeignKey:
		return ErrReference
	case codeSerialization, codeDeadlock:
		return errRace
	}
	return nil
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// sqliteReaders read beside the one writer.
	sqliteReaders = 8
	// cacheKiB is the most that each of them keeps of the file, which the system has in its own
	// memory too: SQLite would keep 2 MB.
	cacheKiB = 512
	fileMode = 0o600
)

// openSQLite locks the file for this process, then opens one connection for writing and
// some for reading.
func openSQLite(ctx context.Context, path string, o Options) (Store, error) {
	if path == "" {
		return nil, errors.New("open database: sqlite: must be followed by the path of a file")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	d := &database{dialect: sqliteDialect(), writes: sql.TxOptions{}, reads: sql.TxOptions{ReadOnly: true}}
	if o.Beside {
		if err := d.openBeside(ctx, path); err != nil {
			return nil, fmt.Errorf("open database %s: %w", path, err)
		}
		return d, nil
	}
	lock := flock.New(path+".lock", flock.SetPermissions(fileMode))
	switch mine, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("open database %s: take its lock: %w", path, err)
	case !mine:
		return nil, fmt.Errorf("open database %s: %w: stop that process, or use PostgreSQL to run several control planes", path, ErrInUse)
	}
	d.release = lock.Close
	if err := d.openFile(ctx, path, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), lock.Close())
	}
	return d, nil
}

func (d *database) openFile(ctx context.Context, path string, o Options) error {
	// Made here so that nobody else may read it; SQLite gives its other files the same mode.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if d.write, err = sql.Open("sqlite", sqliteName(path, false)); err != nil {
		return err
	}
	d.write.SetMaxOpenConns(1)
	if err := migrate(ctx, goose.DialectSQLite3, d.write, sqliteFiles(), o.Log); err != nil {
		return errors.Join(err, d.write.Close())
	}
	// The file belongs to this process alone: earlier claims are of dead processes,
	// and need not time out.
	if _, err := d.write.ExecContext(ctx, "UPDATE outbox SET claimed_by = '', claimed_till = 0 WHERE claimed_till > 0"); err != nil {
		return errors.Join(fmt.Errorf("free what a process before had claimed: %w", err), d.write.Close())
	}
	if err := d.openReaders(path); err != nil {
		return err
	}
	d.compiled = compiledOf(d.write, d.read)
	return nil
}

// openBeside opens a file that another process may be using: SQLite itself isolates
// the transactions of two processes.
func (d *database) openBeside(ctx context.Context, path string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	if d.write, err = sql.Open("sqlite", sqliteName(path, false)); err != nil {
		return err
	}
	d.write.SetMaxOpenConns(1)
	if err := upToDate(ctx, goose.DialectSQLite3, d.write, sqliteFiles()); err != nil {
		return errors.Join(err, d.write.Close())
	}
	return d.openReaders(path)
}

func (d *database) openReaders(path string) (err error) {
	if d.read, err = sql.Open("sqlite", sqliteName(path, true)); err != nil {
		return errors.Join(err, d.write.Close())
	}
	d.read.SetMaxOpenConns(sqliteReaders)
	d.read.SetMaxIdleConns(sqliteReaders)
	return nil
}

// sqliteName is the connection's name with its settings, busy_timeout first: switching
// to WAL may meet a lock already.
func sqliteName(path string, readOnly bool) string {
	q := fmt.Sprintf("_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=cache_size(-%d)", cacheKiB)
	if readOnly {
		q += "&_pragma=query_only(1)"
	} else {
		q += "&_txlock=immediate"
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q}).String()
}

func sqliteDialect() dialect {
	return dialect{
		name: "SQLite", text: func(s string) string { return s }, problem: sqliteProblem,
		indexed: func(index string) string { return " INDEXED BY " + index },
		rowID:   "rowid", rowIDType: "INTEGER",
		contains: func(column string) string { return "instr(" + column + ", ?) > 0" },
		textColumns: `SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c
			WHERE m.type = 'table' AND c.type = 'TEXT' ORDER BY m.name, c.name`,
	}
}

func sqliteProblem(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return ErrExists
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return ErrReference
	}
	if e.Code()&0xff == sqlite3.SQLITE_BUSY {
		return errRace
	}
	return nil
}

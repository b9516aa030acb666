package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/corvo-cloud/corvo/migrations"
)

const (
	sharedFolder   = "control"
	postgresFolder = "control/postgres"
)

func sqliteFiles() fs.FS   { return folders{sharedFolder} }
func postgresFiles() fs.FS { return folders{sharedFolder, postgresFolder} }

// folders is several folders of the migrations as one: goose orders by number, so those
// for one database fall between those for both.
type folders []string

// Open implements fs.FS.
func (f folders) Open(name string) (fs.File, error) {
	for _, folder := range f {
		file, err := migrations.Control.Open(folder + "/" + name)
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadDir implements fs.ReadDirFS: the files of all folders, by name.
func (f folders) ReadDir(name string) ([]fs.DirEntry, error) {
	if name != "." {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	var all []fs.DirEntry
	for _, folder := range f {
		entries, err := migrations.Control.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("list migrations: %w", err)
		}
		all = append(all, slices.DeleteFunc(entries, fs.DirEntry.IsDir)...)
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// ErrSchema says that this build does not match the database's schema.
var ErrSchema = errors.New("the database has the schema of another version of corvo-cloud; use the same version as the control plane")

// upToDate refuses a schema that migrate would change, or that is newer than this build.
func upToDate(ctx context.Context, d goose.Dialect, db *sql.DB, files fs.FS) error {
	p, err := goose.NewProvider(d, db, files, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	has, wants, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if has != wants {
		return fmt.Errorf("%w (has %d, want %d)", ErrSchema, has, wants)
	}
	return nil
}

// migrate brings the schema up to date. The caller holds a lock.
func migrate(ctx context.Context, d goose.Dialect, db *sql.DB, files fs.FS, log *slog.Logger) error {
	p, err := goose.NewProvider(d, db, files, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	done, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	for _, r := range done {
		log.InfoContext(ctx, "migrated the database", "file", r.Source.Path, "took", r.Duration)
	}
	return nil
}

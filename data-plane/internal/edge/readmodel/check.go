package readmodel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// checks find rows that do not fit each other. SQLite's own check compares every table
// with its indexes; these compare what no index covers.
var checks = []struct{ what, sql string }{
	{"a dead job isn't like its job", `SELECT count(*) FROM dead d LEFT JOIN job j ON j.id = d.id
 WHERE j.id IS NULL OR j.queue <> d.queue OR j.created_at <> d.created_at OR j.generation <> d.generation`},
	{"a total of dead jobs is wrong", `SELECT count(*) FROM dead_total t WHERE jobs <>
 (SELECT coalesce(sum(c.jobs), 0) FROM cause c WHERE c.queue = t.queue AND c.generation = t.generation)`},
	{"a minute doesn't have the counts that were written", minuteDamaged},
	{"a minute doesn't begin with one", `SELECT count(*) FROM minute WHERE at % 60000000000 <> 0`},
	{"a tag has no job", `SELECT count(*) FROM tag t LEFT JOIN job j ON j.id = t.id WHERE j.id IS NULL OR j.created_at <> t.created_at OR j.tags IS NULL`},
}

// Check reads every file and compares its rows with each other; pace is called with the size
// of each before it is read. A damaged file is reported and deleted: it is rebuilt from
// the state. What it costs beside queries is one reader of the file.
func (s *Dir) Check(ctx context.Context, pace func(bytes int) error, found func(path string, err error)) (files int, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, fmt.Errorf("list read models: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".db")
		ns, err := job.ParseNamespace(name)
		if !ok || err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // It was removed meanwhile.
		}
		if err := pace(int(info.Size())); err != nil {
			return files, err
		}
		err = s.checkFile(ctx, ns)
		switch {
		case errors.Is(err, errDamaged):
			found(s.path(ns), err)
			if err := s.discard(ns); err != nil {
				return files, err
			}
		case errors.Is(err, errRetired):
			continue
		case err != nil:
			return files, err
		}
		files++
	}
	return files, nil
}

func (s *Dir) checkFile(ctx context.Context, ns job.Namespace) error {
	f, err := s.take(ctx, ns)
	if err != nil {
		return err
	}
	defer s.giveBack(f)
	// A connection of its own: those of readers have pages in memory, and would not read them.
	db, err := sql.Open("sqlite", dsn(s.path(ns), readerCacheKiB, "&_pragma=query_only(1)"))
	if err != nil {
		return fmt.Errorf("open read model %s: %w", s.path(ns), err)
	}
	return errors.Join(damagedBy(check(ctx, db)), db.Close())
}

// rowsChecked are read in one transaction, so that none holds up the write-ahead log for long.
const rowsChecked = 1000

// checkRows reads every job, which compares its checksum, and finds its tags.
func checkRows(ctx context.Context, db *sql.DB) error {
	for last := (job.ID{}); ; {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		n, err := checkPage(ctx, tx, &last)
		if err := errors.Join(err, finish(tx, err)); err != nil || n == 0 {
			return err
		}
	}
}

// checkPage checks the rows after last, and moves it.
func checkPage(ctx context.Context, tx *sql.Tx, last *job.ID) (rows int, err error) {
	var tagged []Row
	page := query(`SELECT `+columns+` FROM job j WHERE j.id > ? ORDER BY j.id LIMIT ?`, append([]byte{}, last[:]...), rowsChecked)
	err = page.each(ctx, tx, "check jobs", func(found *sql.Rows) (bool, error) {
		r, err := scanRow(found)
		if len(r.Tags) > 0 {
			tagged = append(tagged, r)
		}
		*last, rows = r.ID, rows+1
		return true, err
	})
	if err != nil {
		return 0, err
	}
	for i := range tagged {
		for _, t := range tagged[i].Tags {
			var n int
			err := tx.QueryRowContext(ctx, `SELECT count(*) FROM tag WHERE key = ? AND value = ? AND created_at = ? AND id = ?`,
				t.Key, t.Value, tagged[i].CreatedAt, tagged[i].ID[:]).Scan(&n)
			if err != nil {
				return 0, err
			}
			if n != 1 {
				return 0, fmt.Errorf("%w: a tag of job %s isn't there", errDamaged, tagged[i].ID)
			}
		}
	}
	return rows, nil
}

func check(ctx context.Context, db *sql.DB) error {
	var text string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&text); err != nil {
		return err
	}
	if text != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, text)
	}
	if _, err := readMark(ctx, db); err != nil {
		return err
	}
	if err := checkRows(ctx, db); err != nil {
		return err
	}
	for _, c := range checks {
		var n int
		if err := db.QueryRowContext(ctx, c.sql).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%w: %s", errDamaged, c.what)
		}
	}
	return nil
}

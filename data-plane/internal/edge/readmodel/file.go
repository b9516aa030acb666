package readmodel

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"runtime"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// errDamaged: the file does not hold what it should. It is deleted and rebuilt.
var errDamaged = errors.New("the read model's file is damaged")

// schemaVersion is in the file's user_version; another one is rebuilt.
const schemaVersion = 9

// Every time is whole nanoseconds, so that order and ranges are those of numbers. The two
// indexes of job serve every list: one without states is a merge over all states. Dead
// jobs are also in dead, with their cause, which belongs to one queue; a job that never
// dies costs nothing there. cause counts them, dead_total adds up the counts. What nothing
// else in the file proves has a sum: SQLite has no checksums.
const schema = `
CREATE TABLE job (
 id BLOB PRIMARY KEY, queue TEXT NOT NULL, state INTEGER NOT NULL, priority INTEGER NOT NULL,
 attempt INTEGER NOT NULL, max_retries INTEGER NOT NULL, crashes INTEGER NOT NULL,
 created_at INTEGER NOT NULL, scheduled_at INTEGER NOT NULL, started_at INTEGER NOT NULL,
 finished_at INTEGER NOT NULL, failed_at INTEGER NOT NULL,
 worker TEXT NOT NULL, last_error TEXT NOT NULL, hold_reason TEXT NOT NULL, reason INTEGER NOT NULL, tags BLOB,
 generation INTEGER NOT NULL, sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX job_by_state ON job (state, created_at, id);
CREATE INDEX job_by_queue ON job (queue, state, created_at, id);
CREATE TABLE dead (
 id BLOB PRIMARY KEY, queue TEXT NOT NULL, generation INTEGER NOT NULL, cause INTEGER NOT NULL,
 created_at INTEGER NOT NULL, finished_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX dead_by_cause ON dead (cause, created_at, id);
CREATE INDEX dead_by_time ON dead (cause, generation, finished_at);
CREATE TABLE cause (
 cause INTEGER NOT NULL, generation INTEGER NOT NULL, queue TEXT NOT NULL, jobs INTEGER NOT NULL,
 PRIMARY KEY (cause, generation)
) STRICT, WITHOUT ROWID;
CREATE INDEX cause_by_jobs ON cause (jobs DESC);
CREATE INDEX cause_by_queue ON cause (queue, jobs DESC);
CREATE TABLE dead_total (
 queue TEXT NOT NULL, generation INTEGER NOT NULL, causes INTEGER NOT NULL, jobs INTEGER NOT NULL,
 PRIMARY KEY (queue, generation)
) STRICT, WITHOUT ROWID;
CREATE TABLE tag (
 key TEXT NOT NULL, value TEXT NOT NULL, created_at INTEGER NOT NULL, id BLOB NOT NULL,
 PRIMARY KEY (key, value, created_at, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE mark (
 one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, rebuilding INTEGER NOT NULL, rebuilt_to BLOB NOT NULL,
 rebuilt_from INTEGER NOT NULL, jobs INTEGER NOT NULL, rebuilt INTEGER NOT NULL, since INTEGER NOT NULL, sum INTEGER NOT NULL
) STRICT;
INSERT INTO mark VALUES (1, 0, 0, x'', 0, 0, 0, 0, %d);
CREATE TABLE minute (
 at INTEGER PRIMARY KEY, enqueued INTEGER NOT NULL, completed INTEGER NOT NULL, failed INTEGER NOT NULL, sum INTEGER NOT NULL
) STRICT;
`

// mark is how far a file is. It moves in the transaction that writes the rows.
type mark struct {
	seq uint64 // Number of the last event whose job was written.
	// rebuilding: rows after rebuiltTo may be missing or out of date.
	rebuilding bool
	rebuiltTo  job.ID
	// rebuiltFrom is the log's time when the rebuild began: what happened later is
	// counted from events.
	rebuiltFrom int64
	// jobs is about how many there were when the rebuild began; rebuilt of them are
	// written.
	jobs, rebuilt uint64
	// since is when the rows became incomplete, Unix nanoseconds; 0 while they are complete. A
	// file of which no event is kept any more knows it from no one else.
	since int64
}

// sum is a checksum over every column: a mark that is too high would leave out events.
func (m *mark) sum() int64 {
	b := append([]byte{}, m.rebuiltTo[:]...)
	rebuilding := uint64(0)
	if m.rebuilding {
		rebuilding = 1
	}
	for _, n := range []uint64{m.seq, rebuilding, uint64(m.rebuiltFrom), m.jobs, m.rebuilt, uint64(m.since)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return int64(crc32.Checksum(b, castagnoli))
}

// file is one namespace's read model, open.
type file struct {
	ns     job.Namespace
	write  *sql.DB // One connection; only the projector uses it.
	read   *sql.DB
	upsert [shapes]upsert
	insert *sql.Stmt // Of rowsAtOnce new rows of jobs that the file doesn't have.
	tag    *sql.Stmt
	minute *sql.Stmt
	// Of dead jobs: those from an id on, one that died, one that did not; the count of a group, and its end.
	deadFrom, dead, undead, cause, uncause *sql.Stmt

	// Guarded by the models:
	refs  int
	used  uint64
	since time.Time // Of the last use, while refs is 0.
}

const (
	writerCacheKiB = 1024
	readerCacheKiB = 512
	readersMax     = 2
	busyTimeoutMS  = 5000
	// rowsAtOnce go into one statement, to share its fixed cost.
	rowsAtOnce = 16
	// yieldAfter so many statements, half a millisecond of them, others get the processor. A
	// goroutine on a thread of its own gives it up and takes it again by two wake-ups of threads.
	yieldAfter = 8
	// checkpointPages of the write-ahead log, 4 KiB each, are written back at once.
	checkpointPages = 4000
)

// dsn names a database file. A crash of the machine leaves it intact, because the
// write-ahead log is synced before it is written back. The last rounds may be
// missing; the mark tells.
func dsn(path string, cacheKiB int, more string) string {
	return (&url.URL{Scheme: "file", Path: path}).String() + fmt.Sprintf(
		"?_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=cache_size(-%d)&_pragma=temp_store(MEMORY)&_pragma=wal_autocheckpoint(%d)%s",
		busyTimeoutMS, cacheKiB, checkpointPages, more)
}

// openFile opens or makes the file; on errDamaged the caller must delete it.
func openFile(ctx context.Context, ns job.Namespace, path string) (_ *file, err error) {
	f := &file{ns: ns}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.write, err = sql.Open("sqlite", dsn(path, writerCacheKiB, "&_txlock=immediate")); err != nil {
		return nil, fmt.Errorf("open read model %s: %w", path, err)
	}
	f.write.SetMaxOpenConns(1)
	if err := f.prepare(ctx); err != nil {
		return nil, fmt.Errorf("open read model %s: %w", path, damagedBy(err))
	}
	if f.read, err = sql.Open("sqlite", dsn(path, readerCacheKiB, "&_pragma=query_only(1)")); err != nil {
		return nil, fmt.Errorf("open read model %s: %w", path, err)
	}
	f.read.SetMaxOpenConns(readersMax)
	f.read.SetMaxIdleConns(readersMax)
	return f, nil
}

func (f *file) prepare(ctx context.Context) error {
	var version int
	if err := f.write.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	switch version {
	case schemaVersion:
	case 0:
		if err := f.create(ctx); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: version %d", errDamaged, version)
	}
	statements := map[string]**sql.Stmt{
		insertNew: &f.insert,
		`INSERT INTO tag VALUES (?,?,?,?) ON CONFLICT DO NOTHING`: &f.tag,
		`INSERT INTO minute VALUES (?,?,?,?,?) ON CONFLICT (at) DO UPDATE SET enqueued = enqueued + excluded.enqueued,
 completed = completed + excluded.completed, failed = failed + excluded.failed, sum = sum + excluded.sum`: &f.minute,
		`SELECT id, queue, generation, cause, created_at, finished_at FROM dead WHERE id >= ? AND id <= ? ORDER BY id`: &f.deadFrom,
		`INSERT INTO dead VALUES (?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET queue = excluded.queue, generation = excluded.generation,
 cause = excluded.cause, created_at = excluded.created_at, finished_at = excluded.finished_at`: &f.dead,
		`DELETE FROM dead WHERE id = ?`: &f.undead,
		`INSERT INTO cause VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs RETURNING jobs`: &f.cause,
		`DELETE FROM cause WHERE cause = ? AND generation = ?`:                                                    &f.uncause,
	}
	for of := range f.upsert {
		statements[upsertRows(shape(of), 1)] = &f.upsert[of].one
		statements[upsertRows(shape(of), rowsAtOnce)] = &f.upsert[of].many
	}
	for text, stmt := range statements {
		var err error
		if *stmt, err = f.write.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// shape says which columns of a row have nothing in them. They are written into the statement:
// each value that is bound costs about as much as storing it, and most jobs never failed.
type shape int

const (
	anyRow  shape = iota
	wellRow       // It did not fail, nor crash, nor is it held.
	newRow        // Nor did it run.
	shapes
)

// upsert is the statements for rows of one shape: for one, and for rowsAtOnce.
type upsert struct{ one, many *sql.Stmt }

func (r *Row) shape() shape {
	switch {
	case r.Crashes != 0 || r.FailedAt != 0 || r.LastError != "" || r.HoldReason != "" || r.Reason != 0:
		return anyRow
	case r.Attempt != 0 || r.StartedAt != 0 || r.FinishedAt != 0 || r.Worker != "":
		return wellRow
	}
	return newRow
}

// values is what is written for one row of the shape; see Row.values.
func (s shape) values() string {
	return [shapes]string{
		anyRow:  `(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		wellRow: `(?,?,?,?,?,?,0,?,?,?,?,0,?,'','',0,?,?,?)`,
		newRow:  `(?,?,?,?,0,?,0,?,?,0,0,0,'','','',0,?,?,?)`,
	}[s]
}

// insertNew is the statement for jobs that were only enqueued so far and that the file can't have yet. If it has one of
// them, nothing of the transaction is done and it is written again with upserts (apply), so that SQLite needs no journal of its own for the statement, as it does for
// every upsert of a table without row ids: a tenth of the work.
var insertNew = `INSERT OR ROLLBACK INTO job VALUES ` + newRow.values() + strings.Repeat(`,`+newRow.values(), rowsAtOnce-1)

// upsertRows is the statement that upserts n rows.
func upsertRows(of shape, n int) string {
	return `INSERT INTO job VALUES ` + of.values() + strings.Repeat(`,`+of.values(), n-1) + ` ON CONFLICT (id) DO UPDATE SET
 queue = excluded.queue, state = excluded.state, priority = excluded.priority, attempt = excluded.attempt,
 max_retries = excluded.max_retries, crashes = excluded.crashes, scheduled_at = excluded.scheduled_at,
 started_at = excluded.started_at, finished_at = excluded.finished_at, failed_at = excluded.failed_at,
 worker = excluded.worker, last_error = excluded.last_error, hold_reason = excluded.hold_reason, reason = excluded.reason,
 generation = excluded.generation, sum = excluded.sum`
}

// create makes the schema; version and tables appear together or not at all.
func (f *file) create(ctx context.Context) error {
	tx, err := f.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(schema+"PRAGMA user_version = %d;", (&mark{}).sum(), schemaVersion))
	return errors.Join(err, finish(tx, err))
}

// finish commits, or rolls back after an error.
func finish(tx *sql.Tx, err error) error {
	if err == nil {
		return tx.Commit()
	}
	if rerr := tx.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) {
		return rerr
	}
	return nil
}

func (f *file) close() error {
	var errs []error
	all := []*sql.Stmt{f.insert, f.tag, f.minute, f.deadFrom, f.dead, f.undead, f.cause, f.uncause}
	for _, u := range f.upsert {
		all = append(all, u.one, u.many)
	}
	for _, s := range all {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	for _, db := range []*sql.DB{f.read, f.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

func (f *file) mark(ctx context.Context) (mark, error) { return readMark(ctx, f.write) }

func readMark(ctx context.Context, db *sql.DB) (mark, error) {
	var m mark
	var to []byte
	var sum int64
	err := db.QueryRowContext(ctx, `SELECT seq, rebuilding, rebuilt_to, rebuilt_from, jobs, rebuilt, since, sum FROM mark`).
		Scan(&m.seq, &m.rebuilding, &to, &m.rebuiltFrom, &m.jobs, &m.rebuilt, &m.since, &sum)
	if errors.Is(err, sql.ErrNoRows) || err == nil && len(to) != 0 && len(to) != len(m.rebuiltTo) {
		return mark{}, fmt.Errorf("%w: no mark", errDamaged)
	}
	copy(m.rebuiltTo[:], to)
	if err == nil && sum != m.sum() {
		return mark{}, fmt.Errorf("%w: its mark isn't the one that was written", errDamaged)
	}
	return m, damagedBy(err)
}

// reaches checks that a reader sees what was projected: a file that was removed by
// hand starts empty when it is next opened.
func (f *file) reaches(ctx context.Context, seq uint64) error {
	var got sql.NullInt64 // Damage in the file may read as NULL.
	if err := f.read.QueryRowContext(ctx, `SELECT seq FROM mark`).Scan(&got); err != nil {
		return fmt.Errorf("read mark: %w", err)
	}
	if !got.Valid || uint64(got.Int64) < seq {
		return fmt.Errorf("%w: its mark is %d, it was %d", errDamaged, got.Int64, seq)
	}
	return nil
}

// change is what one transaction does to a file.
type change struct {
	rows []Row
	gone []job.ID
	// fresh: its jobs were enqueued after what the file has, so that it has none of them, as a rule: a
	// rebuild may have met one.
	fresh bool
	// If clear is set, all jobs after clearFrom up to clearTo are removed before
	// rows are added; a zero clearTo is the end.
	clear              bool
	clearFrom, clearTo job.ID
	mark               mark
	minutes            minutes // Added to those of the file; they replace them if newMinutes is set.
	newMinutes         bool
	// was is the mark's number before. A file with another number is not the one
	// that was projected into; anyhow skips this check.
	was    uint64
	anyhow bool
}

func (f *file) apply(ctx context.Context, c *change) error {
	err := f.applyOnce(ctx, c)
	if c.fresh && hasRow(err) {
		c.fresh = false
		err = f.applyOnce(ctx, c)
	}
	return err
}

func (f *file) applyOnce(ctx context.Context, c *change) error {
	// A change takes some milliseconds; making each statement cancellable would
	// cost part of that.
	ctx = context.WithoutCancel(ctx)
	tx, err := f.write.BeginTx(ctx, nil)
	if err != nil {
		return damagedBy(err)
	}
	err = f.applyIn(ctx, tx, c)
	return damagedBy(errors.Join(err, finish(tx, err)))
}

func (f *file) applyIn(ctx context.Context, tx *sql.Tx, c *change) error {
	dead := f.deathsIn(ctx, tx)
	if c.clear {
		s := spanOf(c.clearFrom, c.clearTo)
		if err := errors.Join(clearSpan(ctx, tx, s), dead.clear(ctx, s)); err != nil {
			return err
		}
	}
	for _, id := range c.gone {
		if err := remove(ctx, tx, id); err != nil {
			return err
		}
	}
	if err := f.putRows(ctx, tx, c.rows, c.fresh); err != nil {
		return err
	}
	if err := f.putTags(ctx, tx, c.rows); err != nil {
		return err
	}
	if err := dead.change(ctx, c.rows, c.gone); err != nil {
		return err
	}
	if err := dead.count(ctx); err != nil {
		return err
	}
	if err := f.putMinutes(ctx, tx, c); err != nil {
		return err
	}
	to := c.mark.rebuiltTo[:]
	if c.mark.rebuiltTo.IsZero() {
		to = []byte{}
	}
	res, err := tx.ExecContext(ctx, `UPDATE mark SET seq = ?, rebuilding = ?, rebuilt_to = ?, rebuilt_from = ?, jobs = ?, rebuilt = ?, since = ?, sum = ? WHERE seq = ? OR ?`,
		int64(c.mark.seq), c.mark.rebuilding, to, c.mark.rebuiltFrom, int64(c.mark.jobs), int64(c.mark.rebuilt), c.mark.since, c.mark.sum(), int64(c.was), c.anyhow)
	if err != nil {
		return fmt.Errorf("move mark: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("%w: its mark is not %d", errDamaged, c.was), err)
	}
	return nil
}

// putRows writes runs of rows of one shape.
func (f *file) putRows(ctx context.Context, tx *sql.Tx, rows []Row, fresh bool) error {
	var byShape [shapes][]*Row
	for i := range rows {
		of := rows[i].shape()
		byShape[of] = append(byShape[of], &rows[i])
	}
	for of, rows := range byShape {
		if err := f.putShape(ctx, tx, shape(of), rows, fresh); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) putShape(ctx context.Context, tx *sql.Tx, of shape, rows []*Row, fresh bool) error {
	if len(rows) == 0 {
		return nil
	}
	several := f.upsert[of].many
	if fresh && of == newRow {
		several = f.insert
	}
	one, many := tx.StmtContext(ctx, f.upsert[of].one), tx.StmtContext(ctx, several)
	var args []any
	for done := 1; len(rows) > 0; done++ {
		n, stmt := 1, one
		if len(rows) >= rowsAtOnce {
			n, stmt = rowsAtOnce, many
		}
		args = args[:0]
		for _, r := range rows[:n] {
			args = r.values(args, of)
		}
		if _, err := stmt.ExecContext(ctx, args...); err != nil {
			return fmt.Errorf("write %d jobs from %s: %w", n, rows[0].ID, err)
		}
		if done%yieldAfter == 0 {
			runtime.Gosched()
		}
		rows = rows[n:]
	}
	return nil
}

// values appends the row in the order of the table's columns, without those that have nothing
// in its shape.
func (r *Row) values(to []any, of shape) []any {
	tags := encodeTags(r.Tags)
	to = append(to, r.ID[:], r.Queue, int64(r.State), int64(r.Priority))
	if of != newRow {
		to = append(to, int64(r.Attempt))
	}
	to = append(to, int64(r.MaxRetries))
	if of == anyRow {
		to = append(to, int64(r.Crashes))
	}
	to = append(to, r.CreatedAt, r.ScheduledAt)
	if of != newRow {
		to = append(to, r.StartedAt, r.FinishedAt)
	}
	if of == anyRow {
		to = append(to, r.FailedAt)
	}
	if of != newRow {
		to = append(to, r.Worker)
	}
	if of == anyRow {
		to = append(to, r.LastError, r.HoldReason, int64(r.Reason))
	}
	return append(to, tags, int64(r.generation), r.sum(tags))
}

func (f *file) putTags(ctx context.Context, tx *sql.Tx, rows []Row) error {
	tag := tx.StmtContext(ctx, f.tag)
	for i := range rows {
		r := &rows[i]
		for _, t := range r.Tags {
			if _, err := tag.ExecContext(ctx, t.Key, t.Value, r.CreatedAt, r.ID[:]); err != nil {
				return fmt.Errorf("write tag of job %s: %w", r.ID, err)
			}
		}
	}
	return nil
}

func remove(ctx context.Context, tx *sql.Tx, id job.ID) error {
	var tags []byte
	var created int64
	err := tx.QueryRowContext(ctx, `SELECT tags, created_at FROM job WHERE id = ?`, id[:]).Scan(&tags, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove job %s: %w", id, err)
	}
	if err := removeTags(ctx, tx, id, created, tags); err != nil {
		return err
	}
	return query(`DELETE FROM job WHERE id = ?`, id[:]).exec(ctx, tx, "remove job")
}

func removeTags(ctx context.Context, tx *sql.Tx, id job.ID, created int64, tags []byte) error {
	list, err := decodeTags(tags)
	if err != nil {
		return fmt.Errorf("%w: tags of %s: %w", errDamaged, id, err)
	}
	for _, t := range list {
		one := query(`DELETE FROM tag WHERE key = ? AND value = ? AND created_at = ? AND id = ?`, t.Key, t.Value, created, id[:])
		if err := one.exec(ctx, tx, "remove tag"); err != nil {
			return err
		}
	}
	return nil
}

// tagged is a job whose tags must be removed.
type tagged struct {
	id      job.ID
	created int64
	tags    []byte
}

func clearSpan(ctx context.Context, tx *sql.Tx, s span) error {
	var list []tagged
	rows := query(`SELECT id, created_at, tags FROM job WHERE tags IS NOT NULL AND `+s.where, s.args...)
	err := rows.each(ctx, tx, "clear jobs", func(rows *sql.Rows) (bool, error) {
		var t tagged
		var id []byte
		err := rows.Scan(&id, &t.created, &t.tags)
		copy(t.id[:], id)
		list = append(list, t)
		return true, err
	})
	if err != nil {
		return err
	}
	for _, t := range list {
		if err := removeTags(ctx, tx, t.id, t.created, t.tags); err != nil {
			return err
		}
	}
	return query(`DELETE FROM job WHERE `+s.where, s.args...).exec(ctx, tx, "clear jobs")
}

// damagedBy marks errors that a retry does not cure.
func damagedBy(err error) error {
	var e *sqlite.Error
	if err == nil || errors.Is(err, errDamaged) || !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA,
		sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FORMAT:
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// hasRow tells that the file has a job that was taken for a new one.
func hasRow(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

package readmodel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// Span is a time range in Unix nanoseconds, without its ends; 0 is open.
type Span struct{ After, Before int64 }

// Filter selects jobs of a namespace. The zero value selects all, newest first.
type Filter struct {
	Queue string // "" is every queue.
	// Only are patterns of queues (names that may end in *) of which one must match; none is
	// every queue.
	Only []string
	// Cause selects a group of dead jobs; 0 is every job.
	Cause  Cause
	States []job.State // Empty is every state.
	Tags   []command.Tag
	Worker string
	// Created and the other times.
	Created, Scheduled, Started, Completed Span
	Priority                               *job.Priority
	AttemptMin, AttemptMax                 *uint32
	HasErrors                              *bool
	Ascending                              bool // Oldest first.
	Limit                                  int
	// Cursor continues a list; "" begins it.
	Cursor string
	// CountTo asks for a total and bounds how many jobs are counted; 0 asks for none.
	CountTo int
	// AsItIs does not wait for what was committed before the query.
	AsItIs bool
}

// LimitMax bounds one page.
const LimitMax = 1000

// tagIsRare is up to how many jobs with a tag are worth walking directly.
const tagIsRare = 2000

const columns = `j.id, j.queue, j.state, j.priority, j.attempt, j.max_retries, j.crashes, j.created_at, j.scheduled_at,
 j.started_at, j.finished_at, j.failed_at, j.worker, j.last_error, j.hold_reason, j.reason, j.tags, j.generation, j.sum`

// statement is built from constant pieces of SQL and bound values: a caller's text
// never becomes part of a statement.
type statement struct {
	sql  strings.Builder
	args []any
}

func (s *statement) add(sql string, args ...any) {
	s.sql.WriteString(sql)
	s.args = append(s.args, args...)
}

// query is a statement of one piece.
func query(sql string, args ...any) *statement {
	s := &statement{args: args}
	s.sql.WriteString(sql)
	return s
}

// each calls row with each row that the statement finds, while it wants more; what says in
// an error what it was for.
func (s *statement) each(ctx context.Context, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, what string, row func(*sql.Rows) (more bool, err error)) error {
	rows, err := db.QueryContext(ctx, s.sql.String(), s.args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for more := true; more && err == nil && rows.Next(); {
		more, err = row(rows)
	}
	if err = errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// exec runs a statement that finds nothing.
func (s *statement) exec(ctx context.Context, tx *sql.Tx, what string) error {
	if _, err := tx.ExecContext(ctx, s.sql.String(), s.args...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// A walk is read in steps, each over so many entries of an index: a walk over jobs that do
// not fit finds nothing for long, and has to know how far it came when its time is over.
const (
	stepMin = 512
	walkMax = 4096
)

// step is what one step of a walk found.
type step struct {
	rows []Row
	// to is where it ended; nil: at the end of the list.
	to *Position
}

// found is the result of a list: a page, whether there is more, and from where on. A
// walk that stopped among rows that are not shown may have found less than a page, or
// nothing, although more follow.
type found struct {
	rows []Row
	more bool
	next Position
}

// list reads one page. Rows of deleted queues are skipped here and not in SQL: there may
// be thousands of such queues, and the cost of a row must not depend on their number.
func list(ctx context.Context, db *sql.DB, f *Filter, gone map[string]stateread.DeletedQueue, spent func() bool) (found, error) {
	from, err := f.position()
	if err != nil {
		return found{}, err
	}
	if nothing, err := f.isNothing(ctx, db); nothing || err != nil {
		return found{}, err
	}
	byTag, err := leadingTag(ctx, db, f)
	if err != nil {
		return found{}, err
	}
	return onePage(ctx, f.Limit, from, gone, spent, func(from *Position, n int) (step, error) {
		return listSome(ctx, db, f, byTag, from, n)
	})
}

// onePage collects limit visible rows of those that read returns after a position. It takes
// at least one step, however little time there is: so whoever turns pages arrives.
func onePage(ctx context.Context, limit int, from *Position, gone map[string]stateread.DeletedQueue, spent func() bool, read func(*Position, int) (step, error)) (found, error) {
	var out found
	for n := limit + 1; ; n = min(2*n, walkMax) {
		some, err := read(from, n)
		if err != nil {
			if ctx.Err() != nil && out.next != (Position{}) {
				out.more = true // The next page continues here.
				return out, nil
			}
			return found{}, err
		}
		for i := range some.rows {
			r := &some.rows[i]
			if q, deleted := gone[r.Queue]; deleted && !q.Has(r.generation, r.State.Leased()) {
				out.next = r.position()
				continue
			}
			if len(out.rows) == limit {
				out.more = true
				return out, nil
			}
			out.rows, out.next = append(out.rows, *r), r.position()
		}
		if some.to == nil {
			return out, nil
		}
		if out.next = *some.to; spent() {
			out.more = true
			return out, nil
		}
		from = &out.next
	}
}

// listSome reads up to n rows after a position.
func listSome(ctx context.Context, db *sql.DB, f *Filter, byTag int, from *Position, n int) (out step, err error) {
	if f.passesOver(byTag) {
		if out.to, err = f.stepEnd(ctx, db, byTag, from, max(n, stepMin)); err != nil {
			return step{}, err
		}
	}
	s := &statement{}
	if f.hasLead(byTag) {
		f.byLead(s, byTag, from, out.to, n)
	} else {
		f.byState(s, from, out.to, n)
	}
	err = s.each(ctx, db, "list jobs", func(found *sql.Rows) (bool, error) {
		r, err := scanRow(found)
		out.rows = append(out.rows, r)
		return true, err
	})
	if err != nil {
		return step{}, err
	}
	if len(out.rows) == n {
		last := out.rows[n-1].position()
		out.to = &last
	}
	return out, nil
}

// passesOver reports whether a walk may meet many jobs that do not fit. A leading tag has
// few.
func (f *Filter) passesOver(byTag int) bool {
	if byTag >= 0 {
		return false
	}
	var conditions statement
	if f.Cause != 0 {
		f.conditionsByLead(&conditions, -1)
	} else {
		f.rest(&conditions, -1)
	}
	return conditions.sql.Len() > 0
}

// stepEnd is the nth entry of the walked index after a position; nil if there are fewer. It
// reads nothing but the index.
func (f *Filter) stepEnd(ctx context.Context, db *sql.DB, byTag int, from *Position, n int) (*Position, error) {
	s := &statement{}
	if f.hasLead(byTag) {
		s.add(`SELECT l.created_at, l.id`)
		f.lead(s, byTag, ``)
		f.between(s, "l.", from, nil)
		f.order(s, "l.", 1)
	} else {
		s.add(`SELECT j.created_at, j.id FROM (`)
		for i, st := range f.states() {
			if i > 0 {
				s.add(` UNION ALL `)
			}
			s.add(`SELECT * FROM (SELECT j.created_at, j.id FROM job j `)
			f.in(s, st)
			f.between(s, "j.", from, nil)
			f.order(s, "j.", n)
			s.add(`)`)
		}
		s.add(`) j`)
		f.order(s, "j.", 1)
	}
	s.add(` OFFSET ?`, n-1)
	var to *Position
	err := s.each(ctx, db, "look ahead", func(found *sql.Rows) (bool, error) {
		var id []byte
		to = new(Position)
		err := found.Scan(&to.CreatedAt, &id)
		if err == nil && copy(to.ID[:], id) != len(to.ID) {
			err = fmt.Errorf("%w: id of %d bytes", errDamaged, len(id))
		}
		return true, err
	})
	return to, err
}

func (f *Filter) position() (*Position, error) {
	if f.Cursor == "" {
		return nil, nil
	}
	p, err := decodeCursor(f.Cursor, f)
	return &p, err
}

// leadingTag is a tag with few jobs to walk, or -1: a tag with many jobs is checked
// while the states' indexes are walked.
func leadingTag(ctx context.Context, db *sql.DB, f *Filter) (int, error) {
	best, fewest := -1, tagIsRare
	for i, t := range f.Tags {
		var n int
		err := db.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM tag WHERE key = ? AND value = ? LIMIT ?)`, t.Key, t.Value, tagIsRare).Scan(&n)
		if err != nil {
			return -1, fmt.Errorf("look at tag: %w", err)
		}
		if n < fewest {
			best, fewest = i, n
		}
	}
	return best, nil
}

// isNothing reports whether no job can match, without reading a group's jobs: a cause
// implies dead jobs and one queue.
func (f *Filter) isNothing(ctx context.Context, db *sql.DB) (bool, error) {
	if f.Cause == 0 {
		return false, nil
	}
	if len(f.States) > 0 && !slices.Contains(f.States, job.Dead) {
		return true, nil
	}
	var groups int
	err := db.QueryRowContext(ctx, `SELECT count(*) FROM cause WHERE cause = ? AND ? IN ('', queue)`, int64(f.Cause), f.Queue).Scan(&groups)
	if err != nil {
		return false, fmt.Errorf("look at cause: %w", err)
	}
	return groups == 0, nil
}

// hasLead reports whether the rows of one tag, or of a cause, contain all matching jobs.
func (f *Filter) hasLead(tag int) bool { return tag >= 0 || f.Cause != 0 }

// withJobs reads the job of each entry of a lead.
const withJobs = ` CROSS JOIN job j ON j.id = l.id`

// lead begins the walk over those rows.
func (f *Filter) lead(s *statement, tag int, join string) {
	if tag >= 0 {
		s.add(` FROM tag l`+join+` WHERE l.key = ? AND l.value = ?`, f.Tags[tag].Key, f.Tags[tag].Value)
		return
	}
	s.add(` FROM dead l INDEXED BY dead_by_cause`+join+` WHERE l.cause = ?`, int64(f.Cause))
}

func (f *Filter) byLead(s *statement, tag int, from, to *Position, n int) {
	s.add(`SELECT ` + columns)
	f.lead(s, tag, withJobs)
	f.between(s, "l.", from, to)
	f.conditionsByLead(s, tag)
	f.order(s, "l.", n)
}

// byState walks an index per state, each in order and no further than the page
// needs, and merges them.
func (f *Filter) byState(s *statement, from, to *Position, n int) {
	s.add(`SELECT ` + columns + ` FROM (`)
	for i, st := range f.states() {
		if i > 0 {
			s.add(` UNION ALL `)
		}
		s.add(`SELECT * FROM (SELECT ` + columns + ` FROM job j `)
		f.in(s, st)
		f.between(s, "j.", from, to)
		f.rest(s, -1)
		f.order(s, "j.", n)
		s.add(`)`)
	}
	s.add(`) j`)
	f.order(s, "j.", n)
}

// between bounds the created time, by the filter, by where the page begins, and by where the
// step ends.
func (f *Filter) between(s *statement, table string, from, to *Position) {
	if f.Created.After != 0 {
		s.add(` AND `+table+`created_at > ?`, f.Created.After)
	}
	if f.Created.Before != 0 {
		s.add(` AND `+table+`created_at < ?`, f.Created.Before)
	}
	if from != nil {
		than := ` < (?, ?)`
		if f.Ascending {
			than = ` > (?, ?)`
		}
		s.add(` AND (`+table+`created_at, `+table+`id)`+than, from.CreatedAt, from.ID[:])
	}
	if to != nil {
		upTo := ` >= (?, ?)`
		if f.Ascending {
			upTo = ` <= (?, ?)`
		}
		s.add(` AND (`+table+`created_at, `+table+`id)`+upTo, to.CreatedAt, to.ID[:])
	}
}

// rest are the conditions without an index; but is the tag that is walked, if any, else a
// cause is.
func (f *Filter) rest(s *statement, but int) {
	s.inQueues(` AND `, `j.queue`, f.Only)
	for i, t := range f.Tags {
		if i != but {
			s.add(` AND EXISTS (SELECT 1 FROM tag x WHERE x.key = ? AND x.value = ? AND x.created_at = j.created_at AND x.id = j.id)`, t.Key, t.Value)
		}
	}
	for _, span := range []struct {
		column string
		Span
	}{{`j.scheduled_at`, f.Scheduled}, {`j.started_at`, f.Started}} {
		span.add(s, span.column)
	}
	if f.Completed != (Span{}) {
		s.add(` AND j.state = ?`, int64(job.Completed))
		f.Completed.add(s, `j.finished_at`)
	}
	if f.Cause != 0 && but >= 0 {
		s.add(` AND EXISTS (SELECT 1 FROM dead x WHERE x.id = j.id AND x.cause = ?)`, int64(f.Cause))
	}
	if f.Priority != nil {
		s.add(` AND j.priority = ?`, int64(*f.Priority))
	}
	if f.AttemptMin != nil {
		s.add(` AND j.attempt >= ?`, int64(*f.AttemptMin))
	}
	if f.AttemptMax != nil {
		s.add(` AND j.attempt <= ?`, int64(*f.AttemptMax))
	}
	if f.Worker != "" {
		s.add(` AND j.worker = ?`, f.Worker)
	}
	if f.HasErrors != nil {
		s.add(` AND (j.failed_at <> 0) = ?`, optional(f.HasErrors))
	}
}

// inQueues requires that a column with a queue's name matches one of the patterns.
func (s *statement) inQueues(begin, column string, patterns []string) {
	for i, pattern := range patterns {
		if s.add(begin); i == 0 {
			s.add(`(`)
		}
		if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
			s.add(`substr(`+column+`, 1, ?) = ?`, len(prefix), prefix) // Names are ASCII.
		} else {
			s.add(column+` = ?`, pattern)
		}
		begin = ` OR `
	}
	if len(patterns) > 0 {
		s.add(`)`)
	}
}

// InQueues reports whether a queue matches one of the patterns; none are every queue.
func InQueues(patterns []string, queue string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return wild && strings.HasPrefix(queue, prefix) || queue == pattern
	})
}

// StillFits reports whether a listed job still matches in all that may have changed
// since, except its cause (see CauseNow). Call it before acting on the job.
func (f *Filter) StillFits(h *records.Head) bool {
	waits := h.State == job.Scheduled || h.State == job.Retrying
	switch {
	case f.Queue != "" && h.Queue != f.Queue:
	case !InQueues(f.Only, h.Queue):
	case len(f.States) > 0 && !slices.Contains(f.States, h.State):
	case f.Priority != nil && h.Priority != *f.Priority:
	case f.Worker != "" && h.Worker != f.Worker:
	case f.AttemptMin != nil && h.Attempt < *f.AttemptMin:
	case f.AttemptMax != nil && h.Attempt > *f.AttemptMax:
	case f.HasErrors != nil && (h.FailedAt != 0) != *f.HasErrors:
	case !f.Started.has(h.Started):
	case waits && !f.Scheduled.has(h.DueAt()):
	case f.Completed != (Span{}) && (h.State != job.Completed || !f.Completed.has(h.Finished)):
	default:
		return true
	}
	return false
}

func (sp Span) has(at int64) bool {
	return (sp.After == 0 || at > sp.After) && (sp.Before == 0 || at < sp.Before && at != 0)
}

// add bounds a time column in which 0 means never.
func (sp Span) add(s *statement, column string) {
	if sp.After != 0 {
		s.add(` AND `+column+` > ?`, sp.After)
	}
	if sp.Before != 0 {
		s.add(` AND `+column+` < ? AND `+column+` <> 0`, sp.Before)
	}
}

func (f *Filter) order(s *statement, table string, n int) {
	way := ` DESC`
	if f.Ascending {
		way = ` ASC`
	}
	s.add(` ORDER BY `+table+`created_at`+way+`, `+table+`id`+way+` LIMIT ?`, n)
}

func scanRow(found *sql.Rows) (Row, error) {
	var r Row
	var id, tags []byte
	var st, priority, reason uint8
	var sum int64
	err := found.Scan(&id, &r.Queue, &st, &priority, &r.Attempt, &r.MaxRetries, &r.Crashes, &r.CreatedAt, &r.ScheduledAt,
		&r.StartedAt, &r.FinishedAt, &r.FailedAt, &r.Worker, &r.LastError, &r.HoldReason, &reason, &tags, &r.generation, &sum)
	if err != nil {
		return Row{}, fmt.Errorf("read row: %w", err)
	}
	if len(id) != len(r.ID) {
		return Row{}, fmt.Errorf("%w: id of %d bytes", errDamaged, len(id))
	}
	copy(r.ID[:], id)
	r.State, r.Priority, r.Reason = job.State(st), job.Priority(priority), records.DeadReason(reason)
	if sum != r.sum(tags) {
		return Row{}, fmt.Errorf("%w: job %s isn't as it was written", errDamaged, r.ID)
	}
	if r.Tags, err = decodeTags(tags); err != nil {
		return Row{}, fmt.Errorf("%w: tags of %s: %w", errDamaged, r.ID, err)
	}
	return r, nil
}

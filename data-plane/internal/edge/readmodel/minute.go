package readmodel

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Minutes is how many minutes of a namespace's throughput are kept.
const Minutes = 60

// Minute is what happened in a namespace in one minute.
type Minute struct {
	At        time.Time // Its beginning.
	Enqueued  int64
	Completed int64
	Failed    int64 // Attempts that failed or whose worker was lost.
}

// minutes are counts by the beginning of their minute, Unix nanoseconds.
type minutes map[int64]*Minute

func (m *minutes) at(ns int64) *Minute {
	at := ns - ns%int64(time.Minute)
	if *m == nil {
		*m = make(minutes, 1)
	}
	of := (*m)[at]
	if of == nil {
		of = new(Minute)
		(*m)[at] = of
	}
	return of
}

// sum of the counts is a checksum that is added up as they are: one flipped bit of any of them,
// or of the sum, makes a difference. minuteDamaged is the check.
func (m *Minute) sum() int64 { return 3*m.Enqueued + 5*m.Completed + 7*m.Failed }

const minuteDamaged = `SELECT count(*) FROM minute WHERE sum <> 3*enqueued + 5*completed + 7*failed`

// event counts an event of the entry that was applied at now.
func (m *minutes) event(t feed.Type, now int64) {
	switch t {
	case feed.Enqueued, feed.Scheduled:
		m.at(now).Enqueued++
	case feed.Completed:
		m.at(now).Completed++
	case feed.Failed, feed.LeaseExpired:
		m.at(now).Failed++
	}
}

// row counts from a job itself, for a rebuild without events: only the last
// failure, and no deleted jobs.
func (m *minutes) row(r *Row, until int64) {
	since := until - Minutes*int64(time.Minute)
	lately := func(at int64) bool { return at > since && at <= until }
	if lately(r.CreatedAt) {
		m.at(r.CreatedAt).Enqueued++
	}
	if r.State == job.Completed && lately(r.FinishedAt) {
		m.at(r.FinishedAt).Completed++
	}
	if lately(r.FailedAt) {
		m.at(r.FailedAt).Failed++
	}
}

func (f *file) putMinutes(ctx context.Context, tx *sql.Tx, c *change) error {
	if c.newMinutes {
		if err := query(`DELETE FROM minute`).exec(ctx, tx, "clear minutes"); err != nil {
			return err
		}
	}
	if len(c.minutes) == 0 {
		return nil
	}
	add := tx.StmtContext(ctx, f.minute)
	newest := int64(0)
	for at, m := range c.minutes {
		newest = max(newest, at)
		if _, err := add.ExecContext(ctx, at, m.Enqueued, m.Completed, m.Failed, m.sum()); err != nil {
			return fmt.Errorf("write minute: %w", err)
		}
	}
	return query(`DELETE FROM minute WHERE at < ?`, newest-Minutes*int64(time.Minute)).exec(ctx, tx, "remove old minutes")
}

// Throughput reads the last minutes of a namespace, oldest first, up to the current
// one, and the time as of which they are true.
func (p *Projector) Throughput(ctx context.Context, ns job.Namespace, by Reader, now time.Time) (_ []Minute, asOf time.Time, err error) {
	m, err := feed.MarkOf(p.store, ns)
	if err != nil {
		return nil, time.Time{}, err
	}
	page := p.freshen(ctx, ns, m.Seq)
	out := make([]Minute, Minutes)
	last := now.Truncate(time.Minute)
	for i := range out {
		out[i].At = last.Add(time.Duration(i-Minutes+1) * time.Minute).UTC()
	}
	if err := p.query(ctx, ns, by, func(ctx context.Context, db *sql.DB, _ func() bool) error { return readMinutes(ctx, db, out) }); err != nil {
		return nil, time.Time{}, err
	}
	return out, page.AsOf, nil
}

func readMinutes(ctx context.Context, db *sql.DB, to []Minute) error {
	first := to[0].At.UnixNano()
	s := query(`SELECT at, enqueued, completed, failed FROM minute WHERE at >= ?`, first)
	return s.each(ctx, db, "read minutes", func(rows *sql.Rows) (bool, error) {
		at := first
		var m Minute
		err := rows.Scan(&at, &m.Enqueued, &m.Completed, &m.Failed)
		if i := (at - first) / int64(time.Minute); err == nil && i < int64(len(to)) {
			m.At = to[i].At
			to[i] = m
		}
		return true, err
	})
}

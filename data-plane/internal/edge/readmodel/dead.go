package readmodel

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// groupKey names the dead jobs of one cause in one generation of its queue.
type groupKey struct {
	queue      string
	generation uint64
	cause      Cause
}

// death is what the file keeps of a dead job besides its row.
type death struct {
	groupKey
	createdAt, finishedAt int64
}

// deaths collects what a change does to dead jobs. The counts of their groups are
// written once for the whole change, and not at all without dead jobs.
type deaths struct {
	tx                           *sql.Tx
	from, put, remove, jobs, end *sql.Stmt
	delta                        map[groupKey]int64
}

func (f *file) deathsIn(ctx context.Context, tx *sql.Tx) *deaths {
	return &deaths{
		tx: tx, delta: make(map[groupKey]int64),
		from: tx.StmtContext(ctx, f.deadFrom), put: tx.StmtContext(ctx, f.dead), remove: tx.StmtContext(ctx, f.undead),
		jobs: tx.StmtContext(ctx, f.cause), end: tx.StmtContext(ctx, f.uncause),
	}
}

// change adds the dead jobs among the rows, and removes those that are no longer dead,
// or gone. Rows and gone are ordered by id.
func (d *deaths) change(ctx context.Context, rows []Row, gone []job.ID) error {
	was, err := d.known(ctx, idsOf(rows, gone))
	if err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		if r.State == job.Dead {
			if err := d.dies(ctx, r, was); err != nil {
				return err
			}
		}
	}
	for id, old := range was {
		d.delta[old.groupKey]--
		if _, err := d.remove.ExecContext(ctx, id[:]); err != nil {
			return fmt.Errorf("remove dead job %s: %w", id, err)
		}
	}
	return nil
}

// dies records a dead job and takes it out of was.
func (d *deaths) dies(ctx context.Context, r *Row, was map[job.ID]death) error {
	now := death{groupKey: groupKey{r.Queue, r.generation, r.cause()}, createdAt: r.CreatedAt, finishedAt: r.FinishedAt}
	old, before := was[r.ID]
	if before {
		delete(was, r.ID)
		if old == now {
			return nil
		}
		d.delta[old.groupKey]--
	}
	d.delta[now.groupKey]++
	_, err := d.put.ExecContext(ctx,
		r.ID[:], now.queue, int64(now.generation), int64(now.cause), now.createdAt, now.finishedAt)
	if err != nil {
		return fmt.Errorf("write dead job %s: %w", r.ID, err)
	}
	return nil
}

func idsOf(rows []Row, gone []job.ID) []job.ID {
	ids := make([]job.ID, 0, len(rows)+len(gone))
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	if len(gone) > 0 {
		ids = append(ids, gone...)
		slices.SortFunc(ids, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	}
	return ids
}

// missesMax is how many other dead jobs are skipped before the walk restarts at the next
// id asked for.
const missesMax = 8

// known returns those of the jobs, ordered by id, that the file has as dead. It walks
// only dead jobs: if there are none, one read is enough.
func (d *deaths) known(ctx context.Context, ids []job.ID) (map[job.ID]death, error) {
	found := make(map[job.ID]death)
	var err error
	for len(ids) > 0 && err == nil {
		ids, err = d.walk(ctx, ids, found)
	}
	return found, err
}

// walk goes over dead jobs from the first id on and returns the ids that it did not reach.
func (d *deaths) walk(ctx context.Context, ids []job.ID, found map[job.ID]death) (rest []job.ID, err error) {
	rows, err := d.from.QueryContext(ctx, ids[0][:], ids[len(ids)-1][:])
	if err != nil {
		return nil, fmt.Errorf("look for dead jobs: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for misses := 0; misses < missesMax && rows.Next(); {
		var id sql.RawBytes
		var was death
		if err := rows.Scan(&id, &was.queue, &was.generation, &was.cause, &was.createdAt, &was.finishedAt); err != nil {
			return nil, fmt.Errorf("look for dead jobs: %w", err)
		}
		for len(ids) > 0 && bytes.Compare(ids[0][:], id) < 0 {
			ids = ids[1:]
		}
		misses++
		if len(ids) > 0 && bytes.Equal(ids[0][:], id) {
			found[ids[0]], misses = was, 0
			ids = ids[1:]
		}
		if len(ids) == 0 {
			return nil, nil
		}
		if misses == missesMax {
			return ids, nil
		}
	}
	return nil, rows.Err()
}

// clear removes the dead jobs of a span of ids.
func (d *deaths) clear(ctx context.Context, s span) error {
	groups := query(`SELECT queue, generation, cause, count(*) FROM dead WHERE `+s.where+` GROUP BY 1, 2, 3`, s.args...)
	err := groups.each(ctx, d.tx, "clear dead jobs", func(rows *sql.Rows) (bool, error) {
		var g groupKey
		var jobs int64
		err := rows.Scan(&g.queue, &g.generation, &g.cause, &jobs)
		d.delta[g] -= jobs
		return true, err
	})
	if err != nil {
		return err
	}
	return query(`DELETE FROM dead WHERE `+s.where, s.args...).exec(ctx, d.tx, "clear dead jobs")
}

// count writes how many jobs the groups have, and how many groups the queues.
func (d *deaths) count(ctx context.Context) error {
	type total struct{ groups, jobs int64 }
	queues := make(map[groupKey]total) // The cause is 0.
	for g, delta := range d.delta {
		if delta == 0 {
			continue
		}
		groups, err := d.add(ctx, g, delta)
		if err != nil {
			return err
		}
		q := groupKey{queue: g.queue, generation: g.generation}
		queues[q] = total{queues[q].groups + groups, queues[q].jobs + delta}
	}
	for q, t := range queues {
		if err := d.total(ctx, q, t.groups, t.jobs); err != nil {
			return err
		}
	}
	return nil
}

// add changes the count of a group and returns the change in the number of groups: 1, 0 or
// -1.
func (d *deaths) add(ctx context.Context, g groupKey, delta int64) (more int64, _ error) {
	var jobs int64
	key := []any{int64(g.cause), int64(g.generation)}
	if err := d.jobs.QueryRowContext(ctx, append(key, g.queue, delta)...).Scan(&jobs); err != nil {
		return 0, fmt.Errorf("count cause %s: %w", g.cause, err)
	}
	switch {
	case jobs < 0:
		return 0, fmt.Errorf("%w: %d dead jobs of cause %s", errDamaged, jobs, g.cause)
	case jobs == 0:
		if _, err := d.end.ExecContext(ctx, key...); err != nil {
			return 0, fmt.Errorf("remove cause %s: %w", g.cause, err)
		}
		return -1, nil
	case jobs == delta:
		return 1, nil
	}
	return 0, nil
}

// total changes the totals of a queue's groups.
func (d *deaths) total(ctx context.Context, q groupKey, groups, jobs int64) error {
	key := []any{q.queue, int64(q.generation)}
	_, err := d.tx.ExecContext(ctx, `INSERT INTO dead_total VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET
 causes = causes + excluded.causes, jobs = jobs + excluded.jobs`, append(key, groups, jobs)...)
	if err == nil && jobs < 0 {
		_, err = d.tx.ExecContext(ctx, `DELETE FROM dead_total WHERE queue = ? AND generation = ? AND jobs = 0`, key...)
	}
	if err != nil {
		return fmt.Errorf("count dead jobs of queue %s: %w", q.queue, err)
	}
	return nil
}

// span is a condition on ids.
type span struct {
	where string
	args  []any
}

// spanOf is all ids after from, up to and including to; a zero to is the end.
func spanOf(from, to job.ID) span {
	var all []string
	var s span
	if !from.IsZero() {
		all, s.args = append(all, `id > ?`), append(s.args, from[:])
	}
	if !to.IsZero() {
		all, s.args = append(all, `id <= ?`), append(s.args, to[:])
	}
	if s.where = strings.Join(all, ` AND `); s.where == "" {
		s.where = `true`
	}
	return s
}

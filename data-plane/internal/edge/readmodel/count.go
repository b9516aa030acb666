package readmodel

import (
	"context"
	"database/sql"
	"reflect"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// Count is how many jobs match a filter, exactly or at least.
type Count struct {
	Jobs  int
	Exact bool
}

// countStep entries of an index are counted at a time.
const countStep = 10_001

// count counts the jobs that match f, ignoring its cursor. It reads at most f.CountTo entries
// of an index; if there are more, or the time is spent, the count is not exact. The count of
// a group of dead jobs is stored, and may exceed f.CountTo.
func count(ctx context.Context, db *sql.DB, f *Filter, gone map[string]stateread.DeletedQueue, spent func() bool) (c Count, _ error) {
	if nothing, err := f.isNothing(ctx, db); nothing || err != nil {
		return Count{Exact: err == nil}, err
	}
	if f.isGroup() {
		return countGroup(ctx, db, f, gone)
	}
	byTag, err := leadingTag(ctx, db, f)
	if err != nil {
		return Count{}, err
	}
	var from *Position
	for left := f.CountTo + 1; ; {
		n := min(left, countStep)
		var to *Position
		if n < left {
			if to, err = f.stepEnd(ctx, db, byTag, from, n); err != nil {
				return c, err
			}
		}
		walked, fits, err := countSome(ctx, db, f, gone, byTag, from, to, n)
		if err != nil {
			return c, err
		}
		c.Jobs += fits
		if left -= walked; to == nil || left <= 0 {
			return Count{Jobs: min(c.Jobs, f.CountTo), Exact: left > 0}, nil
		}
		if from = to; spent() {
			return c, nil
		}
	}
}

// countSome counts up to n entries between two positions, and those of them that fit.
func countSome(ctx context.Context, db *sql.DB, f *Filter, gone map[string]stateread.DeletedQueue, byTag int, from, to *Position, n int) (walked, fits int, err error) {
	s := &statement{}
	// By queue and generation, because some of them may be gone.
	s.add(`SELECT queue, generation, state, count(*), sum(fits) FROM (`)
	if f.hasLead(byTag) {
		s.add(`SELECT j.queue, j.generation, j.state, (1`)
		f.conditionsByLead(s, byTag)
		s.add(`) AS fits`)
		f.lead(s, byTag, withJobs)
		f.between(s, "l.", from, to)
	} else {
		for i, st := range f.states() {
			if i > 0 {
				s.add(` UNION ALL `)
			}
			s.add(`SELECT j.queue, j.generation, j.state, (1`)
			f.rest(s, -1)
			s.add(`) AS fits FROM job j `)
			f.in(s, st)
			f.between(s, "j.", from, to)
		}
	}
	s.add(` LIMIT ?) GROUP BY 1, 2, 3`, n)
	err = s.each(ctx, db, "count jobs", func(rows *sql.Rows) (bool, error) {
		var queue string
		var generation uint64
		var st job.State
		var some, fit int
		err := rows.Scan(&queue, &generation, &st, &some, &fit)
		walked += some
		if q, deleted := gone[queue]; !deleted || q.Has(generation, st.Leased()) {
			fits += fit
		}
		return true, err
	})
	return walked, fits, err
}

// isGroup reports whether f matches all jobs of a cause. A new field of Filter counts as a
// condition until it is named here.
func (f *Filter) isGroup() bool {
	none := Filter{
		Cause: f.Cause, Queue: f.Queue, States: f.States, // The cause implies them; otherwise isNothing.
		Ascending: f.Ascending, Limit: f.Limit, Cursor: f.Cursor, CountTo: f.CountTo, AsItIs: f.AsItIs,
	}
	return f.Cause != 0 && reflect.DeepEqual(*f, none)
}

// countGroup reads the count of a cause, which is always exact.
func countGroup(ctx context.Context, db *sql.DB, f *Filter, gone map[string]stateread.DeletedQueue) (c Count, err error) {
	s := query(`SELECT queue, generation, jobs FROM cause WHERE cause = ?`, int64(f.Cause))
	err = s.each(ctx, db, "count cause", func(rows *sql.Rows) (bool, error) {
		g := groupKey{cause: f.Cause}
		var jobs int
		err := rows.Scan(&g.queue, &g.generation, &jobs)
		if !g.isGone(gone) && (f.Queue == "" || f.Queue == g.queue) {
			c.Jobs += jobs
		}
		return true, err
	})
	c.Exact = true
	return c, err
}

// states are the states that f selects.
func (f *Filter) states() []job.State {
	if len(f.States) == 0 {
		return job.States()
	}
	return f.States
}

// in picks the index that lists the jobs in a state.
func (f *Filter) in(s *statement, st job.State) {
	if f.Queue != "" {
		s.add(`INDEXED BY job_by_queue WHERE j.queue = ? AND j.state = ?`, f.Queue, int64(st))
		return
	}
	s.add(`INDEXED BY job_by_state WHERE j.state = ?`, int64(st))
}

// conditionsByLead are all conditions that the walk over one tag or cause must
// check.
func (f *Filter) conditionsByLead(s *statement, tag int) {
	if f.Queue != "" {
		s.add(` AND j.queue = ?`, f.Queue)
	}
	if len(f.States) > 0 {
		s.add(` AND j.state IN (?` + strings.Repeat(`,?`, len(f.States)-1) + `)`)
		for _, st := range f.States {
			s.args = append(s.args, int64(st))
		}
	}
	f.rest(s, tag)
}

package readmodel

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

const (
	// freshWait is how long a query waits for what was committed before it; after
	// that it answers with what there is, and how late that is.
	freshWait = 500 * time.Millisecond
	// lateMax is for how long something may have been missing that is still waited for: a
	// projector that did not get to it in that time will not in freshWait.
	lateMax = time.Second
	// mendWait is the same for a file that is being rebuilt: a small one is complete by
	// then.
	mendWait = 200 * time.Millisecond
	// queryMax interrupts a query: its first step, or what is not read in steps, took so long.
	queryMax = 3 * time.Second
)

// Page is part of a list.
type Page struct {
	Rows   []Row
	Cursor string // Continues the list; "" at its end.
	// AsOf is the time as of which the page is true.
	AsOf time.Time
	Lag  time.Duration
	// Rebuilding: jobs may be missing or out of date, for as long as Lag.
	Rebuilding bool
	// Progress of the rebuild: jobs done, and about how many there are.
	Rebuilt, ToRebuild uint64
	// Total is of all pages, if Filter.CountTo asked for it.
	Total Count
}

// Exact reports whether the page agrees with the state: it is neither late nor being
// rebuilt.
func (p *Page) Exact() bool { return !p.Rebuilding && p.Lag == 0 }

// List reads a page of the namespace's jobs. ErrCursor and ErrOtherFilter are for
// bad cursors.
func (p *Projector) List(ctx context.Context, ns job.Namespace, by Reader, f *Filter) (Page, error) {
	m, err := feed.MarkOf(p.store, ns)
	if err != nil {
		return Page{}, err
	}
	if _, err := f.position(); err != nil {
		return Page{}, err
	}
	if f.AsItIs {
		m.Seq = 0
	}
	page := p.freshen(ctx, ns, m.Seq)
	// The rows of a deleted queue are removed as its jobs are swept; until then they
	// are not shown.
	gone, err := stateread.ReadDeletedQueues(p.store, ns)
	if err != nil {
		return Page{}, err
	}
	var got found
	err = p.query(ctx, ns, by, func(ctx context.Context, db *sql.DB, spent func() bool) error {
		if got, err = list(ctx, db, f, gone, spent); err != nil || f.CountTo == 0 {
			return err
		}
		if f.Cursor == "" && !got.more {
			page.Total = Count{Jobs: len(got.rows), Exact: true}
			return nil
		}
		if !spent() {
			page.Total, err = count(ctx, db, f, gone, spent)
		}
		if ctx.Err() != nil {
			page.Total.Exact, err = false, nil // The page is good without its total.
		}
		page.Total.Jobs = max(page.Total.Jobs, len(got.rows))
		return err
	})
	if err != nil {
		return Page{}, err
	}
	page.Rows = got.rows
	if got.more {
		page.Cursor = got.next.encode(f)
	}
	return page, nil
}

// query reads the file of a namespace, which has at least what was projected into it. Once
// spent, the time of the reader is over, and read ends after the step under way.
func (p *Projector) query(ctx context.Context, ns job.Namespace, by Reader, read func(_ context.Context, _ *sql.DB, spent func() bool) error) error {
	least := p.look(ns).seq
	var reading context.Context
	err := p.models.query(ctx, ns, by, func(file *file) error {
		until := time.Now().Add(p.models.timeOf(by))
		var cancel context.CancelFunc
		reading, cancel = context.WithTimeout(ctx, queryMax)
		defer cancel()
		if err := file.reaches(reading, least); err != nil {
			return err
		}
		return read(reading, file.read, func() bool { return !time.Now().Before(until) })
	})
	if err = damagedBy(err); err != nil {
		return p.refuse(reading, ns, err)
	}
	return nil
}

// refuse translates the error of a failed query for the caller; ctx is that of the reading,
// nil if it did not come to that.
func (p *Projector) refuse(ctx context.Context, ns job.Namespace, err error) error {
	if errors.Is(err, errDamaged) {
		p.logger.Warn("a query met a damaged read model", "namespace", ns, "err", err)
		p.update(ns, func(t *track) { t.damaged = true })
		p.wake()
		return fault.New(fault.Unavailable, "REBUILDING", "the list of jobs is being rebuilt; try again in a moment")
	}
	if ctx != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Exhausted, "SEARCH_TOO_BROAD", "the search took longer than %s; add a queue, state, tag or time", queryMax)
	}
	return err
}

// freshen waits until the file has the event seq, if that is to be expected in a moment, and
// says how late it is.
func (p *Projector) freshen(ctx context.Context, ns job.Namespace, seq uint64) Page {
	limit, mended := time.NewTimer(p.models.freshWait), time.NewTimer(p.models.mendWait)
	defer limit.Stop()
	defer mended.Stop()
	for patient := true; ; {
		p.mu.Lock()
		round, begun := p.round, p.begun
		var t track
		if known := p.tracks[ns]; known != nil {
			t = *known
		}
		p.mu.Unlock()
		now := p.models.now()
		if t.seq >= seq && t.whole() && (t.known || seq == 0) {
			return Page{AsOf: now}
		}
		since, err := p.since(ns, &t, begun, now)
		if err != nil {
			p.logger.Warn("can't tell how late a list is", "namespace", ns, "err", err)
		}
		p.wake()
		if !patient || t.isFar() || now.Sub(latest(since, begun)) > lateMax {
			return t.latePage(since, now)
		}
		giveUp := limit.C
		if t.rebuilding {
			giveUp = mended.C
		}
		select {
		case <-round:
		case <-giveUp:
			patient = false
		case <-ctx.Done():
			patient = false
		}
	}
}

// isFar reports whether a rebuild takes longer than anybody waits: a small one is over after
// its next slice.
func (t *track) isFar() bool { return t.rebuilding && t.left() > sliceMax }

// latePage is what a page says whose rows have missed something since then.
func (t *track) latePage(since, now time.Time) Page {
	lag := max(now.Sub(since), time.Millisecond)
	return Page{AsOf: now.Add(-lag), Lag: lag, Rebuilding: !t.whole() || !t.known, Rebuilt: min(t.rebuilt, t.jobs), ToRebuild: t.jobs}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wake asks for a round at once.
func (p *Projector) wake() {
	select {
	case p.hurry <- struct{}{}:
	default: // It was already asked for.
	}
}

package readmodel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/notify"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

const (
	// gatherFor is how long changes are gathered, so that a job that goes through
	// several states meanwhile is written once.
	gatherFor = 500 * time.Millisecond
	// hurriedGap is the least time between two rounds that queries asked for.
	hurriedGap = 10 * time.Millisecond
	// turnMax is how many events of a namespace are read at a time; one entry may exceed it. That
	// is enough for a late projector to see the whole life of most jobs at once, and fits into 2 MB.
	turnMax = 16384
	// turnTime is after how long a turn ends with the slice under way, so that other namespaces
	// get theirs: on a saturated node each slice is followed by a rest.
	turnTime = 250 * time.Millisecond
	// sliceMax is how many rows one transaction writes before others get the processor.
	sliceMax = 1000
	// bulkMax is the same for a namespace that is far behind: more rows share pages and a commit,
	// and nobody waits for a single one of them.
	bulkMax = 4000
	// surveyMax is how many namespaces one step checks after leadership was won.
	surveyMax = 64
	// retryAfter is the pause after a file could not be written.
	retryAfter = 5 * time.Second
)

// Projector keeps the read models of one shard's namespaces while this node leads
// the shard. One goroutine, Run, does all writing, so the feed and a rebuild never
// write a row at the same time.
type Projector struct {
	store  *statedb.Group
	hub    *notify.Hub
	models *Dir
	logger *slog.Logger
	hurry  chan struct{} // A query waits for a round.

	// Only Run uses these.
	surveyed job.Namespace // Every namespace up to here was checked in this term.
	ended    time.Time     // Of the last round.
	ahead    *ahead        // What the last turn began to read for the next one; may be nil.

	mu     sync.Mutex // Guards the rest.
	begun  time.Time  // When the term began.
	tracks map[job.Namespace]*track
	late   map[job.Namespace]struct{} // With events that are not in their rows.
	// surveying: there may be namespaces of which nothing is known yet in this term.
	surveying bool
	round     chan struct{} // Closed after each round.
}

// track is what is known of a namespace's file.
type track struct {
	mark
	known   bool // The file's mark was read, in this process.
	behind  bool // Events before those of the next round are missing.
	damaged bool // A query found that the file cannot be read.
	again   time.Time
	// events are read at first in the next turn; 0 is turnMax. After a turn that took too long
	// they are as many as it wrote, so that none is read in vain again and again.
	events int
}

// left is how many jobs a rebuild has still to read.
func (t *track) left() uint64 { return max(t.jobs, t.rebuilt) - t.rebuilt }

// whole reports whether the rows are complete up to the mark.
func (t *track) whole() bool { return !t.behind && !t.rebuilding && !t.damaged }

// missing is for how long the rows have been incomplete: at least a millisecond, so that
// it is never shown as 0.
func (t *track) missing(now time.Time) time.Duration {
	if t.whole() {
		return 0
	}
	return max(now.Sub(time.Unix(0, t.since)), time.Millisecond)
}

// note keeps since: it is called after every change of the track.
func (t *track) note(now time.Time) {
	switch {
	case t.whole():
		t.since = 0
	case t.since == 0:
		t.since = now.UnixNano()
	}
}

// NewProjector makes the projector of a shard over its committed state. hub tells
// it of new events.
func NewProjector(models *Dir, store *statedb.Group, hub *notify.Hub, logger *slog.Logger) *Projector {
	models.pace.heed(hub.Count)
	return &Projector{
		store: store, hub: hub, models: models, logger: logger.With("shard", store.ID()),
		hurry: make(chan struct{}, 1), tracks: make(map[job.Namespace]*track), late: make(map[job.Namespace]struct{}), round: make(chan struct{}),
	}
}

// Run projects until ctx ends. It is called for each term of leadership, and keeps
// what it learned from one to the next.
func (p *Projector) Run(ctx context.Context) {
	p.begin()
	defer p.dropAhead() // Nothing is read any more once the term is over.
	for ctx.Err() == nil {
		busy, err := p.step(ctx)
		if err != nil && ctx.Err() == nil {
			p.logger.Error("the read model does not advance", "err", err)
			sleep(ctx, retryAfter)
		}
		if !busy {
			p.wait(ctx)
		}
	}
}

// Lag is for how long the lists of the shard have been incomplete: the age of the oldest
// event that is not in the rows, or of a rebuild, whichever is older. It is never 0 while
// something is missing, or may be. It is meaningful only on the node that leads.
func (p *Projector) Lag(now time.Time) (lag time.Duration, err error) {
	tracks := make(map[job.Namespace]track)
	for _, ns := range p.hub.Noted() {
		tracks[ns] = track{} // Unless it is known already.
	}
	p.mu.Lock()
	begun, surveying := p.begun, p.surveying
	for ns := range p.late {
		tracks[ns] = track{}
	}
	for ns, t := range p.tracks {
		tracks[ns] = *t
	}
	p.mu.Unlock()
	for ns, t := range tracks {
		since, err := p.since(ns, &t, begun, now)
		if err != nil {
			return 0, err
		}
		lag = max(lag, now.Sub(since))
	}
	if surveying {
		lag = max(lag, now.Sub(begun), time.Millisecond)
	}
	return lag, nil
}

// since is when the rows of a namespace began to miss something; now if they miss nothing. Of
// a file that was not opened yet it is only known that this term has not projected into it.
func (p *Projector) since(ns job.Namespace, t *track, begun, now time.Time) (time.Time, error) {
	first := now
	_, err := feed.Walk(p.store, ns, t.seq, func(row *feed.Row) bool {
		first = time.Unix(0, row.Now)
		return false
	})
	if !t.known && first.Before(begun) {
		first = begun
	}
	if missing := now.Add(-t.missing(now)); missing.Before(first) {
		first = missing
	}
	return first, err
}

// Read is the number of the last event of a namespace that is in its rows, as far as is
// known.
func (p *Projector) Read(ns job.Namespace) uint64 { return p.look(ns).seq }

// begin starts a term with what happens from now on; what happened before is found by the
// survey, namespace by namespace.
func (p *Projector) begin() {
	p.surveyed = job.Namespace{}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun, p.surveying = p.models.now(), true
	for _, t := range p.tracks {
		t.behind = true // Another node may have led in between.
		t.note(p.begun)
	}
}

// step does one piece of each kind of work and reports whether there is more to do.
func (p *Projector) step(ctx context.Context) (busy bool, err error) {
	more, err := p.roundOnce(ctx)
	if err != nil {
		return false, err
	}
	surveying, err := p.survey(ctx)
	if err != nil {
		return false, err
	}
	return p.mend(ctx) || more || surveying, nil
}

// wait sleeps until there is something to do, gathering for a while.
func (p *Projector) wait(ctx context.Context) {
	again := p.nextRetry()
	select {
	case <-p.hub.Any():
		gather := time.NewTimer(time.Until(p.ended.Add(gatherFor)))
		defer gather.Stop()
		select {
		case <-gather.C:
			return
		case <-p.hurry:
		case <-ctx.Done():
			return
		}
	case <-p.hurry:
	case <-again:
		return
	case <-ctx.Done():
		return
	}
	sleep(ctx, time.Until(p.ended.Add(hurriedGap)))
}

// nextRetry fires when a file that could not be written is due for a retry.
func (p *Projector) nextRetry() <-chan time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first time.Time
	for _, t := range p.tracks {
		if !t.again.IsZero() && (first.IsZero() || t.again.Before(first)) {
			first = t.again
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(time.Until(first))
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// roundOnce gives each namespace with new events a turn; more means that some need
// another one.
func (p *Projector) roundOnce(ctx context.Context) (more bool, err error) {
	for _, ns := range p.news() {
		all, err := p.turn(ctx, ns)
		if err != nil {
			return false, err
		}
		if all {
			p.mu.Lock()
			delete(p.late, ns)
			p.mu.Unlock()
		}
	}
	p.ended = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.round)
	p.round = make(chan struct{})
	return len(p.late) > 0, nil
}

// news adds the namespaces with new events to those that are late, and lists all.
func (p *Projector) news() []job.Namespace {
	taken := p.hub.Take()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ns := range taken {
		p.late[ns] = struct{}{}
	}
	return slices.Collect(maps.Keys(p.late))
}

// turn writes the next events of one namespace into its file, and reports whether these are
// all. If they do not follow what the file has, it is marked behind, and mend does the rest.
func (p *Projector) turn(ctx context.Context, ns job.Namespace) (all bool, err error) {
	t, err := p.meet(ctx, ns)
	if err != nil || !t.known {
		return true, err
	}
	if t.behind || time.Now().Before(t.again) {
		p.update(ns, func(t *track) { t.behind = true })
		return true, nil
	}
	all, lost, _, err := p.follow(ctx, ns, t)
	if lost {
		p.update(ns, func(t *track) { t.behind = true })
	}
	return all || lost, err
}

// follow writes the jobs of the next events of a namespace, a part at a time, and reads the next
// part meanwhile. Each part moves the mark to its last event, and counts the events up to it. At least
// one is written; all tells that the time of the turn was enough for all. If events that follow are
// no longer kept, they are lost, and from is when the oldest that is kept happened.
func (p *Projector) follow(ctx context.Context, ns job.Namespace, t track) (all, lost bool, from int64, err error) {
	began, first := p.models.now(), t.seq
	a := p.takeAhead(ctx, ns, &t)
	defer func() {
		if all || err != nil {
			a.drop()
			return
		}
		p.ahead = a
	}()
	for {
		r := a.take()
		if r.err != nil || r.lost || r.change == nil {
			return true, r.lost, r.from, r.err
		}
		late := p.models.now().Sub(began) >= turnTime
		if !r.last && !(late && p.othersLate()) {
			a.read()
		}
		c := r.change
		c.mark, c.was = t.mark, t.seq
		c.mark.seq = r.seq
		if ok, err := p.writePart(ctx, ns, c); !ok || err != nil {
			return false, false, 0, err
		}
		t.mark = c.mark
		switch {
		case r.last:
			p.update(ns, func(t *track) { t.events = turnMax })
			return true, false, 0, nil
		case late:
			p.update(ns, func(t *track) { t.events = int(min(t.seq-first, turnMax)) })
			return false, false, 0, nil
		}
	}
}

// othersLate tells that more than one namespace has events that are not in its rows.
func (p *Projector) othersLate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.late) > 1
}

func (p *Projector) writePart(ctx context.Context, ns job.Namespace, c *change) (ok bool, err error) {
	defer p.models.pace.begin(ctx).end()
	return p.apply(ctx, ns, c)
}

// apply writes one change; ok is false if that failed, which is then recorded in
// the track.
func (p *Projector) apply(ctx context.Context, ns job.Namespace, c *change) (ok bool, err error) {
	f, err := p.models.take(ctx, ns)
	if err == nil {
		err = f.apply(ctx, c)
		p.models.giveBack(f)
	}
	if err != nil {
		return false, p.failed(ctx, ns, err)
	}
	p.update(ns, func(t *track) { t.mark, t.again = c.mark, time.Time{} })
	return true, nil
}

// failed decides what to do with a file that could not be read or written. Only the
// end of ctx is an error: one bad file must not stop the others.
func (p *Projector) failed(ctx context.Context, ns job.Namespace, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errRetired) {
		p.mu.Lock()
		delete(p.tracks, ns)
		p.mu.Unlock()
		return nil
	}
	if errors.Is(err, errDamaged) {
		p.logger.Warn("a read model is damaged and will be rebuilt", "namespace", ns, "err", err)
		if derr := p.models.discard(ns); derr != nil {
			err = errors.Join(err, derr)
		} else {
			p.update(ns, func(t *track) { *t = track{behind: true, mark: mark{since: t.since}} })
			return nil
		}
	}
	p.logger.Warn("a read model can not be written; trying again", "namespace", ns, "err", err)
	p.update(ns, func(t *track) { t.behind, t.again = true, time.Now().Add(retryAfter) })
	return nil
}

// meet returns the track of ns, reading the file's mark the first time.
func (p *Projector) meet(ctx context.Context, ns job.Namespace) (track, error) {
	t := p.look(ns)
	if t.known || time.Now().Before(t.again) {
		return t, nil
	}
	f, err := p.models.take(ctx, ns)
	var m mark
	if err == nil {
		m, err = f.mark(ctx)
		p.models.giveBack(f)
	}
	if err != nil {
		return track{}, p.failed(ctx, ns, err)
	}
	p.update(ns, func(t *track) {
		if !m.rebuilding { // What it says is of a time before it was whole.
			m.since = t.since
		}
		*t = track{mark: m, known: true, behind: t.behind}
	})
	return p.look(ns), nil
}

func (p *Projector) look(ns job.Namespace) track {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.tracks[ns]; t != nil {
		return *t
	}
	return track{}
}

func (p *Projector) update(ns job.Namespace, f func(*track)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tracks[ns]
	if t == nil {
		t = new(track)
		p.tracks[ns] = t
	}
	f(t)
	t.note(p.models.now())
}

// survey compares some namespaces of the state with their files.
func (p *Projector) survey(ctx context.Context) (more bool, err error) {
	if !p.surveying { // Nobody else writes it.
		return false, nil
	}
	list, err := stateread.ReadNamespaces(p.store, p.surveyed, surveyMax)
	if err != nil {
		return false, fmt.Errorf("list namespaces: %w", err)
	}
	for _, ns := range list {
		t, err := p.meet(ctx, ns)
		if err != nil {
			return false, err
		}
		m, err := feed.MarkOf(p.store, ns)
		if err != nil {
			return false, err
		}
		if !t.known && p.models.isRetired(ns) {
			p.surveyed = ns
			continue
		}
		p.update(ns, func(up *track) { up.behind = !t.known || t.seq != m.Seq || m.Seq == 0 })
		p.surveyed = ns
	}
	more = len(list) == surveyMax
	p.mu.Lock()
	p.surveying = more
	p.mu.Unlock()
	return more, nil
}

// mend takes one step with each namespace that is behind or being rebuilt, and
// reports whether there is more to do now.
func (p *Projector) mend(ctx context.Context) (more bool) {
	for _, ns := range p.unwell() {
		if ctx.Err() != nil {
			return false
		}
		if err := p.mendOne(ctx, ns); err != nil && ctx.Err() == nil {
			p.logger.Warn("a read model is behind; trying again", "namespace", ns, "err", err)
			p.update(ns, func(t *track) { t.again = time.Now().Add(retryAfter) })
		}
	}
	return len(p.unwell()) > 0
}

// unwell lists the namespaces that need mending and are due, those with the fewest jobs to
// read first: a small one is complete after one slice, and does not wait for a large one.
func (p *Projector) unwell() []job.Namespace {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []job.Namespace
	now := time.Now()
	for ns, t := range p.tracks {
		if (t.behind || t.rebuilding || t.damaged) && now.After(t.again) {
			out = append(out, ns)
		}
	}
	slices.SortFunc(out, func(a, b job.Namespace) int {
		return cmp.Or(cmp.Compare(p.tracks[a].left(), p.tracks[b].left()), bytes.Compare(a[:], b[:]))
	})
	return out
}

func (p *Projector) mendOne(ctx context.Context, ns job.Namespace) error {
	if p.look(ns).damaged {
		return p.failed(ctx, ns, errDamaged)
	}
	t, err := p.meet(ctx, ns)
	if err != nil || !t.known {
		return err
	}
	if t.behind {
		if err := p.catchUp(ctx, ns, t); err != nil {
			return err
		}
		// The first slice at once: then a small namespace is complete.
		if t = p.look(ns); t.behind || !t.rebuilding || !t.rebuiltTo.IsZero() {
			return nil
		}
	}
	return p.rebuildSlice(ctx, ns, t)
}

// catchUp reads the namespace's events after its file's mark. If they are gone, the
// file is rebuilt.
func (p *Projector) catchUp(ctx context.Context, ns job.Namespace, t track) error {
	if t.seq == 0 {
		return p.beginRebuild(ctx, ns)
	}
	all, lost, from, err := p.follow(ctx, ns, t)
	switch {
	case err != nil:
		return err
	case lost:
		// What is missing is older than the oldest event that is kept.
		p.update(ns, func(t *track) { t.since = min(t.since, cmp.Or(from, t.since)) })
		return p.beginRebuild(ctx, ns)
	case all:
		p.update(ns, func(t *track) { t.behind, t.again = false, time.Time{} })
	}
	return nil
}

// beginRebuild marks the file as being filled from the state. The mark is read
// before any job, so that the jobs show all changes up to it.
func (p *Projector) beginRebuild(ctx context.Context, ns job.Namespace) error {
	m, err := feed.MarkOf(p.store, ns)
	if err != nil {
		return err
	}
	total, err := p.jobsOf(ns)
	if err != nil {
		return err
	}
	ok, err := p.apply(ctx, ns, &change{mark: mark{seq: m.Seq, rebuilding: true, rebuiltFrom: m.At, jobs: total, since: p.look(ns).since}, newMinutes: true, anyhow: true})
	if ok {
		p.logger.Info("a read model is being rebuilt", "namespace", ns)
		p.update(ns, func(t *track) { t.behind = false })
	}
	return err
}

// jobsOf is how many jobs a rebuild has to read, from the queues' counters.
func (p *Projector) jobsOf(ns job.Namespace) (n uint64, err error) {
	queues, err := stateread.ReadQueues(p.store, ns)
	for i := range queues {
		for _, jobs := range queues[i].Counts.Jobs {
			n += uint64(max(jobs, 0))
		}
	}
	return n, err
}

// rebuildSlice replaces the rows of the next jobs from the state.
func (p *Projector) rebuildSlice(ctx context.Context, ns job.Namespace, t track) error {
	piece := p.models.pace.begin(ctx)
	piece.least = shareRebuild
	defer piece.end()
	c := change{mark: t.mark, was: t.seq, clear: true, clearFrom: t.rebuiltTo}
	to, last, err := stateread.NewHeadReader(p.store).JobsAfter(ns, t.rebuiltTo, sliceOf(t.isFar() && !t.rebuiltTo.IsZero()), func(id job.ID, h *records.Head, b *records.Body) error {
		r, err := rowFrom(p.store, ns, id, h, b)
		c.rows = append(c.rows, r)
		return err
	})
	if err != nil {
		return err
	}
	for i := range c.rows {
		c.minutes.row(&c.rows[i], t.rebuiltFrom)
	}
	if last {
		c.mark = mark{seq: t.seq}
	} else {
		c.clearTo, c.mark.rebuiltTo = to, to
		c.mark.rebuilt += uint64(len(c.rows))
	}
	ok, err := p.apply(ctx, ns, &c)
	if ok && last {
		p.logger.Info("a read model is rebuilt", "namespace", ns)
	}
	return err
}

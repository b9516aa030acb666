package metering

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	shardPrefix = "shard/"
	// horizon is how many hours after its closing an hour takes corrections. Shards keep
	// theirs for 40 days.
	horizon = 40 * 24
	// numberMax is a petabyte-hour. What is larger can't be, and sums of smaller ones of a
	// month fit.
	numberMax = 1 << 50
)

// Problems of alarms.
const (
	Decrease   = "decrease"   // Less than before, within an epoch.
	Impossible = "impossible" // Negative, or too large.
	TooLate    = "too_late"   // Of an hour that takes no corrections any more.
)

// Reading is what a source says it counted in an hour of a namespace so far.
type Reading struct {
	store.UsageKey
	Seq int64
	store.Counts
	// Of a shard, at the time of the reading.
	OpenJobs, StoredBytes int64
}

// Said is a part of what a source says at a time.
type Said struct {
	Cell, Source, Epoch string
	Readings            []Reading
	// Position, with the last part: up to where the source has told everything.
	Position *Position
}

// Position is where a source is asked on, and up to when it is complete.
type Position struct {
	Seq        int64
	CompleteTo time.Time
}

// Taken is what Take made of it.
type Taken struct {
	// Ended: the epoch is one that another has followed, so nothing was taken.
	Ended bool
	// Changed and Revised count readings and rows of the ledger; Alarms is what can't be.
	Changed, Revised int
	Alarms           []store.UsageAlarm
}

func (s Said) shard() bool { return strings.HasPrefix(s.Source, shardPrefix) }

// Take writes readings. It may be repeated.
func Take(ctx context.Context, tx *store.Tx, s Said, now time.Time) (Taken, error) {
	ended, err := begin(ctx, tx, s, now)
	if err != nil || ended {
		return Taken{Ended: ended}, err
	}
	closing, err := tx.GetUsageClosing(ctx, s.Cell)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Taken{}, err
	}
	t := &taking{Said: s, closing: closing, now: now, rows: make(map[rowKey]*store.UsageReading), changed: make(map[rowKey]bool), levels: make(map[string]store.UsageLevel)}
	if err := t.load(ctx, tx); err != nil {
		return Taken{}, err
	}
	for _, r := range s.Readings {
		t.take(r)
	}
	return t.write(ctx, tx)
}

// begin makes an epoch known. One of a shard ends those before it.
func begin(ctx context.Context, tx *store.Tx, s Said, now time.Time) (ended bool, _ error) {
	known, err := tx.GetUsageSource(ctx, s.Cell, s.Source, s.Epoch)
	if err == nil {
		return known.Ended, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	if s.shard() {
		if _, err := tx.EndUsageEpochs(ctx, s.Cell, s.Source, s.Epoch); err != nil {
			return false, err
		}
	}
	return false, tx.PutUsageSource(ctx, store.UsageSource{Cell: s.Cell, Source: s.Source, Epoch: s.Epoch, HeardAt: now})
}

type rowKey struct {
	store.UsageKey
	cell, source, epoch string
}

// taking is one Take at work.
type taking struct {
	Said
	closing store.UsageClosing
	now     time.Time
	rows    map[rowKey]*store.UsageReading // Of all sources, of the hours that are told of.
	changed map[rowKey]bool
	levels  map[string]store.UsageLevel
	Taken
}

func (t *taking) load(ctx context.Context, tx *store.Tx) error {
	var hours []store.UsageKey
	seen := make(map[store.UsageKey]bool)
	for _, r := range t.Readings {
		if !seen[r.UsageKey] {
			seen[r.UsageKey], hours = true, append(hours, r.UsageKey)
		}
	}
	known, err := tx.UsageReadings(ctx, hours)
	for _, r := range known {
		t.rows[rowKey{r.UsageKey, r.Cell, r.Source, r.Epoch}] = &r
	}
	return err
}

func (t *taking) take(r Reading) {
	switch {
	case r.Hour < t.closing.Hour-horizon:
		t.alarm(r, TooLate)
		return
	case !possible(r.Counts):
		t.alarm(r, Impossible)
		return
	}
	t.level(r)
	key := rowKey{r.UsageKey, t.Cell, t.Source, t.Epoch}
	row := t.rows[key]
	if row == nil {
		row = &store.UsageReading{UsageKey: r.UsageKey, Cell: t.Cell, Source: t.Source, Epoch: t.Epoch, Seq: r.Seq, Counts: r.Counts, Base: t.base(r)}
		t.rows[key], t.changed[key] = row, true
		return
	}
	if r.Seq > row.Seq && less(r.Counts, row.Counts) || r.Seq < row.Seq && less(row.Counts, r.Counts) {
		t.alarm(r, Decrease)
	}
	counts, seq := largest(row.Counts, r.Counts), max(row.Seq, r.Seq)
	if counts != row.Counts || seq != row.Seq {
		row.Counts, row.Seq, t.changed[key] = counts, seq, true
	}
}

// base is what of the first reading of an epoch was counted before.
func (t *taking) base(first Reading) (base store.Counts) {
	if !t.shard() {
		return base
	}
	for key, row := range t.rows {
		if key.UsageKey == first.UsageKey && key.cell == t.Cell && key.source == t.Source && key.epoch != t.Epoch {
			base = largest(base, largest(first.Counts, row.Counts))
		}
	}
	return base
}

func (t *taking) level(r Reading) {
	if !t.shard() {
		return
	}
	if at, has := t.levels[r.NamespaceID]; has && (at.Hour > r.Hour || at.Hour == r.Hour && at.Seq > r.Seq) {
		return
	}
	t.levels[r.NamespaceID] = store.UsageLevel{TenantID: r.TenantID, NamespaceID: r.NamespaceID, Hour: r.Hour, Seq: r.Seq, OpenJobs: r.OpenJobs, StoredBytes: r.StoredBytes}
}

func (t *taking) alarm(r Reading, problem string) {
	t.Alarms = append(t.Alarms, store.UsageAlarm{UsageKey: r.UsageKey, Cell: t.Cell, Source: t.Source, Epoch: t.Epoch, Problem: problem})
}

func (t *taking) write(ctx context.Context, tx *store.Tx) (Taken, error) {
	var rows []store.UsageReading
	var levels []store.UsageLevel
	var tenants []string
	var late []store.UsageKey
	for key := range t.changed {
		rows = append(rows, *t.rows[key])
		tenants = append(tenants, key.TenantID)
		if t.closing.Closed(key.TenantID, key.Hour) {
			late = append(late, key.UsageKey)
		}
	}
	for _, l := range t.levels {
		levels = append(levels, l)
	}
	// One order in all transactions, so that two never wait for each other.
	slices.SortFunc(rows, func(a, b store.UsageReading) int { return compareKeys(a.UsageKey, b.UsageKey) })
	slices.SortFunc(levels, func(a, b store.UsageLevel) int { return cmp.Compare(a.NamespaceID, b.NamespaceID) })
	slices.SortFunc(late, compareKeys)
	slices.Sort(tenants)
	t.Changed = len(rows)
	err := errors.Join(tx.PutUsageReadings(ctx, rows), tx.PutUsageLevels(ctx, levels), tx.TouchUsage(ctx, slices.Compact(tenants), t.now))
	for _, a := range t.Alarms {
		if err == nil {
			err = tx.NoteUsageAlarm(ctx, a, t.now)
		}
	}
	if err == nil {
		err = t.revise(ctx, tx, late)
	}
	if err == nil && t.Position != nil {
		err = tx.PutUsageSource(ctx, store.UsageSource{Cell: t.Cell, Source: t.Source, Epoch: t.Epoch, Seq: t.Position.Seq, CompleteTo: t.Position.CompleteTo, HeardAt: t.now})
	}
	return t.Taken, err
}

// revise writes what closed hours count now.
func (t *taking) revise(ctx context.Context, tx *store.Tx, late []store.UsageKey) error {
	written, err := tx.UsageRevisions(ctx, late)
	if err != nil {
		return err
	}
	newest := make(map[store.UsageKey]store.UsageHour)
	for _, h := range written { // In the order of their revisions.
		newest[h.UsageKey] = h
	}
	for _, key := range late {
		was, has := newest[key]
		row := store.UsageHour{UsageKey: key, Counts: t.total(key), ClosedAt: t.now}
		if has {
			row.Revision = was.Revision + 1
		}
		if row.Counts == was.Counts {
			continue
		}
		if err := tx.ReviseUsage(ctx, row, minus(row.Counts, was.Counts)); err != nil {
			return err
		}
		t.Revised++
	}
	return nil
}

// total is what all sources' readings of an hour count; see store.CloseUsage.
func (t *taking) total(key store.UsageKey) (total store.Counts) {
	peaks := make(map[string]int64)
	for k, row := range t.rows {
		if k.UsageKey != key {
			continue
		}
		over := minus(largest(row.Counts, row.Base), row.Base)
		peaks[k.source] = max(peaks[k.source], over.StreamsPeak)
		over.StreamsPeak = 0
		total = plus(total, over)
	}
	for _, p := range peaks {
		total.StreamsPeak += p
	}
	return total
}

func compareKeys(a, b store.UsageKey) int {
	return cmp.Or(cmp.Compare(a.TenantID, b.TenantID), cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.NamespaceID, b.NamespaceID))
}

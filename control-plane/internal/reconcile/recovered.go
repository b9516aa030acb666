package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
)

// A cell that lost most of its nodes may go on from one folder, under a new id. It may lack
// what it had confirmed, so nothing that was observed of it counts until it was compared
// with the database and everything that differs was written again.

const (
	// cellSetting and a cell's name hold the cell's id and those that it replaced, as they
	// were last seen.
	cellSetting = "cell/seen/"
	// evenSetting and a cell's name hold the id under which the cell has had everything.
	evenSetting = "cell/even/"
)

// ReplacedError says that the nodes that answer are of a cell from before its recovery.
type ReplacedError struct{ Cell, ID, Now string }

// Error implements error.
func (e *ReplacedError) Error() string {
	return fmt.Sprintf("the nodes of cell %s that answer belong to %s, which was replaced by %s when it was recovered; nothing is written to them: stop them", e.Cell, e.ID, e.Now)
}

// meet compares the cell that answers with the one that answered before.
func meet(ctx context.Context, tx *store.Tx, name string, knows celladmin.Control, now time.Time) error {
	seen, err := textSetting(ctx, tx, cellSetting+name)
	ids := strings.Fields(seen)
	switch {
	case err != nil || knows.CellID == "" || len(ids) > 0 && ids[0] == knows.CellID:
		return err
	case slices.Contains(ids, knows.CellID):
		return &ReplacedError{Cell: name, ID: knows.CellID, Now: ids[0]}
	}
	if len(ids) == 0 {
		err = tx.PutSetting(ctx, evenSetting+name, knows.CellID, now)
	} else {
		err = forgetActs(ctx, tx, name, now)
	}
	line := append([]string{knows.CellID}, knows.Replaced...)
	return errors.Join(err, tx.PutSetting(ctx, cellSetting+name, strings.Join(line, " "), now))
}

// forgetActs takes a cell's acts from its first one on, because it counts them anew. One that is
// in the audit log already has the same id there.
func forgetActs(ctx context.Context, tx *store.Tx, cell string, now time.Time) error {
	names, err := tx.SettingNames(ctx, actsSetting+cell+"/")
	for _, n := range names {
		err = errors.Join(err, tx.PutSetting(ctx, n, "0", now))
	}
	return err
}

func textSetting(ctx context.Context, tx *store.Tx, name string) (string, error) {
	text, err := tx.GetSetting(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return text, err
}

// refill is when a recovered cell is compared next.
type refill struct {
	due   time.Time
	pause time.Duration
}

// refillRecovered writes what a recovered cell lacks, and goes on until nothing differs.
func (l *Loop) refillRecovered(ctx context.Context, name string, cell Cell) error {
	g, _ := l.guarded(name)
	id := g.knows.CellID
	even, err := store.Get(ctx, l.store.ReadService, func(tx *store.Tx) (string, error) { return textSetting(ctx, tx, evenSetting+name) })
	if err != nil || even == id {
		return err
	}
	v, begun := l.refills.Load(name)
	next, _ := v.(refill)
	if !begun {
		l.o.Log.WarnContext(ctx, "the cell was recovered and may lack what it had confirmed; writing what differs from the database again", "cell", name, "was", even, "is", id)
	}
	if time.Now().Before(next.due) {
		return nil
	}
	next.pause = min(max(2*next.pause, l.o.Guard), l.o.Compare)
	next.due = time.Now().Add(next.pause)
	l.refills.Store(name, next)
	state, err := cell.State(ctx)
	if err != nil {
		return fmt.Errorf("ask recovered cell %s for its state: %w", name, err)
	}
	if state.GetCellId() != id {
		return &ReplacedError{Cell: name, ID: state.GetCellId(), Now: id}
	}
	differ, err := l.compare(ctx, name, cell, newIndex(state))
	if err != nil || differ > 0 {
		return err
	}
	l.refills.Delete(name)
	l.o.Log.WarnContext(ctx, "the recovered cell has what the database has", "cell", name, "is", id)
	return l.store.Service(ctx, func(tx *store.Tx) error { return tx.PutSetting(ctx, evenSetting+name, id, l.o.Now()) })
}

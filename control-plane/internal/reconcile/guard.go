package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
)

// A database restored from an older copy looks like any other. Only the cell shows the
// difference: it has seen generations that the copy has not drawn yet. Writing from such a
// copy would undo the changes since, so nothing is written until an operator says that it
// was restored.

// IncarnationSetting names this database and what was restored from it.
const IncarnationSetting = "control/incarnation"

// RestoredError says that the database is older than a cell's state.
type RestoredError struct {
	Cell            string
	Knows           celladmin.Control
	Incarnation     string
	Generation      uint64
	otherInstanceOf bool
}

// Error implements error.
func (e *RestoredError) Error() string {
	why := fmt.Sprintf("cell %s has seen generation %d, but this database is only at %d", e.Cell, e.Knows.Generation, e.Generation)
	if e.otherInstanceOf {
		why = fmt.Sprintf("cell %s follows incarnation %s of the database, but this one is %s", e.Cell, e.Knows.Incarnation, e.Incarnation)
	}
	return why + ": the database is an older copy, so nothing is written to the cell; stop this process and run the same command with --after-restore"
}

// guarded is what a cell answered last.
type guarded struct {
	at       time.Time
	err      error // A *RestoredError, or nil.
	replaced error // A *ReplacedError, or nil.
	knows    celladmin.Control
}

// refuses is why nothing is written to the cell.
func (g guarded) refuses() error { return cmp.Or(g.err, g.replaced) }

// Incarnation reads the database's incarnation, and sets it at the first start.
func Incarnation(ctx context.Context, tx *store.Tx, now time.Time) (string, error) {
	id, err := tx.GetSetting(ctx, IncarnationSetting)
	if !errors.Is(err, store.ErrNotFound) {
		return id, err
	}
	fresh, _ := seal.NewToken("inc_")
	id = fresh[:20]
	err = tx.InsertSetting(ctx, IncarnationSetting, id, now)
	return id, err
}

// keepGuard asks a cell again. One that does not answer is asked before something is written
// to it.
func (l *Loop) keepGuard(ctx context.Context, name string, cell Cell) error {
	var older *RestoredError
	var replaced *ReplacedError
	err := l.guard(ctx, name, cell, true)
	switch {
	case err == nil:
		err = l.refillRecovered(ctx, name, cell)
	case errors.As(err, &older):
		l.o.Log.ErrorContext(ctx, "the database is an older copy", "error", err)
	case errors.As(err, &replaced):
		l.o.Log.ErrorContext(ctx, "nodes of a cell that was replaced answer", "error", err)
	default: // It doesn't answer.
		return nil
	}
	if err != nil {
		l.health.fail(l.o.Now(), err)
	}
	return nil
}

// restored is the error of the first cell that is ahead of the database.
func (l *Loop) restored() error {
	for name := range l.cells {
		if g, _ := l.guarded(name); g.err != nil {
			return g.err
		}
	}
	return nil
}

func (l *Loop) guarded(cell string) (g guarded, asked bool) {
	v, asked := l.guards.Load(cell)
	g, _ = v.(guarded)
	return g, asked
}

// mayDraw refuses while a cell is ahead, by what each answered last: keepGuard asks again and
// again, so that a cell that is away stops nothing here. One that never answered may be ahead,
// so it is asked, and nothing is drawn before it answers.
func (l *Loop) mayDraw(ctx context.Context) error {
	for name, cell := range l.cells {
		if _, asked := l.guarded(name); asked {
			continue
		}
		err := l.guard(ctx, name, cell, true)
		if _, asked := l.guarded(name); !asked {
			return err
		}
	}
	return l.restored()
}

// Restored reports that nothing is written because the database is an older copy.
func (l *Loop) Restored() error { return l.restored() }

// guard refuses to write to a cell that has seen more than this database. The cell is
// asked first: its generations were drawn from the database before.
func (l *Loop) guard(ctx context.Context, name string, cell Cell, now bool) error {
	last, asked := l.guarded(name)
	if asked && !now && time.Since(last.at) < l.o.Guard*2 {
		return last.refuses()
	}
	knows, err := cell.Control(ctx)
	if err != nil {
		return fmt.Errorf("ask cell %s which control plane it follows: %w", name, err)
	}
	var id string
	var generation uint64
	var replaced *ReplacedError
	err = l.store.Service(ctx, func(tx *store.Tx) (err error) {
		if id, err = Incarnation(ctx, tx, l.o.Now()); err != nil {
			return err
		}
		if generation, err = Generation(ctx, tx); err != nil {
			return err
		}
		return meet(ctx, tx, name, knows, l.o.Now())
	})
	if err != nil && !errors.As(err, &replaced) {
		return fmt.Errorf("read the database's incarnation: %w", err)
	}
	g := guarded{at: time.Now(), knows: knows}
	if replaced != nil {
		g.replaced = replaced
	}
	other := knows.Incarnation != "" && knows.Incarnation != id
	if other || knows.Generation > generation {
		g.err = &RestoredError{Cell: name, Knows: knows, Incarnation: id, Generation: generation, otherInstanceOf: other}
	}
	l.guards.Store(name, g)
	return g.refuses()
}

// Generation is the highest generation that the database has drawn.
func Generation(ctx context.Context, tx *store.Tx) (uint64, error) {
	return numberSetting(ctx, tx, generationSetting)
}

// SetGeneration makes the next generation n+1.
func SetGeneration(ctx context.Context, tx *store.Tx, n uint64, now time.Time) error {
	return tx.PutSetting(ctx, generationSetting, strconv.FormatUint(n, 10), now)
}

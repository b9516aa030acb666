package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// RunCells runs only what carries changes to cells.
func RunCells(ctx context.Context, l *Loop) {
	l.claimAll(ctx, l.wakeCells, carriersMax, byTenant, l.carry, cellKinds...)
}

// TakeActs takes the acts of all cells once.
func TakeActs(ctx context.Context, l *Loop) error {
	return l.eachCell(func(name string, cell Cell) error { return l.takeActs(ctx, name, cell) })
}

// WaitObserved waits until every proxy goes by a record's generation, at most max.
func (l *Loop) WaitObserved(ctx context.Context, kind store.OutboxKind, tenantID, id string, generation int64, max time.Duration) (bool, error) {
	l.Wake()
	ctx, cancel := context.WithTimeout(ctx, max)
	defer cancel()
	return l.Await(ctx, tenantID, func(tx *store.Tx) (bool, error) {
		is, err := observedOf(ctx, tx, kind, tenantID, id)
		return is >= generation, err
	})
}

func observedOf(ctx context.Context, tx *store.Tx, kind store.OutboxKind, tenantID, id string) (int64, error) {
	switch kind {
	case store.OutboxTenant:
		t, err := tx.FindTenant(ctx, id)
		return t.Observed, err
	case store.OutboxNamespace:
		n, err := tx.GetNamespace(ctx, tenantID, id)
		return n.Observed, err
	case store.OutboxKey:
		k, err := tx.GetKey(ctx, tenantID, id)
		return k.Observed, err
	}
	return 0, errors.New("records of this kind aren't observed")
}

// TakeSightings returns what asks a cell what its proxies and nodes saw, with its cursors.
func TakeSightings(l *Loop, cell string) func(context.Context) error {
	return newSighter(l, cell, l.cells[cell]).take
}

// Meter asks a cell what it counted, whoever has the lease. Each one has a memory of its
// own, as a process has.
func (l *Loop) Meter(cell string) func(context.Context) error {
	return newMeter(l, cell, l.cells[cell]).takeAll
}

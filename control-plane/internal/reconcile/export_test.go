package reconcile

import "context"

// RunCells runs only what carries changes to cells.
func RunCells(ctx context.Context, l *Loop) {
	l.claimAll(ctx, l.wakeCells, carriersMax, l.carryRows, cellKinds...)
}

// TakeActs takes the acts of all cells once.
func TakeActs(ctx context.Context, l *Loop) error { return l.takeActs(ctx) }

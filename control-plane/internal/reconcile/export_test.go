package reconcile

import "context"

// RunCells runs only what carries changes to cells.
func RunCells(ctx context.Context, l *Loop) {
	l.claimAll(ctx, l.wakeCells, carriersMax, l.carryRows, cellKinds...)
}

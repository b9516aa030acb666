package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// Cell is what the loop needs of a cell's administration; *celladmin.Client has it.
type Cell interface {
	// ApplyFor writes desired state as one generation of a source, upwards only: the
	// error is a *celladmin.StaleError for one that is not new.
	ApplyFor(ctx context.Context, w celladmin.Writer, changes ...*cellv1.Change) (index uint64, err error)
	// Control returns which incarnation of a database writes the cell's state.
	Control(ctx context.Context) (celladmin.Control, error)
	// WaitProxies returns when every live proxy has applied the state at index.
	WaitProxies(ctx context.Context, index uint64) (confirmed, live int, err error)
	// State is the newest state that any node has.
	State(ctx context.Context) (*cellv1.State, error)
	// Audit lists the administrative acts on a shard's queues and jobs after a
	// number.
	Audit(ctx context.Context, shard uint32, after uint64) ([]*cellv1.AuditEvent, error)
	// Sightings is what the nodes that answer were told by proxies and refused, after a cursor of each.
	Sightings(ctx context.Context, cursors map[string]string) ([]*cellv1.NodeSightings, error)
	// ListReadings is a part of what a shard, or the proxies, counted for billing.
	ListReadings(ctx context.Context, r *cellv1.ListReadingsRequest) (*cellv1.ListReadingsResponse, error)
}

// limited gives a question up after a while: a cell without a leader is asked for as long as it
// may be. Who writes, or waits for proxies, sets a limit for all of that.
type limited struct {
	Cell
	max time.Duration
}

func within[T any](ctx context.Context, max time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, max)
	defer cancel()
	return ask(ctx)
}

func (c limited) Control(ctx context.Context) (celladmin.Control, error) {
	return within(ctx, c.max, c.Cell.Control)
}

func (c limited) State(ctx context.Context) (*cellv1.State, error) {
	return within(ctx, c.max, c.Cell.State)
}

func (c limited) Audit(ctx context.Context, shard uint32, after uint64) ([]*cellv1.AuditEvent, error) {
	return within(ctx, c.max, func(ctx context.Context) ([]*cellv1.AuditEvent, error) { return c.Cell.Audit(ctx, shard, after) })
}

func (c limited) Sightings(ctx context.Context, cursors map[string]string) ([]*cellv1.NodeSightings, error) {
	return within(ctx, c.max, func(ctx context.Context) ([]*cellv1.NodeSightings, error) { return c.Cell.Sightings(ctx, cursors) })
}

func (c limited) ListReadings(ctx context.Context, r *cellv1.ListReadingsRequest) (*cellv1.ListReadingsResponse, error) {
	return within(ctx, c.max, func(ctx context.Context) (*cellv1.ListReadingsResponse, error) { return c.Cell.ListReadings(ctx, r) })
}

// eachCell does f to all cells at once, so that one that is away holds up no other.
func (l *Loop) eachCell(f func(name string, cell Cell) error) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for name, cell := range l.cells {
		all.Go(func() {
			err := f(name, cell)
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

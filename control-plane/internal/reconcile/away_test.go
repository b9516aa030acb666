package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// awayCell has no leader while it is away: what needs one is tried until the caller gives up.
type awayCell struct {
	reconcile.Cell
	away  atomic.Bool
	asked atomic.Int64 // How often while it was away.
}

func (c *awayCell) leader(ctx context.Context) error {
	if !c.away.Load() {
		return nil
	}
	c.asked.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

func (c *awayCell) Control(ctx context.Context) (celladmin.Control, error) {
	if err := c.leader(ctx); err != nil {
		return celladmin.Control{}, err
	}
	return c.Cell.Control(ctx)
}

func (c *awayCell) ApplyFor(ctx context.Context, w celladmin.Writer, changes ...*cellv1.Change) (uint64, error) {
	if err := c.leader(ctx); err != nil {
		return 0, err
	}
	return c.Cell.ApplyFor(ctx, w, changes...)
}

func (c *awayCell) Audit(ctx context.Context, shard uint32, after uint64) ([]*cellv1.AuditEvent, error) {
	if err := c.leader(ctx); err != nil {
		return nil, err
	}
	return c.Cell.Audit(ctx, shard, after)
}

func (c *awayCell) ListReadings(ctx context.Context, r *cellv1.ListReadingsRequest) (*cellv1.ListReadingsResponse, error) {
	if err := c.leader(ctx); err != nil {
		return nil, err
	}
	return c.Cell.ListReadings(ctx, r)
}

// withAnother gives the rig a second cell, which may be away.
func (r *rig) withAnother(t *testing.T) *awayCell {
	t.Helper()
	_, client := newFakeCell(t)
	c := &awayCell{Cell: client}
	r.cells["another"] = c
	return c
}

// renameKey is a change for the cell "main".
func (r *rig) renameKey(t *testing.T, name string) {
	t.Helper()
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		k, err := tx.GetKey(ctx, tenantID, keyID)
		if err != nil {
			return err
		}
		k.Name, k.Generation = name, k.Generation+1
		return errors.Join(tx.UpdateKey(ctx, &k), r.tell(ctx, tx, store.OutboxKey, keyID))
	})
}

// What a cell that is away answered last still counts, however long ago that was.
func TestAway_ACellWithoutALeaderStopsNoChangeForAnother(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	another := r.withAnother(t)
	o := r.options()
	o.Guard = time.Millisecond
	l := reconcile.New(r.store, r.cells, r.sendMail, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); reconcile.RunCells(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	r.signUp(t)
	r.done(t)

	another.away.Store(true)
	time.Sleep(2 * o.Guard) // Its answer is old now.
	r.renameKey(t, "renamed")
	l.Wake()
	eventually.True(t, patience, "the change is in the cell", func() bool { return r.cell.current().GetKeys()[0].GetName() == "renamed" })
	if n := another.asked.Load(); n != 0 {
		t.Errorf("the cell that is away was asked %d times before", n)
	}
}

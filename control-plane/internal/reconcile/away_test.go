package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
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

// untilTheEnd runs something while the test does.
func untilTheEnd(t *testing.T, run func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
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
	untilTheEnd(t, func(ctx context.Context) { reconcile.RunCells(ctx, l) })
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

// Each time is waited for what comes after the cell that is away was asked.
func TestAway_ACellWithoutALeaderStopsNeitherActsNorHoursOfAnother(t *testing.T) {
	t.Parallel()
	m := newMeterWorld(t, cloudtest.New(t), 1)
	f, client := newFakeCell(t)
	m.cell.Cell = client
	f.state.Shards = []uint32{1}
	another := &awayCell{Cell: client}
	another.away.Store(true)
	untilTheEnd(t, reconcile.New(m.Store, map[string]reconcile.Cell{"test": m.cell, "another": another}, nil, reconcile.Options{Now: m.Now, Acts: look, Usage: look, Guard: look}).Run)
	eventually.True(t, patience, "the cell that is away was asked for its acts, what it counted and who it is", func() bool { return another.asked.Load() >= 3 })

	random := rand.New(rand.NewPCG(1, 1))
	for round := range uint64(2) {
		m.work(random)
		m.Advance(2 * time.Hour)
		m.told(random)
		f.set(func(f *fakeCell) {
			f.acts = map[uint32][]*cellv1.AuditEvent{1: {{Number: round + 1, NamespaceId: "ns_00", AtNs: m.Now().UnixNano(), Principal: keyID, Action: "queue.pause", TargetType: "queue", Target: fmt.Sprint("q", round)}}}
		})
		eventually.True(t, patience, "the hour is closed and the act is in the audit log", func() bool {
			var closing store.UsageClosing
			var acts []store.AuditEvent
			err := m.Store.ReadService(t.Context(), func(tx *store.Tx) (err error) {
				if closing, err = tx.GetUsageClosing(t.Context(), "test"); err != nil {
					return err
				}
				acts, err = tx.ListAudit(t.Context(), m.tenants["ns_00"], store.AuditFilter{TargetID: fmt.Sprint("q", round)}, store.Page{})
				return err
			})
			return err == nil && closing.Hour >= metering.Hour(m.Now())-1 && len(acts) == 1
		})
	}
}

func TestAway_ACellWithoutALeaderStopsNoGuardOfAnother(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	another := r.withAnother(t)
	another.away.Store(true)
	l, _ := r.start(t, r.watchful())
	eventually.True(t, patience, "the cell that is away was asked by who guards and who meters", func() bool { return another.asked.Load() >= 2 })
	r.cell.set(func(f *fakeCell) { f.highest = 1000 })
	eventually.True(t, patience, "the database is known to be an older copy", func() bool { return l.Restored() != nil })
}

// What is asked of all cells in one go is asked at once.
func TestAway_CellsWithoutALeaderStopNoRotationInAnother(t *testing.T) {
	t.Parallel()
	r := withTokenKeys(t)
	another := r.withAnother(t)
	for i := range 7 {
		r.cells[fmt.Sprint("another-", i)] = another
	}
	o := r.options()
	o.Guard, o.Claim = time.Hour, time.Hour
	r.start(t, o)
	eventually.True(t, patience, "the first key is known", func() bool { return len(r.inCell()) == 1 && r.carried(t) })
	another.away.Store(true)
	done := r.rotate(t)
	eventually.True(t, patience, "the cell has the new key and not the old", func() bool { return slices.Equal(r.inCell(), done.New) })
}

func TestAway_ACellWithoutALeaderIsReported(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.withAnother(t).away.Store(true)
	o := r.options()
	o.Ask = 20 * time.Millisecond
	l, _ := r.start(t, o)
	eventually.True(t, patience, "a problem", func() bool { return strings.Contains(l.Health().LastProblem, "meter cell another") })
}

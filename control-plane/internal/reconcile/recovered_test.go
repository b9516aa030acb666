package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// watchful asks cells often who they are, and never compares them otherwise.
func (r *rig) watchful() reconcile.Options {
	o := r.options()
	o.Guard = 20 * time.Millisecond
	return o
}

// known waits until the loop has met the cell.
func (r *rig) met(t *testing.T, line string) {
	t.Helper()
	ctx := t.Context()
	eventually.NoError(t, patience, "the cell "+line+" is known", func() error {
		return r.store.ReadService(ctx, func(tx *store.Tx) error {
			seen, err := tx.GetSetting(ctx, "cell/seen/main")
			if err == nil && seen != line {
				err = errors.New(seen)
			}
			return err
		})
	})
}

// A cell that was recovered from one folder lacks what it had confirmed, and has again what
// was ended since: all of it is written again, also what comes while it is.
func TestRecovered_TheCellGetsAgainWhatItLacks(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*fakeCell){
		"everything": func(f *fakeCell) { f.state.Tenants, f.state.Namespaces, f.state.Keys = nil, nil, nil },
		"the key":    func(f *fakeCell) { f.state.Keys = nil },
		"the end of a namespace, and names": func(f *fakeCell) {
			for _, n := range f.state.Namespaces {
				n.Name, n.Deleted, n.Retention = "was-"+n.GetName(), false, nil
			}
		},
		"a limit": func(f *fakeCell) { f.state.Tenants[0].Limits = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := onSQLite(t)
			r.cell.id = "cell_a"
			r.signUp(t)
			r.write(t, func(ctx context.Context, tx *store.Tx) error {
				ended := aNamespace(otherNS, "ended")
				ended.DeletedAt = r.now()
				return errors.Join(tx.InsertNamespace(ctx, ended), r.tell(ctx, tx, store.OutboxNamespace, otherNS))
			})
			r.start(t, r.watchful())
			r.done(t)
			r.met(t, "cell_a")
			want := signedUp()
			if name != "everything" { // What only the database still knows is not written again.
				want.Namespaces = append(want.Namespaces, &cellv1.Namespace{Id: otherNS, TenantId: tenantID, Name: "ended", Deleted: true, Shard: 2})
			}
			r.write(t, func(ctx context.Context, tx *store.Tx) error { return tx.PutSetting(ctx, "acts/main/2", "17", r.now()) })
			r.cell.set(func(f *fakeCell) {
				f.id, f.replaced = "cell_b", []string{"cell_a"}
				f.sources = make(map[string]uint64)
				f.highest = 0
				lose(f)
			})
			eventually.True(t, patience, "the cell has everything", func() bool { return proto.Equal(r.cell.current(), want) })
			r.met(t, "cell_b cell_a")
			eventually.True(t, patience, "said", func() bool { return strings.Contains(r.log.String(), "the recovered cell has what the database has") })
			ctx := t.Context()
			at, err := store.Get(ctx, r.store.ReadService, func(tx *store.Tx) (string, error) { return tx.GetSetting(ctx, "acts/main/2") })
			if err != nil || at != "0" {
				t.Errorf("acts are taken after number %q, %v: the cell counts them anew", at, err)
			}
		})
	}
}

// It was noticed, and the control plane ended before all was written again.
func TestRecovered_IsFinishedByTheNextProcess(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.cell.id = "cell_a"
	r.signUp(t)
	_, stop := r.start(t, r.watchful())
	r.done(t)
	r.met(t, "cell_a")
	r.cell.set(func(f *fakeCell) {
		f.id, f.replaced, f.state.Keys = "cell_b", []string{"cell_a"}, nil
		f.before = func() error { return errors.New("away") }
	})
	r.met(t, "cell_b cell_a")
	stop()
	r.cell.set(func(f *fakeCell) { f.before = nil })
	r.start(t, r.watchful())
	eventually.True(t, patience, "the cell has everything", func() bool { return proto.Equal(r.cell.current(), signedUp()) })
}

// Nodes of before the recovery that come back are not the cell.
func TestRecovered_NothingIsWrittenToACellThatWasReplaced(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.cell.id, r.cell.replaced = "cell_b", []string{"cell_a"}
	r.signUp(t)
	l, _ := r.start(t, r.watchful())
	r.done(t)
	r.met(t, "cell_b cell_a")
	r.cell.set(func(f *fakeCell) { f.id, f.replaced, f.state.Keys = "cell_a", nil, nil })
	eventually.True(t, patience, "noticed", func() bool { return strings.Contains(l.Health().LastProblem, "which was replaced by cell_b") })
	before := r.cell.appliedCalls()
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		k, err := tx.GetKey(ctx, tenantID, keyID)
		if err != nil {
			return err
		}
		k.Name, k.Generation = "renamed", k.Generation+1
		return errors.Join(tx.UpdateKey(ctx, &k), r.tell(ctx, tx, store.OutboxKey, keyID))
	})
	l.Wake()
	eventually.True(t, patience, "a try that failed", func() bool {
		ctx := t.Context()
		rows, err := store.Get(ctx, r.store.Service, func(tx *store.Tx) ([]store.Outbox, error) {
			return tx.ClaimOutbox(ctx, "test", r.now(), r.now(), 1, store.OutboxKey)
		})
		return err == nil && len(rows) == 1 && strings.Contains(rows[0].LastError, "replaced")
	})
	if n := r.cell.appliedCalls(); n != before {
		t.Errorf("%d entries were written", n-before)
	}
	r.cell.set(func(f *fakeCell) { f.id, f.replaced = "cell_b", []string{"cell_a"} })
	r.done(t)
}

package reconcile_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tokenkeys"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// signed is a rig with real token keys.
type signed struct {
	*rig
	keys tokenkeys.Keys
}

func withTokenKeys(t *testing.T) *signed {
	t.Helper()
	r := onSQLite(t)
	box, err := seal.New(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return &signed{rig: r, keys: tokenkeys.Keys{Store: r.store, Seal: box, Now: r.now, Calendar: func(context.Context) time.Time { return r.now() }}}
}

func (r *signed) options() reconcile.Options {
	o := r.rig.options()
	o.TokenKeys = func(ctx context.Context, tx *store.Tx) (out []*cellv1.TokenKey, _ error) {
		keys, err := r.keys.Public(ctx, tx)
		for _, k := range keys {
			out = append(out, celladmin.TokenKey(k.Key, k.NotAfter))
		}
		return out, err
	}
	return o
}

func (r *signed) carried(t *testing.T) (is bool) {
	t.Helper()
	err := r.store.ReadService(t.Context(), func(tx *store.Tx) (err error) {
		is, err = r.keys.Carried(t.Context(), tx)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return is
}

func (r *signed) rotate(t *testing.T) (out tokenkeys.Rotation) {
	t.Helper()
	r.write(t, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = r.keys.Rotate(ctx, tx)
		return err
	})
	return out
}

func (r *signed) inCell() (ids []string) {
	for _, k := range r.cell.current().GetTokenKeys() {
		ids = append(ids, k.GetId())
	}
	return ids
}

// Scans are an hour apart here: what brings a rotation to the cell is its row.
func TestTokenKeys_ARotationReachesTheCellAtOnceAndWaitsForProxies(t *testing.T) {
	t.Parallel()
	r := withTokenKeys(t)
	r.start(t, r.options())
	eventually.True(t, patience, "the first key is known", func() bool { return len(r.inCell()) == 1 })
	first := r.inCell()
	r.cell.set(func(f *fakeCell) { f.behind = true })
	done := r.rotate(t)
	if !slices.Equal(done.Old, first) {
		t.Errorf("%+v, the cell had %v", done, first)
	}
	eventually.True(t, patience, "the cell has the new key and not the old", func() bool { return slices.Equal(r.inCell(), done.New) })
	if r.carried(t) {
		t.Error("said to be carried while a proxy is behind")
	}
	r.cell.set(func(f *fakeCell) { f.behind, f.proxyAt = false, f.state.GetIndex() })
	eventually.True(t, patience, "carried", func() bool { return r.carried(t) })
}

// A replica that looked at the keys before a rotation and writes after it must not bring
// the old ones back.
func TestTokenKeys_ASlowReplicaDoesNotBringOldOnesBack(t *testing.T) {
	t.Parallel()
	r := withTokenKeys(t)
	_, stop := r.start(t, r.options())
	eventually.True(t, patience, "the first key is known", func() bool { return len(r.inCell()) == 1 })
	stop()

	// The slow one has something to write, too: a key that it does not know.
	r.cell.set(func(f *fakeCell) {
		f.state.TokenKeys = append(f.state.TokenKeys, &cellv1.TokenKey{Id: "tk_stranger", PublicKey: make([]byte, 32)})
	})
	asked, goOn := make(chan struct{}, 2), make(chan struct{})
	slow := r.cells
	r.cells = map[string]reconcile.Cell{"main": &heldState{Cell: slow["main"], asked: asked, goOn: goOn}}
	_, stopSlow := r.start(t, r.options())
	<-asked
	<-asked
	r.cells = slow
	done := r.rotate(t)
	r.start(t, r.options())
	eventually.True(t, patience, "the other replica brought the rotation", func() bool { return slices.Equal(r.inCell(), done.New) })
	r.cell.set(func(f *fakeCell) {
		f.after = func() error {
			if got := r.inCell(); slices.Contains(got, done.Old[0]) {
				t.Errorf("the old key is back: %v", got)
			}
			return nil
		}
	})
	before := r.cell.appliedCalls()
	close(goOn)
	eventually.True(t, patience, "the slow one wrote", func() bool { return r.cell.appliedCalls() > before })
	stopSlow()
	if got := r.inCell(); !slices.Equal(got, done.New) {
		t.Errorf("the cell has %v, want %v alone", got, done.New)
	}
}

// heldState holds every answer about the state until they are released: those of the
// scan and of the comparison at a loop's start.
type heldState struct {
	reconcile.Cell
	asked chan struct{}
	goOn  chan struct{}
}

func (h *heldState) State(ctx context.Context) (*cellv1.State, error) {
	state, err := h.Cell.State(ctx)
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-h.goOn
	return state, err
}

func TestTokenKeys_ReplicasThatRotateAtTheSameTimeAgree(t *testing.T) {
	t.Parallel()
	r := withTokenKeys(t)
	r.start(t, r.options())
	r.start(t, r.options())
	results := make(chan tokenkeys.Rotation, 4)
	for range 4 {
		go func() {
			var done tokenkeys.Rotation
			err := r.store.Service(t.Context(), func(tx *store.Tx) (err error) {
				done, err = r.keys.Rotate(t.Context(), tx)
				return err
			})
			if err != nil {
				t.Error(err)
			}
			results <- done
		}()
	}
	made := make(map[string]bool)
	for range 4 {
		for _, id := range (<-results).New {
			made[id] = true
		}
	}
	_, last, err := r.keys.Signing(t.Context())
	if err != nil || len(made) != 4 || !made[last] {
		t.Fatalf("%v signs of %v (%v)", last, made, err)
	}
	eventually.True(t, patience, "carried", func() bool { return r.carried(t) })
	if got := r.inCell(); !slices.Equal(got, []string{last}) {
		t.Errorf("the cell has %v, want %s alone", got, last)
	}
}

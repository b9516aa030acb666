package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/server"
)

// The command waits for another process to carry the rotation to the cell, and ends
// without one: the rotation is kept either way.
func TestRotateTokenKeys_WaitsForAControlPlaneThatCarriesIt(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	database := "sqlite:" + filepath.Join(t.TempDir(), "control.db")
	other, err := store.Open(ctx, database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	m := server.Maintenance{Database: database, MasterKeys: [][]byte{seal.NewKey()}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}

	alone, err := server.RotateTokenKeys(ctx, m, time.Millisecond)
	if err != nil || alone.Carried || len(alone.New) == 0 {
		t.Fatalf("without a control plane: %+v, %v", alone, err)
	}

	running, stop := context.WithCancel(ctx)
	var carrier sync.WaitGroup
	carrier.Go(func() { reconcile.New(other, nil, nil, reconcile.Options{}).Run(running) })
	defer carrier.Wait()
	defer stop()
	beside, err := server.RotateTokenKeys(ctx, m, time.Minute)
	if err != nil || !beside.Carried || len(beside.Old) != len(alone.New) {
		t.Fatalf("beside a control plane: %+v after %+v, %v", beside, alone, err)
	}
}

// The command waits for another process to tell the cell, and ends without one: the plan
// is set either way, with an entry in the tenant's audit log.
func TestSetPlan_ReachesTheCellAndTheAuditLog(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	database := "sqlite:" + filepath.Join(t.TempDir(), "control.db")
	other, err := store.Open(ctx, database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	if err := other.Service(ctx, func(tx *store.Tx) error {
		return tx.InsertTenant(ctx, store.Tenant{ID: "tn_1", Name: "acme", Plan: "free", Cell: "main", Version: 1, Generation: 1, Observed: 1})
	}); err != nil {
		t.Fatal(err)
	}
	m := server.Maintenance{Database: database, Logger: slog.New(slog.DiscardHandler)}

	if _, err := server.SetPlan(ctx, m, "nobody", "unlimited", "", time.Millisecond); !errors.Is(err, server.ErrNoTenant) {
		t.Errorf("a tenant that isn't there: %v", err)
	}
	if _, err := server.SetPlan(ctx, m, "acme", "gold", "", time.Millisecond); err == nil {
		t.Error("a plan that isn't there was set")
	}
	if same, err := server.SetPlan(ctx, m, "acme", "free", "", time.Minute); err != nil || !same.Carried || same.Before != "free" {
		t.Errorf("the plan that it has: %+v, %v", same, err)
	}
	alone, err := server.SetPlan(ctx, m, "acme", "unlimited", "", time.Millisecond)
	if err != nil || alone.Carried || alone.Before != "free" || alone.Plan != "unlimited" {
		t.Fatalf("without a control plane: %+v, %v", alone, err)
	}

	if err := other.Service(ctx, func(tx *store.Tx) error {
		acts, err := tx.ListAudit(ctx, "tn_1", store.AuditFilter{}, store.Page{})
		if err != nil || len(acts) != 1 || acts[0].ActorType != "system" || acts[0].Changes["plan"] != (store.Change{Before: "free", After: "unlimited"}) {
			t.Errorf("audit log: %+v, %v", acts, err)
		}
		if _, err := tx.HolderOfDomain(ctx, "acme.example"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("its domain: %v", err)
		}
		rows, err := tx.ClaimOutbox(ctx, "test", time.Now(), time.Now().Add(time.Minute), 9, store.OutboxTenant)
		if err != nil || len(rows) != 1 || rows[0].Subject != "tn_1" {
			t.Errorf("what a control plane is told: %+v, %v", rows, err)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}

	var carrier sync.WaitGroup
	carrier.Go(func() {
		if err := other.Service(ctx, func(tx *store.Tx) error { return tx.ObserveTenant(ctx, "tn_1", 2) }); err != nil {
			t.Error(err)
		}
	})
	defer carrier.Wait()
	if again, err := server.SetPlan(ctx, m, "acme", "unlimited", "", time.Minute); err != nil || !again.Carried || again.Before != "unlimited" {
		t.Fatalf("beside a control plane: %+v, %v", again, err)
	}
	list, err := server.TenantPlans(ctx, m, server.TenantQuery{})
	if err != nil || len(list) != 1 || list[0].Tenant != "acme" || list[0].Plan != "unlimited" || !list[0].Carried {
		t.Errorf("the list: %+v, %v", list, err)
	}
}

// Whoever has nothing of a tenant left but the operator's word finds it in the audit log.
func TestDeleteTenant_IsToldToTheCellAndFreesTheName(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	database := "sqlite:" + filepath.Join(t.TempDir(), "control.db")
	other, err := store.Open(ctx, database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	if err := other.Service(ctx, func(tx *store.Tx) error {
		if err := tx.InsertTenant(ctx, store.Tenant{ID: "tn_1", Name: "acme", Plan: "free", Cell: "main", Version: 1, Generation: 1, Observed: 1}); err != nil {
			return err
		}
		return tx.InsertDomain(ctx, store.Domain{TenantID: "tn_1", ID: "dom_1", Name: "acme.example", VerifiedAt: time.Unix(1, 0), Version: 1})
	}); err != nil {
		t.Fatal(err)
	}
	m := server.Maintenance{Database: database, Logger: slog.New(slog.DiscardHandler)}
	alone, err := server.DeleteTenant(ctx, m, "acme", time.Millisecond)
	if err != nil || alone.Carried || alone.TenantID != "tn_1" {
		t.Fatalf("without a control plane: %+v, %v", alone, err)
	}
	if _, err := server.DeleteTenant(ctx, m, "acme", time.Millisecond); !errors.Is(err, server.ErrNoTenant) {
		t.Errorf("a second time: %v", err)
	}
	if err := other.Service(ctx, func(tx *store.Tx) error {
		gone, err := tx.FindTenant(ctx, "tn_1")
		if err != nil || gone.DeletedAt.IsZero() || gone.Generation != 2 {
			t.Errorf("its record: %+v, %v", gone, err)
		}
		acts, err := tx.ListAudit(ctx, "tn_1", store.AuditFilter{}, store.Page{})
		if err != nil || len(acts) != 2 || acts[0].Action != "tenant.delete" || acts[0].ActorType != "system" || acts[1].Action != "domain.delete" {
			t.Errorf("audit log: %+v, %v", acts, err)
		}
		if _, err := tx.HolderOfDomain(ctx, "acme.example"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("its domain: %v", err)
		}
		rows, err := tx.ClaimOutbox(ctx, "test", time.Now(), time.Now().Add(time.Minute), 9, store.OutboxTenant)
		if err != nil || len(rows) != 1 || rows[0].Subject != "tn_1" {
			t.Errorf("what a control plane is told: %+v, %v", rows, err)
		}
		return tx.InsertTenant(ctx, store.Tenant{ID: "tn_2", Name: "acme", Plan: "free", Cell: "main", Version: 1, Generation: 1})
	}); err != nil {
		t.Errorf("its name: %v", err)
	}
}

func TestSetOverride_ReachesTheCellAndTheAuditLog(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	database := "sqlite:" + filepath.Join(t.TempDir(), "control.db")
	other, err := store.Open(ctx, database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	if err := other.Service(ctx, func(tx *store.Tx) error {
		return tx.InsertTenant(ctx, store.Tenant{ID: "tn_1", Name: "acme", Plan: "free", Cell: "main", Version: 1, Generation: 1, Observed: 1})
	}); err != nil {
		t.Fatal(err)
	}
	m := server.Maintenance{Database: database, Logger: slog.New(slog.DiscardHandler)}
	o := server.Override{Tenant: "acme", Name: "keys_max", Value: 7}
	if _, err := server.SetOverride(ctx, m, o, time.Millisecond); !errors.Is(err, server.ErrRefused) {
		t.Errorf("without a reason: %v", err)
	}
	o.Reason = "a trial"
	if r, err := server.SetOverride(ctx, m, o, time.Millisecond); err != nil || r.Carried || r.TenantID != "tn_1" {
		t.Errorf("without a control plane: %+v, %v", r, err)
	}
	if err := other.Service(ctx, func(tx *store.Tx) error {
		e, err := tx.Entitlements(ctx, "tn_1", time.Now())
		acts, actsErr := tx.ListAudit(ctx, "tn_1", store.AuditFilter{}, store.Page{})
		if e.Values["keys_max"] != 7 || len(acts) != 1 || acts[0].Action != "override.set" || acts[0].ActorType != "system" {
			t.Errorf("%v, %+v", e, acts)
		}
		return errors.Join(err, actsErr, tx.ObserveTenant(ctx, "tn_1", 2))
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, err := server.RemoveOverride(ctx, m, "acme", "keys_max", "", time.Millisecond)
		if err != nil && !errors.Is(err, server.ErrRefused) || err == nil && r.Carried {
			t.Errorf("%+v, %v", r, err)
		}
	}
	list, err := server.TenantPlans(ctx, m, server.TenantQuery{})
	if err != nil || len(list) != 1 || list[0].State != "active" || list[0].PlanVersion != 1 || list[0].Carried {
		t.Errorf("%+v, %v", list, err)
	}
}

package server

import (
	"context"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// A copy from before a deletion that the cell has forgotten would bring the deleted back:
// the cell would take it for new.
func TestAfterRestore_WhatTheCellForgotIsNotBroughtBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		forgotten uint64 // Beyond what the copy has drawn.
		observed  bool
		revoked   bool
	}{
		"the copy is older than what the cell forgot": {1, true, true},
		"the copy has seen all that the cell forgot":  {0, true, false},
		"the cell never knew it":                      {1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			seed, _, jobs := s.seed(t, "acme")
			err := s.kit.Store.Service(t.Context(), func(tx *store.Tx) error {
				return writeRestored(t.Context(), s, tx, seed.TenantID, jobs.ID(), tc.forgotten, tc.observed)
			})
			if err != nil {
				t.Fatal(err)
			}
			err = s.kit.Store.ReadService(t.Context(), func(tx *store.Tx) error {
				k, err := tx.FindKey(t.Context(), jobs.ID())
				if err == nil && k.RevokedAt.IsZero() == tc.revoked {
					t.Errorf("the key was revoked at %v, want it %v", k.RevokedAt, tc.revoked)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// writeRestored takes over a cell that knows the tenant, and not the key.
func writeRestored(ctx context.Context, s *stage, tx *store.Tx, tenant, key string, forgotten uint64, observed bool) error {
	if observed {
		k, err := tx.GetKey(ctx, tenant, key)
		if err != nil {
			return err
		}
		if err := tx.ObserveKey(ctx, tenant, key, k.Generation); err != nil {
			return err
		}
	}
	t, err := tx.FindTenant(ctx, tenant)
	if err != nil {
		return err
	}
	drawn, err := reconcile.Generation(ctx, tx)
	if err != nil {
		return err
	}
	r := &restore{s: s.Server, now: s.kit.Now(), known: []celladmin.Control{{Generation: drawn + 9, Forgotten: drawn + forgotten}}}
	if err := r.write(ctx, tx, []*cellv1.State{{Tenants: []*cellv1.Tenant{{Id: t.ID, Name: t.Name}}}}); err != nil {
		return err
	}
	return nil
}

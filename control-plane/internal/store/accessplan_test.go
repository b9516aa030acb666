package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Every call asks what its caller has: that costs what they have, and not what the tenant has.
func TestAccess_WhatSomebodyHasGoesByTheirIndex(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.InsertTenant(ctx, store.Tenant{ID: "tn_a", Name: "acme", Plan: "free", Cell: "c", CreatedAt: at(0), UpdatedAt: at(0), Version: 1, Generation: 1}); err != nil {
				return err
			}
			for i := range 3000 {
				b := store.Binding{TenantID: "tn_a", ID: fmt.Sprintf("bnd_%05d", i), PrincipalID: fmt.Sprintf("usr_%04d", i/2), RoleID: fmt.Sprint("role_", i%2), CreatedBy: "usr_x", CreatedAt: at(i)}
				if err := tx.InsertBinding(ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			plan, err := store.ExplainBindingsOf(ctx, tx, "tn_a", "usr_0007")
			if err != nil {
				return err
			}
			narrow := strings.Contains(plan, "principal_id=?") && !strings.Contains(plan, "(tenant_id=?)") ||
				strings.Contains(plan, "Index Cond: ((tenant_id = 'tn_a'::text) AND (principal_id")
			if !narrow {
				t.Errorf("the plan walks over the tenant's bindings:\n%s", plan)
			}
			of, err := tx.BindingsOf(ctx, "tn_a", "usr_0007")
			list := of["usr_0007"]
			if err == nil && (len(list) != 2 || list[0].ID != "bnd_00014" || list[1].ID != "bnd_00015") {
				t.Errorf("%+v", list)
			}
			return err
		})
	})
}

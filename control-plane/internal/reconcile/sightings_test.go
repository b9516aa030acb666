package reconcile_test

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

func TestSightings_TheLastUseOfAKeyIsWrittenAndAnOlderReportSetsNothingBack(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": cloudtest.SQLite(t), "postgres": cloudtest.Postgres(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, url)
			r.signUp(t)
			before := r.key(t)
			start, first, second := r.now().Truncate(time.Second), []byte{1}, []byte{2}
			use := func(tenant string, digest []byte, minute int) *cellv1.KeyUse {
				return &cellv1.KeyUse{KeyId: keyID, TenantId: tenant, Digest: digest, AtNs: start.Add(time.Duration(minute) * time.Minute).UnixNano()}
			}
			take := reconcile.TakeSightings(r.loopOver(r.store), "main")
			told := func(cursor string, nodes ...[]*cellv1.KeyUse) {
				t.Helper()
				var all []*cellv1.NodeSightings
				for i, uses := range nodes {
					all = append(all, &cellv1.NodeSightings{NodeId: string(rune('a' + i)), Cursor: cursor, Uses: uses})
				}
				r.cell.set(func(f *fakeCell) { f.nodes = all })
				if err := take(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			want := func(what string, key, of1, of2 int) {
				t.Helper()
				k := r.key(t)
				if minute := int(k.LastUsedAt.Sub(start) / time.Minute); minute != key || k.Version != before.Version || k.Generation != before.Generation {
					t.Errorf("%s: used in minute %d at version %d, want minute %d and version %d", what, minute, k.Version, key, before.Version)
				}
				r.write(t, func(ctx context.Context, tx *store.Tx) error {
					uses, err := tx.KeyUses(ctx, tenantID, keyID, keyID)
					for digest, minute := range map[string]int{string(first): of1, string(second): of2} {
						if got := int(uses[store.KeyUse{KeyID: keyID, Digest: hex.EncodeToString([]byte(digest))}].Sub(start) / time.Minute); got != minute {
							t.Errorf("%s: secret %x was used in minute %d, want %d", what, digest, got, minute)
						}
					}
					return err
				})
			}
			told("1", []*cellv1.KeyUse{use(tenantID, first, 7)}, []*cellv1.KeyUse{use(tenantID, first, 5), use(tenantID, second, 3)})
			want("what two nodes were told", 7, 7, 3)
			told("2", []*cellv1.KeyUse{use(tenantID, first, 6)}, []*cellv1.KeyUse{use(tenantID, second, 2)})
			want("older reports", 7, 7, 3)
			told("3", []*cellv1.KeyUse{use(tenantID, second, 9), use(otherTenant, first, 11)})
			want("the other secret, and a report for another tenant", 9, 7, 9)
		})
	}
}

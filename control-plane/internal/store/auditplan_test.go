package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// A search of the audit log costs what it shows: every filter goes by an index, which the
// database's own plan proves.
func TestAudit_EverySearchGoesByAnIndex(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			for i := range 2000 {
				e := store.AuditEvent{
					TenantID: fmt.Sprint("tn_", i%2), ID: fmt.Sprintf("aud_%05d", i), At: at(i), ActorID: fmt.Sprint("usr_", i%50), Action: fmt.Sprintf("kind%d.verb%d", i%5, i%7),
					TargetID: fmt.Sprint("key_", i%300), NamespaceID: fmt.Sprint("ns_", i%9), Namespace: fmt.Sprint("name-", i%9), Seq: int64(i + 1),
				}
				if err := tx.InsertAudit(ctx, e); err != nil {
					return err
				}
			}
			return nil
		})
		wantPlan := func(what, plan, index string) {
			t.Helper()
			if strings.Contains(plan, "SCAN audit") || strings.Contains(plan, "Seq Scan on audit") || !strings.Contains(plan, index) {
				t.Errorf("%s: the plan scans, or doesn't use %s:\n%s", what, index, plan)
			}
		}
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			for index, f := range map[string]store.AuditFilter{
				"audit_by_actor":          {ActorID: "usr_3"},
				"audit_by_target":         {TargetID: "key_3"},
				"audit_by_namespace":      {Namespace: "ns_2"},
				"audit_by_namespace_name": {Namespace: "name-2"},
				"audit_by_action":         {ActionPrefix: "kind2"},
				"audit":                   {FromID: "aud_00100", BelowID: "aud_00200", After: at(100), Before: at(200)}, // The primary key.
			} {
				for _, more := range []func(*store.AuditFilter){
					func(*store.AuditFilter) {},
					func(f *store.AuditFilter) {
						f.FromID, f.BelowID, f.After, f.Before = "aud_00100", "aud_01200", at(100), at(1200)
					},
				} {
					more(&f)
					plan, err := store.ExplainAudit(ctx, tx, "tn_0", f)
					if err != nil {
						return err
					}
					wantPlan(fmt.Sprintf("%+v", f), plan, index)
				}
			}
			for index, where := range map[string]string{
				"audit_by_seq":          "audit WHERE tenant_id = 'tn_0' AND seq > 0 AND seq >= 5 ORDER BY seq LIMIT 10",
				"audit_unchained":       "audit WHERE seq = 0 ORDER BY tenant_id, id LIMIT 10",
				"audit_chains_unsigned": "audit_chains WHERE head_seq < seq AND head_at <= 5 ORDER BY head_at, tenant_id LIMIT 10",
				"audit_chains_by_age":   "audit_chains WHERE oldest_at > 0 AND oldest_at < 5 ORDER BY oldest_at, tenant_id LIMIT 10",
			} {
				plan, err := store.ExplainChain(ctx, tx, where)
				if err != nil {
					return err
				}
				// A walk over a partial index is one over what is looked for.
				wantPlan(where, strings.ReplaceAll(plan, "SCAN audit USING INDEX audit_unchained", "SEARCH by audit_unchained"), index)
			}
			return nil
		})
	})
}

package change

import (
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

func TestMake_SaysWhoAndHidesKeys(t *testing.T) {
	t.Parallel()
	s := cloudtest.Store(t, cloudtest.SQLite(t), store.Options{})
	key, err := apikey.Generate(apikey.Management)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	k := kit.Kit{Store: s, IDs: ids.NewMaker(), Now: func() time.Time { return now }}
	tenantID := k.IDs.New(ids.Tenant, now)
	for _, tc := range []struct {
		caller    access.Caller
		actorType string
	}{
		{access.Caller{TenantID: tenantID, UserID: "usr_1", RequestID: "req_1", Name: "ada@corvo.test", UserAgent: "tool " + key.Reveal()}, "user"},
		{access.Caller{TenantID: tenantID, UserID: "usr_1", OnlyTenantID: tenantID, BySSO: true, RequestID: "req_1"}, "sso"},
		{access.Caller{TenantID: tenantID, KeyID: "key_1", RequestID: "req_1", Name: key.Reveal()}, "key"},
		{access.Caller{RequestID: "req_1"}, "public"},
		{access.Caller{}, "system"},
	} {
		var got []store.AuditEvent
		err := s.Service(t.Context(), func(tx *store.Tx) error {
			err := Make(access.With(t.Context(), tc.caller), k, tx, "thing.change", AuditOnly(Target{Type: "thing", ID: "t", Name: key.Reveal(), TenantID: tenantID}),
				Fields{"a": {Before: key.Reveal(), After: []string{key.Reveal()}}, "b": {After: 7}})
			if err != nil {
				return err
			}
			got, err = tx.ListAudit(t.Context(), tenantID, store.AuditFilter{}, store.Page{Limit: 1})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		e := got[0]
		if e.ActorType != tc.actorType || e.ActorID != tc.caller.ID() || e.Action != "thing.change" || e.RequestID != tc.caller.RequestID || len(e.Changes) != 2 {
			t.Errorf("%+v by %+v", e, tc.caller)
		}
		tail := key.Reveal()[len(key.Reveal())-20:]
		for _, text := range []any{e.Target, e.Actor, e.UserAgent, e.Changes["a"].Before, e.Changes["a"].After} {
			if raw, _ := text.(string); strings.Contains(raw, tail) {
				t.Errorf("%q holds a key", raw)
			}
			if list, ok := text.([]any); ok && strings.Contains(list[0].(string), tail) {
				t.Errorf("%q holds a key", list)
			}
		}
	}
	err = s.Service(t.Context(), func(tx *store.Tx) error { return Make(t.Context(), k, tx, "x.y", AuditOnly(Target{Type: "x"}), nil) })
	if err == nil {
		t.Error("a row of nobody's tenant is taken")
	}
}

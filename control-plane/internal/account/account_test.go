package account

import (
	"context"
	"testing"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// stage is a tenant with an owner.
type stage struct {
	*cloudtest.World
	s      *Service
	tenant store.Tenant
	ada    store.User
}

func newStage(t *testing.T, w *cloudtest.World) *stage {
	t.Helper()
	st := &stage{World: w, s: New(w.Kit)}
	st.tenant, st.ada = w.Tenant(t, "acme", "ada@example.com")
	return st
}

// signIn gives the context of calls in a new session of a user.
func (st *stage) signIn(t *testing.T, u store.User, onlyTenantID string) (ctx context.Context, id string) {
	t.Helper()
	ctx, _ = st.As(t, st.tenant, u, permission.RoleOwner)
	var opened session.Opened
	st.Service(t, func(_ context.Context, tx *store.Tx) (err error) {
		opened, err = session.Open(ctx, tx, st.IDs, st.Now(), u.ID, onlyTenantID, "")
		return err
	})
	c := access.From(ctx)
	c.SessionID, c.OnlyTenantID = opened.ID, onlyTenantID
	return access.With(ctx, c), opened.ID
}

func (st *stage) sessions(t *testing.T, ctx context.Context) []*cloudv1.Session {
	t.Helper()
	res, err := st.s.ListSessions(ctx, &cloudv1.ListSessionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetSessions()
}

func TestSessions_AreListedAndRevokedByTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		here, hereID := st.signIn(t, st.ada, "")
		_, otherID := st.signIn(t, st.ada, "")
		bob, bobID := st.signIn(t, w.Member(t, st.tenant.ID, "bob@example.com", permission.RoleAdmin), "")

		all := st.sessions(t, here)
		if len(all) != 2 {
			t.Fatalf("%d sessions: %v", len(all), all)
		}
		for _, v := range all {
			if v.GetCurrent() != (v.GetId() == hereID) || v.GetIp() != "203.0.113.9" || v.GetUserAgent() != "test" || v.GetKind() != cloudv1.SessionKind_SESSION_KIND_BROWSER {
				t.Errorf("%v", v)
			}
		}
		_, err := st.s.RevokeSession(here, &cloudv1.RevokeSessionRequest{SessionId: bobID})
		cloudtest.Refused(t, err, "NOT_FOUND")
		if _, err := st.s.RevokeSession(here, &cloudv1.RevokeSessionRequest{SessionId: otherID}); err != nil {
			t.Fatal(err)
		}
		_, err = st.s.RevokeSession(here, &cloudv1.RevokeSessionRequest{SessionId: otherID})
		cloudtest.Refused(t, err, "NOT_FOUND")
		if mine, his := st.sessions(t, here), st.sessions(t, bob); len(mine) != 1 || mine[0].GetId() != hereID || len(his) != 1 {
			t.Errorf("mine %v, his %v", mine, his)
		}
		if rows := w.Outbox(t); len(rows) != 1 || rows[0].Kind != store.OutboxUser || rows[0].Subject != st.ada.ID {
			t.Errorf("the cell is told %+v", rows)
		}
		if log := w.Audit(t, st.tenant.ID); len(log) != 1 || log[0] != "session.end" {
			t.Errorf("the audit log has %v", log)
		}
	})
}

func TestRevokeOtherSessions_KeepsTheCallingOne(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		here, hereID := st.signIn(t, st.ada, "")
		st.signIn(t, st.ada, "")
		st.signIn(t, st.ada, st.tenant.ID)
		res, err := st.s.RevokeOtherSessions(here, &cloudv1.RevokeOtherSessionsRequest{})
		if err != nil || res.GetSessionsEnded() != 2 {
			t.Errorf("%v, %v", res, err)
		}
		if left := st.sessions(t, here); len(left) != 1 || left[0].GetId() != hereID {
			t.Errorf("left: %v", left)
		}
	})
}

// Whoever opened a session that is good in one tenant only is trusted no further.
func TestSessions_OfOneTenantSeeAndEndNoOthers(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		_, wholeID := st.signIn(t, st.ada, "")
		limited, limitedID := st.signIn(t, st.ada, st.tenant.ID)
		if all := st.sessions(t, limited); len(all) != 1 || all[0].GetId() != limitedID || all[0].GetTenant() != "acme" {
			t.Errorf("it sees %v", all)
		}
		_, err := st.s.RevokeSession(limited, &cloudv1.RevokeSessionRequest{SessionId: wholeID})
		cloudtest.Refused(t, err, "NOT_FOUND")
		if res, err := st.s.RevokeOtherSessions(limited, &cloudv1.RevokeOtherSessionsRequest{}); err != nil || res.GetSessionsEnded() != 0 {
			t.Errorf("%v, %v", res, err)
		}
	})
}

func TestSessions_KeysHaveNone(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	ctx := access.With(t.Context(), access.Caller{KeyID: "key_1"})
	_, err := st.s.ListSessions(ctx, &cloudv1.ListSessionsRequest{})
	cloudtest.Refused(t, err, "NO_SESSION")
	_, err = st.s.LeaveTenant(ctx, &cloudv1.LeaveTenantRequest{Tenant: "acme"})
	cloudtest.Refused(t, err, "NO_SESSION")
}

func TestLeaveTenant_EveryoneMayButTheLastOwner(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		ada, _ := st.signIn(t, st.ada, "")
		_, err := st.s.LeaveTenant(ada, &cloudv1.LeaveTenantRequest{Tenant: "acme"})
		cloudtest.Refused(t, err, "LAST_OWNER")
		_, err = st.s.LeaveTenant(ada, &cloudv1.LeaveTenantRequest{Tenant: "elsewhere"})
		cloudtest.Refused(t, err, "NOT_FOUND")

		u := w.Member(t, st.tenant.ID, "bob@example.com", permission.RoleViewer)
		bob, _ := st.signIn(t, u, "")
		_, limitedID := st.signIn(t, u, st.tenant.ID)
		if _, err := st.s.LeaveTenant(bob, &cloudv1.LeaveTenantRequest{Tenant: "acme"}); err != nil {
			t.Fatal(err)
		}
		for _, v := range st.sessions(t, bob) {
			if v.GetId() == limitedID {
				t.Error("a session that is good in the tenant only outlived the membership")
			}
		}
		_, err = st.s.LeaveTenant(bob, &cloudv1.LeaveTenantRequest{Tenant: "acme"})
		cloudtest.Refused(t, err, "NOT_FOUND")
		if log := w.Audit(t, st.tenant.ID); log[len(log)-1] != "member.delete" {
			t.Errorf("the audit log has %v", log)
		}
	})
}

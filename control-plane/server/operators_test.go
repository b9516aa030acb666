package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// operatorBuilders are the requests of operators. They name a tenant that isn't the caller's.
func operatorBuilders() map[string]builder {
	return map[string]builder{
		"OperatorService/ListTenants": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListTenantsRequest{PageSize: 1} }),
		"OperatorService/DescribeTenant": plain(func(_ testing.TB, p *fixture) proto.Message {
			return &cloudv1.DescribeTenantRequest{Tenant: p.Tenant}
		}),
		"OperatorService/SetTenantPlan": plain(func(_ testing.TB, p *fixture) proto.Message {
			return &cloudv1.SetTenantPlanRequest{Tenant: p.Tenant, Plan: "unlimited", Reason: "test"}
		}),
		"OperatorService/SetOverride": plain(func(_ testing.TB, p *fixture) proto.Message {
			return &cloudv1.SetOverrideRequest{Tenant: p.Tenant, Name: "members_max", Value: 5000, Reason: "test", EndsAt: timestamppb.New(p.kit.Now().Add(time.Hour))}
		}),
		"OperatorService/RemoveOverride": plain(func(t testing.TB, p *fixture) proto.Message {
			p.in(t, func(ctx context.Context, tx *store.Tx) error {
				return tx.PutOverride(ctx, store.Override{TenantID: p.TenantID, Name: "keys_max", Value: 5000, Reason: "test", CreatedAt: p.kit.Now()})
			})
			return &cloudv1.RemoveOverrideRequest{Tenant: p.Tenant, Name: "keys_max", Reason: "test"}
		}),
		"OperatorService/ListPlanVersions": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.ListPlanVersionsRequest) }),
		"OperatorService/ApplyPlan": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.ApplyPlanRequest{ValidateOnly: true, Spec: &cloudv1.PlanSpec{Name: "gold", Title: "Gold", Rank: 60, Currency: "usd", OverLimit: "hold_dispatch"}}
		}),
		"OperatorService/GetReconciliation": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.GetReconciliationRequest) }),
		"OperatorService/RunReconciliation": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.RunReconciliationRequest) }),
	}
}

// operators are everybody who was named one, in each way in which they may call.
func (p *fixture) operators(t testing.TB) map[string][]string {
	// Each is a person of their own: some calls end a person's other sessions.
	admin := func() store.User { return p.operator(t, store.OperatorAdmin) }
	bare, member := p.stranger(t), p.userWithFactor(t, viewer)
	p.name(t, bare, store.OperatorAdmin)
	p.name(t, member, store.OperatorAdmin)
	return map[string][]string{
		"operator-viewer":              browser(p.provedSession(t, p.operator(t, store.OperatorViewer), 0)),
		"operator-admin":               browser(p.provedSession(t, admin(), 0)),
		"operator-admin-proved-before": browser(p.provedSession(t, admin(), session.LimitedLifeMax)),
		"operator-admin-unproved":      browser(p.sessionOf(t, admin(), "")),
		"operator-admin-no-factor":     browser(p.sessionOf(t, bare, "")),
		"operator-admin-by-invitation": browser(p.limitedProvedSession(t, admin())),
		"operator-admin-cli":           p.cliOf(t, admin(), ""),
		"operator-admin-personal-key":  p.personalKeyOf(t, member),
	}
}

// operator is a person with a second factor who is in no tenant.
func (p *fixture) operator(t testing.TB, role string) store.User {
	u := p.stranger(t)
	p.giveFactor(t, u, p.kit.Now())
	p.name(t, u, role)
	return u
}

// stranger is in no tenant.
func (p *fixture) stranger(t testing.TB) store.User {
	u := store.User{ID: p.id(ids.User), CreatedAt: p.kit.Now()}
	u.Email = strings.ToLower(u.ID) + "@corvo.test"
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertUser(ctx, u) })
	return u
}

// name makes a user an operator.
func (p *fixture) name(t testing.TB, u store.User, role string) {
	t.Helper()
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.PutOperator(ctx, store.Operator{UserID: u.ID, Role: role, AddedAt: p.kit.Now(), AddedBy: "test"})
	})
}

// provedSession is that of a user who showed a second factor some time ago.
func (p *fixture) provedSession(t testing.TB, u store.User, ago time.Duration) (cookie string) {
	return p.prove(t, p.sessionOf(t, u, ""), ago)
}

func (p *fixture) limitedProvedSession(t testing.TB, u store.User) (cookie string) {
	return p.prove(t, p.sessionOf(t, u, p.TenantID), 0)
}

func (p *fixture) prove(t testing.TB, cookie string, ago time.Duration) string {
	t.Helper()
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.ProveSession(ctx, seal.Digest(strings.TrimPrefix(cookie, "corvo_session=")), p.kit.Now().Add(-ago))
	})
	return cookie
}

func TestOperators_AreToldWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := s.newFixture(t, "acme")
	all := p.operators(t)
	const read, change = "/corvo.cloud.v1.OperatorService/ListTenants", "/corvo.cloud.v1.OperatorService/ApplyPlan"
	for name, want := range map[string][2]string{
		"operator-viewer": {"", "OPERATOR_VIEWER"}, "operator-admin": {"", "INVALID_ARGUMENT"}, "operator-admin-proved-before": {"", "STEP_UP_REQUIRED"},
		"operator-admin-unproved": {"STEP_UP_REQUIRED", "STEP_UP_REQUIRED"}, "operator-admin-no-factor": {"SECOND_FACTOR_SETUP_REQUIRED", "SECOND_FACTOR_SETUP_REQUIRED"},
		"operator-admin-by-invitation": {"OPERATOR_ONLY", "OPERATOR_ONLY"}, "operator-admin-cli": {"OPERATOR_ONLY", "OPERATOR_ONLY"},
		"operator-admin-personal-key": {"OPERATOR_ONLY", "OPERATOR_ONLY"},
	} {
		for i, call := range []string{read, change} {
			if r := s.call(t, call, `{}`, all[name]...); r.reason() != want[i] || (want[i] == "") != (r.status == http.StatusOK) {
				t.Errorf("%s %s: %d %s, want %q", call, name, r.status, r.body, want[i])
			}
		}
	}
}

// An operator who is removed is none from the next call on, and the identity says so.
func TestOperators_EndWithTheirRow(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := s.newFixture(t, "acme")
	u := p.operator(t, store.OperatorViewer)
	cookie := browser(p.provedSession(t, u, 0))
	const identity, read = "/corvo.cloud.v1.AuthService/GetCurrentIdentity", "/corvo.cloud.v1.OperatorService/GetReconciliation"
	if r := s.call(t, identity, `{}`, cookie...); !strings.Contains(r.body, `"operatorRole":"viewer"`) {
		t.Errorf("identity %s", r.body)
	}
	if r := s.call(t, identity, `{}`, p.cliOf(t, u, "")...); strings.Contains(r.body, "operatorRole") {
		t.Errorf("identity of a program %s", r.body)
	}
	if r := s.call(t, read, `{}`, cookie...); r.status != http.StatusOK {
		t.Errorf("before: %d %s", r.status, r.body)
	}
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.DeleteOperator(ctx, u.ID) })
	if r := s.call(t, read, `{}`, cookie...); r.reason() != "OPERATOR_ONLY" {
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
	if r := s.call(t, identity, `{}`, cookie...); strings.Contains(r.body, "operatorRole") {
		t.Errorf("identity afterwards %s", r.body)
	}
}

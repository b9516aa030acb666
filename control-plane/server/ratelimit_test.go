package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// newStageOf is a stage that is told who calls: tests come from one address.
func newStageOf(t testing.TB, peer func(*http.Request) string) *stage {
	t.Helper()
	s := newStage(t)
	s.config.Peer = peer
	if err := s.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.inner.Store(s.Handler())
	return s
}

// onPlan gives a tenant a plan with limits.
func (s *stage) onPlan(t testing.TB, p *fixture, plan string) {
	t.Helper()
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		tn, err := tx.GetTenant(ctx, p.TenantID)
		if err != nil {
			return err
		}
		tn.Plan = plan
		return tx.UpdateTenant(ctx, &tn)
	})
}

// TestAnonymous_MeetALimitBeforeTheDatabase floods calls that need no credential, and
// calls with a bad one, from one network.
func TestAnonymous_MeetALimitBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	bad := newKey(t, apikey.Management)
	for name, flood := range map[string]func(s *stage) reply{
		"no credential": func(s *stage) reply {
			return s.call(t, "/corvo.cloud.v1.SignupService/CheckName", `{"tenant":"some-name"}`, "Client", "203.0.113.7")
		},
		"a bad key": func(s *stage) reply {
			return s.call(t, whoami, "{}", append(bearer(bad), "Client", "203.0.113.7")...)
		},
		"a bad session": func(s *stage) reply {
			return s.call(t, whoami, "{}", append(browser("corvo_session=x"), "Client", "203.0.113.7")...)
		},
		"single sign-on": func(s *stage) reply {
			return s.do(t, http.MethodGet, "/auth/oidc/start?tenant=nobody", "", "Client", "203.0.113.7")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStageOf(t, func(r *http.Request) string { return r.Header.Get("Client") })
			p := s.newFixture(t, "acme")
			if r := s.call(t, whoami, "{}", append(bearer(p.manage), "Client", "203.0.113.7")...); r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
			const calls = 600
			refused := 0
			for range calls {
				if r := flood(s); r.status == http.StatusTooManyRequests {
					refused++
					if wait, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || wait < 1 {
						t.Fatalf("Retry-After %q", r.header.Get("Retry-After"))
					}
				}
			}
			if refused == 0 {
				t.Errorf("all of %d calls reached the database", calls)
			}
			// Callers at the same address whose credential was valid before are not affected.
			if name != "no credential" && name != "single sign-on" {
				if r := s.call(t, whoami, "{}", append(bearer(p.manage), "Client", "203.0.113.7")...); r.status != http.StatusOK {
					t.Errorf("a good key from the same address: %d %s", r.status, r.body)
				}
			}
			// Callers elsewhere, or with a credential, do not notice.
			if r := s.call(t, "/corvo.cloud.v1.SignupService/CheckName", `{"tenant":"some-name"}`, "Client", "203.0.113.8"); r.status != http.StatusOK {
				t.Errorf("a neighbour: %d %s", r.status, r.body)
			}
			if r := s.call(t, whoami, "{}", append(bearer(p.manage), "Client", "198.51.100.1")...); r.status != http.StatusOK {
				t.Errorf("a key from elsewhere: %d %s", r.status, r.body)
			}
		})
	}
}

func TestWrites_ATenantMeetsItsOwnLimitOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.unlimited()
	free, other := s.newFixture(t, "acme"), s.newFixture(t, "other")
	s.onPlan(t, free, "free")
	s.onPlan(t, other, "free")
	update := func(p *fixture) reply {
		return s.call(t, "/corvo.cloud.v1.TenantService/UpdateTenant", `{"displayName":"x"}`, bearer(p.manage)...)
	}
	var r reply
	for range 2000 {
		if r = update(free); r.status != http.StatusOK {
			break
		}
	}
	if r.status != http.StatusTooManyRequests || !strings.Contains(r.body, "TOO_MANY_WRITES") || r.header.Get("Retry-After") == "" {
		t.Fatalf("%d %s, Retry-After %q", r.status, r.body, r.header.Get("Retry-After"))
	}
	if r := s.call(t, "/corvo.cloud.v1.TenantService/GetTenant", `{}`, bearer(free.manage)...); r.status != http.StatusOK {
		t.Errorf("reading: %d %s", r.status, r.body)
	}
	if r := update(other); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
}

package server

import (
	"net/http"
	"strings"
	"testing"
)

// What a tenant's people and keys were refused stands in its audit log; a stranger leaves
// nothing in it.
func TestRefusals_AreInTheAuditLogOfTheTenant(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p, other := s.newFixture(t, "acme"), s.newFixture(t, "globex")
	const create = "/corvo.cloud.v1.NamespaceService/CreateNamespace"
	as := p.key(t, viewer)
	for range 3 {
		if r := s.call(t, create, `{"name":"no-way"}`, as...); r.status != http.StatusForbidden {
			t.Fatalf("a viewer made a namespace: %+v", r)
		}
	}
	if r := s.call(t, create, `{"name":"no-way"}`, p.revokedKey(t)...); r.status != http.StatusUnauthorized {
		t.Fatalf("a revoked key: %+v", r)
	}
	if r := s.call(t, create, `{"name":"no-way","tenant":"acme"}`, bearer(other.manage)...); r.status != http.StatusNotFound {
		t.Fatalf("a stranger: %+v", r)
	}
	if err := s.refusals.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := s.call(t, "/corvo.cloud.v1.AuditService/ListAuditEvents", `{"action":"access.refuse"}`, bearer(p.manage)...)
	if n := strings.Count(log.body, `"access.refuse"`); n != 1 || !strings.Contains(log.body, "namespace.create") {
		t.Errorf("%d entries: %s", n, log.body)
	}
	log = s.call(t, "/corvo.cloud.v1.AuditService/ListAuditEvents", `{"action":"sign_in.refuse"}`, bearer(p.manage)...)
	if n := strings.Count(log.body, `"sign_in.refuse"`); n != 1 || !strings.Contains(log.body, "revoked") {
		t.Errorf("%d entries: %s", n, log.body)
	}
	none := s.call(t, "/corvo.cloud.v1.AuditService/ListAuditEvents", `{"action":"access.refuse"}`, bearer(other.manage)...)
	if strings.Contains(none.body, "access.refuse") {
		t.Errorf("another tenant's log has %s", none.body)
	}
}

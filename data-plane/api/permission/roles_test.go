package permission

import (
	"slices"
	"strings"
	"testing"
)

// What must hold of the fixed roles, however the list of permissions grows.
func TestRoles_Laws(t *testing.T) {
	t.Parallel()
	set := func(name string) Set {
		r, ok := FixedRole(name)
		if !ok {
			t.Fatalf("no role %s", name)
		}
		return r.Permissions
	}
	if set(RoleOwner) != Everything() {
		t.Error("an owner lacks something")
	}
	if set(RoleAdmin).Contains(set(RoleOwner)) {
		t.Error("an admin could make owners")
	}
	for _, name := range []string{RoleViewer, RoleAuditor} {
		for _, p := range set(name).List() {
			if verb := p.String()[strings.Index(p.String(), ".")+1:]; !slices.Contains([]string{"read", "list", "export", "review"}, verb) {
				t.Errorf("%s changes something: %s", name, p)
			}
		}
	}
	if s := set(RoleAuditor); s.Has(PayloadRead) || s.Has(JobList) {
		t.Error("an auditor sees jobs")
	}
	if !set(RoleOperator).Contains(set(RoleProducer)) || !set(RoleOperator).Contains(set(RoleWorker)) || !set(RoleDeveloper).Contains(set(RoleOperator)) {
		t.Error("an operator or developer lacks what its workers may")
	}
	if set(RoleAdmin).At(OfNamespace) != OfLevel(OfNamespace) || set(RoleAdmin).At(OfQueue) != OfLevel(OfQueue) {
		t.Error("an admin of a namespace lacks something in it")
	}
	for _, p := range []Permission{TenantUpdate, MemberInvite, RoleAssign, SSOUpdate, NamespaceDelete} {
		if set(RoleDeveloper).Has(p) {
			t.Errorf("a developer has %s", p)
		}
	}
	if _, ok := FixedRole("Owner"); ok {
		t.Error("names of roles are as written")
	}
}

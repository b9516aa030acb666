package access

import (
	"strings"
	"testing"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

func TestRoles_EveryRoleOfTheProtoHasItsRow(t *testing.T) {
	t.Parallel()
	for n, name := range cloudv1.TenantRole_name {
		want := strings.ToLower(strings.TrimPrefix(name, "TENANT_ROLE_"))
		r := cloudv1.TenantRole(n)
		if got := RoleName(r); got != want {
			t.Errorf("%s is called %q", name, got)
		}
		if known := r != cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED; known != (Permissions(r) != nil) {
			t.Errorf("%s may do %v", name, Permissions(r))
		}
	}
	for n, name := range cloudv1.NamespaceRole_name {
		r := cloudv1.NamespaceRole(n)
		word := NamespaceRoleName(r)
		if r == cloudv1.NamespaceRole_NAMESPACE_ROLE_UNSPECIFIED {
			if word != "" {
				t.Errorf("%s is called %q", name, word)
			}
			continue
		}
		if want := strings.ToLower(strings.TrimPrefix(name, "NAMESPACE_ROLE_")); word != want || NamespaceRoleOf(word) != r {
			t.Errorf("%s is called %q, which is %s", name, word, NamespaceRoleOf(word))
		}
	}
}

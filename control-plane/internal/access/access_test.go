package access

import (
	"strings"
	"testing"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// The enum of the control API and the list of both planes are one.
func TestPermissions_TheProtoSaysTheSame(t *testing.T) {
	t.Parallel()
	for _, i := range permission.All() {
		want := "PERMISSION_" + strings.ToUpper(strings.ReplaceAll(i.Name, ".", "_"))
		if got := cloudv1.Permission(i.Permission).String(); got != want {
			t.Errorf("%s is %s in the proto", i.Name, got)
		}
	}
	for n, name := range cloudv1.Permission_name {
		if p := permission.Permission(n); n > 4 && !p.Known() {
			t.Errorf("%s of the proto is no permission", name)
		}
	}
}

func TestEnters_WhatIsOfTheTenantMustBeHeldInAllOfIt(t *testing.T) {
	t.Parallel()
	c := Caller{Rights: Rights{Grants: permission.Grants{{Permissions: permission.Everything(), Namespaces: []string{"ns_1"}}}}}
	for p, want := range map[cloudv1.Permission]bool{
		cloudv1.Permission_PERMISSION_NAMESPACE_READ: true, cloudv1.Permission_PERMISSION_MEMBER_READ: false,
		cloudv1.Permission_PERMISSION_PUBLIC: false, cloudv1.Permission_PERMISSION_UNSPECIFIED: false,
	} {
		if got := c.Enters(p); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
	if !c.MayIn(permission.NamespaceUpdate, "ns_1") || c.MayIn(permission.NamespaceUpdate, "ns_2") || (Caller{}).Enters(cloudv1.Permission_PERMISSION_TENANT_READ) {
		t.Error("places are mixed up")
	}
}

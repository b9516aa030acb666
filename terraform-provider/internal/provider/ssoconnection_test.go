package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// A change that waits for a switch is what the next plan is compared with: else every plan
// would want to make it again.
func TestConnection_StagedSettingsAreTheSettings(t *testing.T) {
	t.Parallel()
	live := &cloudv1.SsoConnection{Issuer: "https://old", ClientId: "old", GroupsClaim: "groups", Enabled: true}
	if m := (connectionModel{}).from(live); m.Staged.ValueBool() || m.OIDC.Issuer.ValueString() != "https://old" {
		t.Fatalf("without a change: %+v", m)
	}
	live.Staged = &cloudv1.SsoChange{Issuer: "https://new", ClientId: "new", GroupsClaim: "roles", Scopes: []string{"more"}}
	m := connectionModel{}.from(live)
	if !m.Staged.ValueBool() || m.OIDC.Issuer.ValueString() != "https://new" || m.OIDC.ClientID.ValueString() != "new" || m.GroupsClaim.ValueString() != "roles" || len(m.OIDC.Scopes.Elements()) != 1 {
		t.Fatalf("with a staged change: %+v", m)
	}
	if paths := maskOf(m.changes(m)).GetPaths(); len(paths) > 0 {
		t.Fatalf("a plan of the same changes %v", paths)
	}
}

// What the metadata says isn't sent beside it, and isn't a change of its own.
func TestConnection_MetadataBringsWhatItSays(t *testing.T) {
	t.Parallel()
	was := connectionModel{}.from(&cloudv1.SsoConnection{Type: cloudv1.SsoType_SSO_TYPE_SAML, Saml: &cloudv1.SamlSettings{
		MetadataUrl: "https://idp/one", EntityId: "one", SsoUrl: "https://idp/sso", Certificates: []string{"c"},
	}})
	plan, saml := was, *was.SAML
	plan.SAML = &saml
	saml.MetadataURL, saml.EntityID, saml.SSOURL, saml.Certificates = types.StringValue("https://idp/two"), types.StringUnknown(), types.StringUnknown(), types.ListUnknown(types.StringType)
	if paths := maskOf(plan.changes(was)).GetPaths(); len(paths) != 1 || paths[0] != "saml.metadata_url" {
		t.Fatalf("another address changes %v", paths)
	}
	if r := plan.SAML.request(); r.GetMetadataUrl() != "https://idp/two" || r.GetEntityId() != "" || len(r.GetCertificates()) > 0 {
		t.Fatalf("sends %v", r)
	}
}

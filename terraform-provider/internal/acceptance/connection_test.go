package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/oidctest"
)

const connectionAddr = "corvo_sso_connection.this"

func connectionHCL(s *service, name, more string) string {
	return block(s, "") + fmt.Sprintf("resource \"corvo_sso_connection\" \"this\" {\n  name = %q\n  %s\n}\n", name, more)
}

func (o other) connection(ctx context.Context, id string) (*cloudv1.SsoConnection, error) {
	res, err := o.connections.ListSsoConnections(ctx, connect.NewRequest(&cloudv1.ListSsoConnectionsRequest{}))
	for _, c := range res.Msg.GetConnections() {
		if c.GetId() == id {
			return c, err
		}
	}
	return nil, err
}

func (o other) connectionGone(id *string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		c, err := o.connection(context.Background(), *id)
		if err == nil && c != nil {
			err = fmt.Errorf("connection %s is still there", *id)
		}
		return err
	}
}

// issuer says about itself what a provider of OpenID Connect must.
func issuer(t *testing.T) string {
	t.Helper()
	var url string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
			fmt.Fprint(w, `{"keys":[]}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{ // A provider that is cut off fails the test by itself.
			"issuer": url, "authorization_endpoint": url + "/auth", "token_endpoint": url + "/token", "jwks_uri": url + "/keys",
			"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
			"code_challenge_methods_supported": []string{"S256"},
		})
	}))
	t.Cleanup(srv.Close)
	url = srv.URL
	return url
}

func TestConnection_OfOpenIDConnectIsCreatedChangedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a, b, at := s.other(), name(t, "oa"), name(t, "ob"), issuer(t)
	oidc := func(client, more string) string {
		return fmt.Sprintf("oidc = {\n    issuer = %q\n    client_id = %q\n    client_secret_wo = \"hunter2-%s\"\n    %s\n  }\n  ", at, client, client, more)
	}
	first := connectionHCL(s, a, oidc("one", "")+`client_secret_wo_version = 1`)
	second := connectionHCL(s, b, oidc("two", `scopes = ["groups"]`)+`client_secret_wo_version = 2
  groups_claim = "roles"
  default_role = "viewer"
  group_mappings = [{ group = "ops", role = "admin" }, { group = "dev", role = "developer" }]`)
	turned := strings.Replace(second, `[{ group = "ops", role = "admin" }, { group = "dev", role = "developer" }]`, `[{ group = "dev", role = "developer" }, { group = "ops", role = "admin" }]`, 1)
	var id string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.connectionGone(&id),
		Steps: []resource.TestStep{
			{Config: connectionHCL(s, a, ""), ExpectError: regexp.MustCompile(`(?s)one \(and only one\) of\s+\[saml\]`)},
			{Config: connectionHCL(s, a, oidc("one", "")+`enabled = true`), ExpectError: regexp.MustCompile(`(?s)enabled = false.*test\s+sign-in`)},
			{Config: connectionHCL(s, a, oidc("one", "")+`default_role = "emperor"`), ExpectError: regexp.MustCompile(`(?s)default_role.*viewer`)},
			{Config: first, Check: resource.ComposeAggregateTestCheckFunc(attribute(connectionAddr, "id", &id), resource.TestCheckResourceAttr(connectionAddr, "staged", "false"),
				resource.TestCheckResourceAttrSet(connectionAddr, "redirect_uri"), resource.TestCheckNoResourceAttr(connectionAddr, "oidc.client_secret_wo"))},
			{Config: first, PlanOnly: true},
			{ResourceName: connectionAddr, ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: []string{"client_secret_wo_version"}},
			{ResourceName: connectionAddr, ImportState: true, ImportStateId: "sso_none", ExpectError: regexp.MustCompile(`sso_none`)},
			{Config: second, ConfigPlanChecks: updates(connectionAddr), Check: resource.TestCheckResourceAttr(connectionAddr, "group_mappings.0.group", "ops")},
			{Config: second, PlanOnly: true},
			{Config: turned, ConfigPlanChecks: updates(connectionAddr), Check: resource.TestCheckResourceAttr(connectionAddr, "group_mappings.0.group", "dev")}, // The order counts.
			{Config: strings.Replace(turned, "groups_claim", "enabled = true\n  groups_claim", 1), ExpectError: regexp.MustCompile(`(?s)test\s+sign-in`)},
			{
				PreConfig: func() { // Drift.
					_, err := o.connections.UpdateSsoConnection(t.Context(), connect.NewRequest(&cloudv1.UpdateSsoConnectionRequest{
						ConnectionId: id, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"group_mappings"}},
					}))
					if err != nil {
						t.Fatal(err)
					}
				},
				Config: turned, ConfigPlanChecks: updates(connectionAddr), Check: resource.TestCheckResourceAttr(connectionAddr, "group_mappings.#", "2"),
			},
			{
				PreConfig: func() { // It disappears.
					if _, err := o.connections.DeleteSsoConnection(t.Context(), connect.NewRequest(&cloudv1.DeleteSsoConnectionRequest{ConnectionId: id})); err != nil {
						t.Fatal(err)
					}
				},
				Config: turned, ConfigPlanChecks: planned(connectionAddr, plancheck.ResourceActionCreate), Check: attribute(connectionAddr, "id", &id),
			},
			{Config: first, ConfigPlanChecks: updates(connectionAddr), Check: resource.TestCheckNoResourceAttr(connectionAddr, "group_mappings.#")},
		},
	})
}

// A secret that is given later is sent with the first number.
func TestConnection_FirstNumberSendsTheSecret(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, n, at := s.other(), name(t, "later"), issuer(t)
	hcl := func(secret, more string) string {
		return connectionHCL(s, n, fmt.Sprintf("oidc = {\n    issuer = %q\n    client_id = \"c\"\n    %s\n  }\n  %s", at, secret, more))
	}
	var id string
	has := func(want bool) resource.TestCheckFunc {
		return func(*terraform.State) error {
			c, err := o.connection(context.Background(), id)
			if err == nil && c.GetHasClientSecret() != want {
				err = fmt.Errorf("has a secret: %v, want %v", c.GetHasClientSecret(), want)
			}
			return err
		}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.connectionGone(&id),
		Steps: []resource.TestStep{
			{Config: hcl("", ""), Check: resource.ComposeTestCheckFunc(attribute(connectionAddr, "id", &id), has(false))},
			{Config: hcl(`client_secret_wo = "hunter2"`, "client_secret_wo_version = 1"), ConfigPlanChecks: updates(connectionAddr), Check: has(true)},
		},
	})
}

func TestConnection_OfSAMLIsFilledInLaterImportedAndReplacedByOpenIDConnect(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a, at := s.other(), name(t, "sm"), issuer(t)
	full := connectionHCL(s, a, `saml = {
    entity_id = "https://idp.example.com"
    sso_url = "https://idp.example.com/sso"
    want_encrypted = true
    email_attribute = "mail"
  }`)
	var id string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.connectionGone(&id),
		Steps: []resource.TestStep{
			{Config: connectionHCL(s, a, "saml = {\n    metadata_url = \"https://idp.example.com/m\"\n    entity_id = \"x\"\n  }"), ExpectError: regexp.MustCompile(`(?s)entity_id.*cannot.*metadata_url`)},
			{Config: connectionHCL(s, a, `saml = {}`), Check: resource.ComposeAggregateTestCheckFunc(attribute(connectionAddr, "id", &id), resource.TestCheckResourceAttrSet(connectionAddr, "sp_metadata_url"),
				resource.TestCheckResourceAttrSet(connectionAddr, "sp_certificate"))},
			{Config: connectionHCL(s, a, `saml = {}`), PlanOnly: true},
			{Config: full, ConfigPlanChecks: updates(connectionAddr), Check: resource.TestCheckResourceAttr(connectionAddr, "saml.sign_requests", "false")},
			{Config: full, PlanOnly: true},
			{ResourceName: connectionAddr, ImportState: true, ImportStateVerify: true},
			{Config: connectionHCL(s, a, "oidc = {\n    issuer = \""+at+"\"\n    client_id = \"c\"\n  }"), ConfigPlanChecks: planned(connectionAddr, plancheck.ResourceActionReplace), Check: attribute(connectionAddr, "id", &id)},
		},
	})
}

// A change of how people sign in waits, once the connection is on: Terraform has no diff for
// it and can't switch, a person does.
func TestConnection_AChangeOfWhatIsOnIsStagedUntilSomebodySwitches(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, n := s.other(), name(t, "staged")
	first, second := oidctest.Start(t, n+"@globex.test"), oidctest.Start(t, n+"@globex.test")
	hcl := func(p *oidctest.Provider, more string) string {
		return connectionHCL(s, n, fmt.Sprintf("oidc = {\n    issuer = %q\n    client_id = \"corvo\"\n    client_secret_wo = \"hunter2\"\n  }\n  client_secret_wo_version = 1\n  default_role = \"viewer\"\n  %s", p.URL, more))
	}
	var id string
	live := func(want *oidctest.Provider, staged bool) resource.TestCheckFunc {
		return func(*terraform.State) error {
			c, err := o.connection(context.Background(), id)
			if err == nil && (c.GetIssuer() != want.URL || (c.GetStaged() != nil) != staged || !c.GetEnabled()) {
				err = fmt.Errorf("people sign in with %s, want %s; staged: %v", c.GetIssuer(), want.URL, c.GetStaged())
			}
			return err
		}
	}
	const on = "enabled = true"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.connectionGone(&id),
		Steps: []resource.TestStep{
			{Config: hcl(first, ""), Check: attribute(connectionAddr, "id", &id)},
			{Config: hcl(first, on), ExpectError: regexp.MustCompile(`(?s)test\s+sign-in`)},
			{PreConfig: func() { s.tryOut(t, id) }, Config: hcl(first, on), ConfigPlanChecks: updates(connectionAddr), Check: live(first, false)},
			{
				Config: hcl(second, on), ConfigPlanChecks: updates(connectionAddr),
				Check: resource.ComposeAggregateTestCheckFunc(live(first, true), resource.TestCheckResourceAttr(connectionAddr, "staged", "true"), resource.TestCheckResourceAttr(connectionAddr, "oidc.issuer", second.URL)),
			},
			{Config: hcl(second, on), PlanOnly: true}, // Waiting is no difference.
			{Config: hcl(second, on+"\n  group_mappings = [{ group = \"ops\", role = \"operator\" }]"), ConfigPlanChecks: updates(connectionAddr), Check: live(first, true)}, // Roles aren't staged.
			{
				PreConfig: func() { // Somebody discards it: Terraform stages it again.
					must(o.connections.DiscardSsoChange(t.Context(), connect.NewRequest(&cloudv1.DiscardSsoChangeRequest{ConnectionId: id})))(t)
				},
				Config: hcl(second, on), ConfigPlanChecks: updates(connectionAddr), Check: live(first, true),
			},
			{
				PreConfig: func() {
					s.tryOut(t, id)
					must(o.connections.SwitchSsoConnection(t.Context(), connect.NewRequest(&cloudv1.SwitchSsoConnectionRequest{ConnectionId: id})))(t)
				},
				RefreshState: true, Check: resource.ComposeAggregateTestCheckFunc(live(second, false), resource.TestCheckResourceAttr(connectionAddr, "staged", "false")),
			},
			{Config: hcl(second, on), PlanOnly: true},
		},
	})
}

// Metadata is read once, when it is set or changed, and brings the provider's side.
func TestConnection_SAMLMetadataBringsTheProvidersSide(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, n := s.other(), name(t, "md")
	const first, second = "https://one.example.com", "https://two.example.com"
	document := metadataXML(t, second)
	by := func(settings string) string {
		return connectionHCL(s, n, "saml = {\n    "+settings+"\n    want_encrypted = true\n  }")
	}
	says := func(entity string) resource.TestCheckFunc {
		return resource.ComposeAggregateTestCheckFunc(resource.TestCheckResourceAttr(connectionAddr, "saml.entity_id", entity), resource.TestCheckResourceAttr(connectionAddr, "saml.sso_url", entity+"/sso"),
			resource.TestCheckResourceAttr(connectionAddr, "saml.certificates.#", "1"), resource.TestCheckResourceAttr(connectionAddr, "saml.want_encrypted", "true"))
	}
	address := fmt.Sprintf("metadata_url = %q", metadata(t, first))
	inline := fmt.Sprintf("metadata_xml = %q", document)
	var id string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.connectionGone(&id),
		Steps: []resource.TestStep{
			{Config: by(`metadata_xml = "<nonsense/>"`), ExpectError: regexp.MustCompile(`(?s)saml.*metadata`)},
			{Config: by(address), Check: resource.ComposeAggregateTestCheckFunc(attribute(connectionAddr, "id", &id), says(first))},
			{Config: by(address), PlanOnly: true},
			{ResourceName: connectionAddr, ImportState: true, ImportStateVerify: true},
			{Config: by(inline), ConfigPlanChecks: updates(connectionAddr), Check: says(second)},
			{Config: by(inline), PlanOnly: true},
			{Config: by(address), ConfigPlanChecks: updates(connectionAddr), Check: says(first)},
			{Config: by(address + "\n    email_attribute = \"mail\""), ConfigPlanChecks: updates(connectionAddr), Check: says(first)},
			{Config: by(""), ConfigPlanChecks: updates(connectionAddr), Check: resource.ComposeAggregateTestCheckFunc(says(first), resource.TestCheckNoResourceAttr(connectionAddr, "saml.metadata_url"))},
			{Config: by(""), PlanOnly: true},
			{Config: by(address), ConfigPlanChecks: updates(connectionAddr), Check: says(first)},
			{Config: by(fmt.Sprintf("entity_id = %q", second)), ConfigPlanChecks: updates(connectionAddr), Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr(connectionAddr, "saml.entity_id", second), resource.TestCheckResourceAttr(connectionAddr, "saml.sso_url", first+"/sso"),
				resource.TestCheckResourceAttr(connectionAddr, "saml.certificates.#", "1"))},
		},
	})
}

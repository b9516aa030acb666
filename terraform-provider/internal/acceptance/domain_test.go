package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

func (o other) domainGone(id *string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		_, err := o.domains.GetDomain(context.Background(), connect.NewRequest(&cloudv1.GetDomainRequest{DomainId: *id}))
		return missing("domain", err)
	}
}

func TestDomain_IsCreatedImportedAndReleased(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a := s.other(), name(t, "da")+".example.com"
	const addr = "corvo_domain.this"
	hcl := func(name, more string) string {
		return block(s, "") + fmt.Sprintf("resource \"corvo_domain\" \"this\" {\n  name = %q\n  %s\n}\n", name, more)
	}
	var id string
	same := func(want *string) resource.TestCheckFunc {
		return func(st *terraform.State) error { return resource.TestCheckResourceAttr(addr, "id", *want)(st) }
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.domainGone(&id),
		Steps: []resource.TestStep{
			{Config: hcl("co.uk", ""), ExpectError: regexp.MustCompile(`(?s)public suffix`)},
			{Config: hcl(a, `connection_id = "sso_none"`), ExpectError: regexp.MustCompile(`(?s)connection_id.*sso_none`)},
			{Config: hcl(a, ""), Check: resource.ComposeAggregateTestCheckFunc(attribute(addr, "id", &id), resource.TestCheckResourceAttr(addr, "verified", "false"),
				resource.TestCheckResourceAttr(addr, "txt_name", "_corvo-challenge."+a), resource.TestMatchResourceAttr(addr, "txt_value", regexp.MustCompile(`^corvo-domain-verification=.{40,}$`)))},
			{Config: hcl(a, ""), PlanOnly: true},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true, ImportStateId: a},
			{
				PreConfig: func() { // It disappears.
					if _, err := o.domains.DeleteDomain(t.Context(), connect.NewRequest(&cloudv1.DeleteDomainRequest{DomainId: id})); err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(a, ""), ConfigPlanChecks: planned(addr, plancheck.ResourceActionCreate), Check: attribute(addr, "id", &id),
			},
			{Config: hcl(strings.ToUpper(a)+".", ""), ConfigPlanChecks: updates(addr), Check: same(&id)}, // As it is written.
			{Config: hcl(strings.ToUpper(a)+".", ""), PlanOnly: true},
			{Config: hcl("sub."+a, ""), ConfigPlanChecks: planned(addr, plancheck.ResourceActionReplace), Check: attribute(addr, "id", &id)},
		},
	})
}

func TestDomain_ConnectionIsChangedInPlace(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a := s.other(), name(t, "dc")+".example.com"
	made, err := o.connections.CreateSsoConnection(t.Context(), connect.NewRequest(&cloudv1.CreateSsoConnectionRequest{Name: name(t, "saml"), Type: cloudv1.SsoType_SSO_TYPE_SAML}))
	if err != nil {
		t.Fatal(err)
	}
	connection := made.Msg.GetConnection().GetId()
	const addr = "corvo_domain.this"
	hcl := func(connection string) string {
		return block(s, "") + fmt.Sprintf("resource \"corvo_domain\" \"this\" {\n  name = %q\n  connection_id = %q\n}\n", a, connection)
	}
	var id string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.domainGone(&id),
		Steps: []resource.TestStep{
			{Config: hcl(""), Check: attribute(addr, "id", &id)},
			{Config: hcl(connection), ConfigPlanChecks: updates(addr), Check: resource.TestCheckResourceAttr(addr, "connection_id", connection)},
			{
				PreConfig: func() { // Drift.
					_, err := o.domains.UpdateDomain(t.Context(), connect.NewRequest(&cloudv1.UpdateDomainRequest{DomainId: id, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"connection_id"}}}))
					if err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(connection), ConfigPlanChecks: updates(addr), Check: resource.TestCheckResourceAttr(addr, "connection_id", connection),
			},
		},
	})
}

func TestDomainVerification_WaitsForTheRecord(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a := s.other(), name(t, "dv")+".example.com"
	const addr = "corvo_domain_verification.this"
	m := startFaultProxy(t, s)
	hcl := block(s, m.URL) + fmt.Sprintf("resource \"corvo_domain\" \"this\" {\n  name = %q\n}\nresource \"corvo_domain_verification\" \"this\" {\n  domain_id = corvo_domain.this.id\n}\n", a)
	var id string
	m.Decide(func(call string, nth int) faulttest.Fate { // The record is there once it was looked for in vain.
		if call == "VerifyDomain" && nth == 2 {
			res, err := o.domains.GetDomain(t.Context(), connect.NewRequest(&cloudv1.GetDomainRequest{DomainId: a}))
			if err != nil {
				return faulttest.Fate{Status: http.StatusForbidden} // Ends the apply, and so the test.
			}
			theLab.dns.set(res.Msg.GetDomain().GetTxtName(), res.Msg.GetDomain().GetTxtValue())
		}
		return faulttest.Fate{}
	})
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.domainGone(&id),
		Steps: []resource.TestStep{
			{Config: hcl, Check: resource.ComposeAggregateTestCheckFunc(attribute("corvo_domain.this", "id", &id), resource.TestCheckResourceAttrSet(addr, "verified_at"))},
			{RefreshState: true, Check: resource.TestCheckResourceAttr("corvo_domain.this", "verified", "true")},
			{Config: hcl, PlanOnly: true},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true, ImportStateId: a},
		},
	})
}

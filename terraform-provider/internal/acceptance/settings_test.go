package acceptance

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// Other tests share the tenant, so none of this keeps anybody out.
func TestTenantSettings_AreChangedImportedAndTurnedOff(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o := s.other()
	const addr = "corvo_tenant_settings.this"
	hcl := func(more string) string {
		return block(s, "") + fmt.Sprintf("resource \"corvo_tenant_settings\" \"this\" {\n  %s\n}\n", more)
	}
	off := func(*terraform.State) error {
		res, err := o.policy.GetSignInPolicy(context.Background(), connect.NewRequest(&cloudv1.GetSignInPolicyRequest{}))
		if err == nil && res.Msg.GetPolicy().GetSessionIdleSeconds() != 0 {
			err = fmt.Errorf("still there: %v", res.Msg.GetPolicy())
		}
		return err
	}
	row := every{
		kind: "corvo_tenant_settings", first: map[string]any{"session_idle_seconds": 28800}, second: map[string]any{"session_life_seconds": 604800}, third: map[string]any{"session_idle_seconds": 3600},
		etagged: true, stays: true,
	}
	row.check(t, s)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             off,
		Steps: []resource.TestStep{
			{Config: hcl(`session_idle_seconds = 5`), ExpectError: regexp.MustCompile(`(?s)session_idle_seconds.*900`)},
			{Config: hcl(`require_sso = true`), ExpectError: regexp.MustCompile(`(?s)lock.yourselves|break-glass`)},
			{Config: hcl(`session_idle_seconds = 28800`), Check: resource.TestCheckResourceAttr(addr, "require_second_factor", "false")},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true},
			{Config: hcl("session_idle_seconds = 28800\n  session_life_seconds = 604800\n  audit_payload_reads = true\n  audit_retention_seconds = 31536000"), ConfigPlanChecks: updates(addr)},
			{
				PreConfig: func() { // Drift.
					_, err := o.policy.UpdateSignInPolicy(t.Context(), connect.NewRequest(&cloudv1.UpdateSignInPolicyRequest{
						Policy: &cloudv1.SignInPolicy{SessionIdleSeconds: 3600}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"session_idle_seconds"}},
					}))
					if err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(`session_idle_seconds = 28800`), ConfigPlanChecks: updates(addr), Check: resource.TestCheckResourceAttr(addr, "session_idle_seconds", "28800"),
			},
		},
	})
}

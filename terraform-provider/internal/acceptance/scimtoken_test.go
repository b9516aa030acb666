package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

const scimAddr = "corvo_scim_token.this"

func scimHCL(secret apikey.Key, version int, more string) string {
	return fmt.Sprintf("resource \"corvo_scim_token\" \"this\" {\n  connection_id = corvo_sso_connection.this.id\n  secret_wo = %q\n  secret_wo_version = %d\n  %s\n}\n", secret.Reveal(), version, more)
}

// syncs reports whether the door for directories opens to tokens.
func syncs(s *service, want bool, tokens ...apikey.Key) resource.TestCheckFunc {
	return func(*terraform.State) error {
		for _, k := range tokens {
			req, err := http.NewRequest(http.MethodGet, s.endpoint()+"/scim/v2/Users", nil)
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+k.Reveal())
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			if err := res.Body.Close(); err != nil || (res.StatusCode == http.StatusOK) != want {
				return errors.Join(err, fmt.Errorf("token %s: status %d, want it to work: %v", k.ID(), res.StatusCode, want))
			}
		}
		return nil
	}
}

func (o other) scimToken(ctx context.Context, connection, id string) (*cloudv1.ScimToken, error) {
	res, err := o.directory.ListScimTokens(ctx, connect.NewRequest(&cloudv1.ListScimTokensRequest{ConnectionId: connection}))
	if err != nil {
		return nil, err
	}
	for _, v := range res.Msg.GetTokens() {
		if v.GetId() == id {
			return v, nil
		}
	}
	return nil, fmt.Errorf("no token %s", id)
}

func TestSCIMToken_IsCreatedChangedRotatedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a := s.other(), name(t, "st")
	first, second, third, fourth := newKey(t, apikey.SCIM), newKey(t, apikey.SCIM), newKey(t, apikey.SCIM), newKey(t, apikey.SCIM)
	head := connectionHCL(s, a, "saml = {}\n  default_role = \"viewer\"")
	var connection string
	ends := func(id string, from, to time.Duration) resource.TestCheckFunc {
		return func(*terraform.State) error {
			v, err := o.scimToken(context.Background(), connection, id)
			if left := time.Until(v.GetExpiresAt().AsTime()); err == nil && (left < from || left > to) {
				err = fmt.Errorf("%s ends in %s, want %s to %s", id, left, from, to)
			}
			return err
		}
	}
	const day = 24 * time.Hour
	in := func(d time.Duration) string {
		return fmt.Sprintf("expires_at = %q", time.Now().Add(d).UTC().Format(time.RFC3339))
	}
	month, quarter := in(30*day), in(90*day)
	unread := []string{"secret_wo_version"}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             syncs(s, false, first, second, third, fourth),
		Steps: []resource.TestStep{
			{Config: head + scimHCL(newKey(t, apikey.Management), 1, ""), ExpectError: regexp.MustCompile(`(?s)kind mg.*scim`)},
			{Config: head + scimHCL(first, 1, in(800*day)), ExpectError: regexp.MustCompile(`(?s)expires_at.*730 days`)},
			{
				Config: head + scimHCL(first, 1, ""),
				Check: resource.ComposeAggregateTestCheckFunc(attribute(connectionAddr, "id", &connection), syncs(s, true, first), resource.TestCheckResourceAttr(scimAddr, "id", first.ID()),
					resource.TestCheckResourceAttr(scimAddr, "endpoint_url", s.endpoint()+"/scim/v2"), resource.TestCheckNoResourceAttr(scimAddr, "secret_wo")),
			},
			{Config: head + scimHCL(second, 1, ""), PlanOnly: true}, // Another secret under the same number, as ephemeral ones are.
			{ResourceName: scimAddr, ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: unread},
			{
				ResourceName: scimAddr, ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: unread,
				ImportStateIdFunc: func(*terraform.State) (string, error) { return connection + "/" + first.ID(), nil },
			},
			{ResourceName: scimAddr, ImportState: true, ImportStateId: first.Reveal(), ExpectError: regexp.MustCompile(`whole token with its secret`)},
			{ResourceName: scimAddr, ImportState: true, ImportStateId: "key_000000000000", ExpectError: regexp.MustCompile(`key_000000000000`)},
			{Config: head + scimHCL(first, 1, month), ConfigPlanChecks: updates(scimAddr), Check: ends(first.ID(), 29*day, 30*day)},
			{
				PreConfig: func() { // Drift.
					if _, err := o.directory.UpdateScimToken(t.Context(), connect.NewRequest(&cloudv1.UpdateScimTokenRequest{
						TokenId: first.ID(), ExpiresAt: timestamppb.New(time.Now().Add(day)),
					})); err != nil {
						t.Fatal(err)
					}
				},
				Config: head + scimHCL(first, 1, month), ConfigPlanChecks: updates(scimAddr), Check: ends(first.ID(), 29*day, 30*day),
			},
			{Config: head + scimHCL(first, 2, month), ExpectError: regexp.MustCompile(`Not a new token`)},
			{
				Config: head + scimHCL(second, 2, quarter+"\n  rotation_overlap = \"1h\""), ConfigPlanChecks: updates(scimAddr),
				Check: resource.ComposeAggregateTestCheckFunc(syncs(s, true, first, second), ends(first.ID(), 50*time.Minute, time.Hour), ends(second.ID(), 89*day, 90*day),
					resource.TestCheckResourceAttr(scimAddr, "retiring.0.key_id", first.ID())),
			},
			{Config: head + scimHCL(second, 2, quarter), ConfigPlanChecks: updates(scimAddr)}, // Only how long the next one overlaps.
			{Config: head + scimHCL(third, 3, quarter), ExpectError: regexp.MustCompile(`(?s)more\s+than\s+2\s+tokens.*retiring`)},
			{
				PreConfig: func() {
					if _, err := o.directory.RevokeScimToken(t.Context(), connect.NewRequest(&cloudv1.RevokeScimTokenRequest{TokenId: first.ID()})); err != nil {
						t.Fatal(err)
					}
				},
				Config: head + scimHCL(third, 3, "rotation_overlap = \"0s\""), ConfigPlanChecks: updates(scimAddr),
				Check: resource.ComposeAggregateTestCheckFunc(syncs(s, false, second), syncs(s, true, third), ends(third.ID(), 364*day, 365*day)),
			},
			{
				PreConfig: func() { // It disappears.
					if _, err := o.directory.RevokeScimToken(t.Context(), connect.NewRequest(&cloudv1.RevokeScimTokenRequest{TokenId: third.ID()})); err != nil {
						t.Fatal(err)
					}
				},
				Config: head + scimHCL(fourth, 4, ""), ConfigPlanChecks: planned(scimAddr, plancheck.ResourceActionCreate), Check: syncs(s, true, fourth),
			},
		},
	})
}

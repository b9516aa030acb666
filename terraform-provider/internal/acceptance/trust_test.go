package acceptance

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

const (
	trustAddr     = "corvo_trust.this"
	clusterIssuer = "https://kubernetes.default.svc"
	podSubject    = "system:serviceaccount:prod:web"
)

// cluster signs tokens of a Kubernetes cluster that nobody can reach.
func cluster(t *testing.T) (jwks string, token func(audience string) string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString
	part := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text(raw)
	}
	set, err := json.Marshal(map[string]any{"keys": []any{map[string]any{"kty": "RSA", "kid": "k", "use": "sig", "n": text(key.N.Bytes()), "e": "AQAB"}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(set), func(audience string) string {
		now := time.Now()
		signed := part(map[string]any{"alg": "RS256", "kid": "k"}) + "." + part(map[string]any{
			"iss": clusterIssuer, "aud": []string{audience}, "sub": podSubject, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": rand.Text(),
		})
		sum := sha256.Sum256([]byte(signed))
		signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return signed + "." + text(signature)
	}
}

// trustHCL is a trust and the service account that it is for.
func trustHCL(name, jwks, more string) string {
	return fmt.Sprintf(`
resource "corvo_service_account" "this" {
  name = %q
}
resource "corvo_trust" "this" {
  name               = %q
  service_account_id = corvo_service_account.this.id
  token_provider     = "kubernetes"
  issuer             = %q
  jwks               = %q
  %s
}
`, name, name, clusterIssuer, jwks, more)
}

const podConditions = `conditions = { sub = ["` + podSubject + `"] }`

func (o other) trustGone(id *string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		_, err := o.trusts.GetTrust(context.Background(), connect.NewRequest(&cloudv1.GetTrustRequest{Trust: *id}))
		return missing("trust", err)
	}
}

func TestTrust_IsCreatedChangedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a, ns := s.other(), name(t, "ta"), name(t, "tn")
	jwks, _ := cluster(t)
	hcl := func(more string) string { return block(s, "") + namespaceHCL(ns, "") + trustHCL(a, jwks, more) }
	first := hcl(podConditions)
	narrow := hcl(`conditions = { sub = ["system:serviceaccount:prod:*", "` + podSubject + `"], "kubernetes.io" = ["x"] }
  permissions = ["job.enqueue"]
  namespaces = [corvo_namespace.this.name]
  queues = ["mail-*"]
  cidrs = ["203.0.113.7"]
  key_life_seconds = 600
  allow_reuse = true`)
	var id string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.trustGone(&id),
		Steps: []resource.TestStep{
			{Config: hcl(`conditions = {}`), ExpectError: regexp.MustCompile(`(?s)conditions.*at least 1`)},
			{Config: hcl(`conditions = { iss = ["x"] }`), ExpectError: regexp.MustCompile(`(?s)conditions.*checked\s+for\s+every\s+token`)},
			{Config: first, Check: resource.ComposeAggregateTestCheckFunc(attribute(trustAddr, "id", &id), resource.TestMatchResourceAttr(trustAddr, "audience", regexp.MustCompile(`^http.*/.+`)),
				resource.TestCheckResourceAttr(trustAddr, "key_life_seconds", "900"))},
			{Config: first, PlanOnly: true},
			{ResourceName: trustAddr, ImportState: true, ImportStateVerify: true},
			{ResourceName: trustAddr, ImportState: true, ImportStateVerify: true, ImportStateId: a},
			{Config: narrow, ConfigPlanChecks: updates(trustAddr), Check: resource.TestCheckResourceAttr(trustAddr, "namespaces.0", ns)},
			{Config: narrow, PlanOnly: true},
			{Config: first, ConfigPlanChecks: updates(trustAddr), Check: resource.TestCheckNoResourceAttr(trustAddr, "queues.#")},
			{
				PreConfig: func() { // Drift.
					_, err := o.trusts.UpdateTrust(t.Context(), connect.NewRequest(&cloudv1.UpdateTrustRequest{
						TrustId: id, AllowReuse: true, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"allow_reuse"}},
					}))
					if err != nil {
						t.Fatal(err)
					}
				},
				Config: first, ConfigPlanChecks: updates(trustAddr), Check: resource.TestCheckResourceAttr(trustAddr, "allow_reuse", "false"),
			},
			{
				PreConfig: func() { // It disappears.
					if _, err := o.trusts.DeleteTrust(t.Context(), connect.NewRequest(&cloudv1.DeleteTrustRequest{TrustId: id})); err != nil {
						t.Fatal(err)
					}
				},
				Config: first, ConfigPlanChecks: planned(trustAddr, plancheck.ResourceActionCreate), Check: attribute(trustAddr, "id", &id),
			},
		},
	})
}

// The whole way without a stored key: one block exchanges, the other works with the key. The
// trust lets a token count twice, because Terraform plans and then applies.
func TestAccessToken_IsTheTokenOfAnotherProviderBlock(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a, ns := s.other(), name(t, "at"), name(t, "kl")
	jwks, token := cluster(t)
	w := newWorkspace(t, s, "", trustHCL(a, jwks, podConditions+"\n  audience = \"corvo\"\n  allow_reuse = true")+`
resource "corvo_role_binding" "this" {
  principal_id = corvo_service_account.this.id
  role         = "admin"
}
`)
	w.apply()
	who, err := o.auth.GetCurrentIdentity(t.Context(), connect.NewRequest(&cloudv1.GetCurrentIdentityRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	tenant := who.Msg.GetTenants()[0].GetTenant()
	keyless := newWorkspace(t, s, "", "")
	hcl := func(text string) string {
		return required + fmt.Sprintf(`
provider "corvo" {
  alias     = "exchange"
  anonymous = true
}
ephemeral "corvo_access_token" "this" {
  provider = corvo.exchange
  tenant   = %q
  token    = %q
  trust    = %q
}
provider "corvo" {
  token = ephemeral.corvo_access_token.this.key
}
data "corvo_current_identity" "this" {}
output "key" {
  value = data.corvo_current_identity.this.key_id
}
resource "corvo_namespace" "this" {
  name = %q
}
`, tenant, text, a, ns)
	}
	secret := token("corvo")
	keyless.write("main.tf", hcl(secret))
	keyless.apply()
	if _, err := o.find(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if state := string(keyless.read("terraform.tfstate")); regexp.MustCompile(`corvo_tmp_[0-9A-Za-z]{20}|eyJ`).MatchString(state) {
		t.Fatalf("the state has a secret:\n%s", state)
	}
	keyless.destroy()
	keyless.write("main.tf", hcl(token("another")))
	if out, code := keyless.run("plan", "-no-color", "-input=false"); code == 0 || !regexp.MustCompile(`(?s)exchange\s+the\s+token.*audit\s+log`).MatchString(out) {
		t.Errorf("a token for somebody else ended with %d:\n%s", code, out)
	}
	keyless.write("main.tf", required+"provider \"corvo\" {\n  anonymous = true\n}\ndata \"corvo_current_identity\" \"this\" {}\n")
	if out, code := keyless.run("plan", "-no-color", "-input=false"); code == 0 || !regexp.MustCompile(`(?s)anonymous.*corvo_access_token`).MatchString(out) {
		t.Errorf("a block without a token ended with %d:\n%s", code, out)
	}
	w.destroy()
}

// The key works while Terraform runs, and no longer.
func TestAPIKey_OfARunIsRevokedAtItsEnd(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a := s.other(), name(t, "run")
	account := fmt.Sprintf("resource \"corvo_service_account\" \"this\" {\n  name = %q\n  force_destroy = true\n}\n", a)
	config := block(s, "") + account + `
ephemeral "corvo_api_key" "this" {
  name        = "run"
  kind        = "dp"
  owner_id    = corvo_service_account.this.id
  permissions = ["job.enqueue"]
  life        = "30m"
}
provider "echo" {
  data = ephemeral.corvo_api_key.this
}
resource "echo" "this" {}
`
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{Config: block(s, "") + account + "ephemeral \"corvo_api_key\" \"this\" {\n  name = \"run\"\n  kind = \"dp\"\n  owner_id = corvo_service_account.this.id\n  life = \"25h\"\n}\n", ExpectError: regexp.MustCompile(`Out of range`)},
			{Config: block(s, "") + account},
			{
				Config: config,
				Check: func(st *terraform.State) error {
					said := st.RootModule().Resources["echo.this"].Primary.Attributes
					k, err := apikey.Parse(said["data.key"])
					if err != nil {
						return err
					}
					at, err := time.Parse(time.RFC3339Nano, said["data.expires_at"])
					if left := time.Until(at); err != nil || left > 30*time.Minute || left < 20*time.Minute {
						return fmt.Errorf("expires at %q: %w", said["data.expires_at"], err)
					}
					return o.revoked(k)(st)
				},
			},
		},
	})
}

func TestPermissionAllows_SaysWhatIsInASet(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	hcl := func(call string) string { return block(s, "") + "output \"is\" {\n  value = " + call + "\n}\n" }
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{Config: hcl(`provider::corvo::permission_allows(["job.enqueue", "queue.read"], "queue.read")`), Check: resource.TestCheckOutput("is", "true")},
			{Config: hcl(`provider::corvo::permission_allows(["job.enqueue"], "queue.read")`), Check: resource.TestCheckOutput("is", "false")},
			{Config: hcl(`provider::corvo::permission_allows([], "queue.read")`), Check: resource.TestCheckOutput("is", "false")},
			{Config: hcl(`provider::corvo::permission_allows(["queue.fly"], "queue.read")`), ExpectError: regexp.MustCompile(`queue\.fly`)},
			{Config: hcl(`provider::corvo::permission_allows(["queue.read"], "queue.fly")`), ExpectError: regexp.MustCompile(`queue\.fly`)},
		},
	})
}

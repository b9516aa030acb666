package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

const keyAddr = "corvo_api_key.this"

func newKey(t *testing.T, kind apikey.Kind) apikey.Key {
	t.Helper()
	k, err := apikey.Generate(kind)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func keyHCL(name string, secret apikey.Key, version int, more string) string {
	return fmt.Sprintf("resource \"corvo_api_key\" \"this\" {\n  name = %q\n  kind = %q\n  secret_wo = %q\n  secret_wo_version = %d\n  %s\n}\n",
		name, secret.Kind(), secret.Reveal(), version, more)
}

func (o other) key(ctx context.Context, id string) (*cloudv1.ApiKey, error) {
	res, err := o.keys.GetApiKey(ctx, connect.NewRequest(&cloudv1.GetApiKeyRequest{KeyId: id}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetApiKey(), nil
}

func (o other) revoked(keys ...apikey.Key) resource.TestCheckFunc {
	return func(*terraform.State) error {
		for _, k := range keys {
			got, err := o.key(context.Background(), k.ID())
			if err != nil {
				return err
			}
			if got.GetRevokedAt() == nil {
				return fmt.Errorf("key %s was not revoked", k.ID())
			}
		}
		return nil
	}
}

// works reports whether a key for jobs may enqueue.
func works(s *service, k apikey.Key, want bool) resource.TestCheckFunc {
	return func(*terraform.State) error {
		req, err := http.NewRequest(http.MethodPost, s.url()+"/api/v1/enqueue", strings.NewReader(`{"queue":"probe","payload":{}}`))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+k.Reveal())
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		said, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		if got := res.StatusCode/100 == 2; got != want {
			return fmt.Errorf("key %s: status %d, want it to work: %v\n%s", k.ID(), res.StatusCode, want, said)
		}
		return nil
	}
}

func TestAPIKey_IsCreatedChangedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	ns := name(t, "keys")
	k := newKey(t, apikey.DataPlane)
	head := block(s, "") + namespaceHCL(ns, ``)
	all := []string{"secret_wo_version", "roles"}
	const scope, roles = "namespaces = [corvo_namespace.this.id]\n", `roles = ["producer", "worker"]` + "\n"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             resource.ComposeAggregateTestCheckFunc(s.other().revoked(k), s.other().namespacesGone(ns)),
		Steps: []resource.TestStep{
			{
				Config: head + keyHCL("ci", k, 1, scope+roles),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(keyAddr, tfjsonpath.New("key_id"), knownvalue.StringExact(k.ID())),
					statecheck.ExpectKnownValue(keyAddr, tfjsonpath.New("prefix"), knownvalue.StringExact("corvo_dp_"+k.ID()[4:])),
					statecheck.ExpectKnownValue(keyAddr, tfjsonpath.New("secret_wo"), knownvalue.Null()),
					statecheck.ExpectKnownValue(keyAddr, tfjsonpath.New("status"), knownvalue.StringExact("ready")),
					statecheck.ExpectKnownValue(keyAddr, tfjsonpath.New("versions"), knownvalue.ListSizeExact(1)),
				},
				Check: works(s, k, true), // At once, not after a while.
			},
			{
				ResourceName: keyAddr, ImportState: true, ImportStateId: k.ID(), ImportStateVerify: true,
				ImportStateVerifyIdentifierAttribute: "key_id", ImportStateVerifyIgnore: all,
			},
			{
				ResourceName: keyAddr, ImportState: true, ImportStateId: k.Reveal(),
				ExpectError: regexp.MustCompile(`whole key with its secret`),
			},
			{Config: head + keyHCL("ci two", k, 1, scope+roles), ConfigPlanChecks: updates(keyAddr)},
			{
				Config:           head + keyHCL("ci two", k, 1, scope+roles+`permissions = ["job.list"]`),
				ConfigPlanChecks: updates(keyAddr),
				Check:            works(s, k, false),
			},
			{
				Config:           head + keyHCL("ci two", k, 1, scope+roles+"permissions = [\"job.enqueue\"]\nqueues = [\"pro*\"]\ncidrs = [\"127.0.0.1\", \"::1/128\"]"),
				ConfigPlanChecks: updates(keyAddr),
				Check:            works(s, k, true),
			},
			{Config: head + keyHCL("ci two", k, 1, scope+roles+`queues = ["mail.*"]`), ConfigPlanChecks: updates(keyAddr), Check: works(s, k, false)},
			{Config: head + keyHCL("ci two", k, 1, scope+roles+`cidrs = ["203.0.113.0/24"]`), ConfigPlanChecks: updates(keyAddr), Check: works(s, k, false)},
			{Config: head + keyHCL("ci two", k, 1, scope+roles+"cidrs = []"), ConfigPlanChecks: updates(keyAddr), Check: works(s, k, true)},
			{
				Config:           head + keyHCL("ci two", k, 1, scope+roles+`expires_at = "2035-01-01T01:00:00+01:00"`),
				ConfigPlanChecks: updates(keyAddr),
				Check:            resource.TestCheckResourceAttr(keyAddr, "expires_at", "2035-01-01T01:00:00+01:00"),
			},
			{
				Config:           head + keyHCL("ci two", k, 1, scope+roles),
				ConfigPlanChecks: updates(keyAddr),
				Check:            resource.ComposeAggregateTestCheckFunc(resource.TestCheckNoResourceAttr(keyAddr, "expires_at"), works(s, k, true)),
			},
			{
				Config:      head + keyHCL("ci two", k, 1, scope+roles+`expires_at = "2001-01-01T00:00:00Z"`),
				ExpectError: regexp.MustCompile(`(?s)expires_at.*past.*Request id`),
			},
		},
	})
}

func TestAPIKey_OfKindManagementIsCreatedAndImported(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	k := newKey(t, apikey.Management)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().revoked(k),
		Steps: []resource.TestStep{
			{Config: block(s, "") + keyHCL("robot", k, 1, `roles = ["viewer"]`)},
			{
				ResourceName: keyAddr, ImportState: true, ImportStateId: k.ID(), ImportStateVerify: true,
				ImportStateVerifyIdentifierAttribute: "key_id", ImportStateVerifyIgnore: []string{"secret_wo_version", "roles"},
			},
		},
	})
}

func TestAPIKey_RotatesUnderItsIDWithOverlap(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	first := newKey(t, apikey.DataPlane)
	second, third := renew(t, first), renew(t, first)
	head := block(s, "")
	const roles = `roles = ["producer"]` + "\n"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().revoked(first),
		Steps: []resource.TestStep{
			{Config: head + keyHCL("r", first, 1, roles), Check: works(s, first, true)},
			// Another secret without another number, as ephemeral ones are: nothing happens.
			{
				Config:           head + keyHCL("r", second, 1, roles),
				ConfigPlanChecks: planned(keyAddr, plancheck.ResourceActionNoop),
				Check:            works(s, second, false),
			},
			{
				Config:           head + keyHCL("r", second, 2, roles+`rotation_overlap = "1h"`),
				ConfigPlanChecks: updates(keyAddr),
				Check: resource.ComposeAggregateTestCheckFunc(
					works(s, first, true), works(s, second, true),
					resource.TestCheckResourceAttr(keyAddr, "key_id", first.ID()), resource.TestCheckResourceAttr(keyAddr, "versions.#", "2"),
				),
			},
			{
				Config:      head + keyHCL("r", third, 3, roles+`rotation_overlap = "0s"`),
				ExpectError: regexp.MustCompile(`already\s+has\s+two\s+secrets`),
			},
		},
	})
}

func renew(t *testing.T, k apikey.Key) apikey.Key {
	t.Helper()
	n, err := apikey.Renew(k.Kind(), k.ID())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAPIKey_RotatesToAKeyOfAnotherIDWithOverlap(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	first, second, third := newKey(t, apikey.DataPlane), newKey(t, apikey.DataPlane), newKey(t, apikey.DataPlane)
	head := block(s, "")
	const roles = `roles = ["producer"]` + "\n"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().revoked(first, second, third),
		Steps: []resource.TestStep{
			{Config: head + keyHCL("s", first, 1, roles)},
			{
				Config:           head + keyHCL("s", second, 2, roles+`rotation_overlap = "1h"`),
				ConfigPlanChecks: updates(keyAddr),
				Check: resource.ComposeAggregateTestCheckFunc(
					works(s, first, true), works(s, second, true),
					resource.TestCheckResourceAttr(keyAddr, "key_id", second.ID()),
					resource.TestCheckResourceAttr(keyAddr, "retiring.0.key_id", first.ID()),
					func(*terraform.State) error {
						old, err := s.other().key(context.Background(), first.ID())
						if err != nil {
							return err
						}
						if left := time.Until(old.GetExpiresAt().AsTime()); left < 50*time.Minute || left > time.Hour {
							return fmt.Errorf("the old key ends in %s, want an hour", left)
						}
						return nil
					},
				),
			},
			{
				Config:           head + keyHCL("s", third, 3, roles+`rotation_overlap = "0s"`),
				ConfigPlanChecks: updates(keyAddr),
				Check: resource.ComposeAggregateTestCheckFunc(
					works(s, second, false), works(s, third, true), resource.TestCheckResourceAttr(keyAddr, "retiring.#", "1"),
				),
			},
		},
	})
}

// A rotation whose second half fails is kept, and finished by the next apply.
func TestAPIKey_RotationThatStopsHalfWayIsFinished(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	first, second := newKey(t, apikey.DataPlane), newKey(t, apikey.DataPlane)
	m := startFaultProxy(t, s)
	head := block(s, m.URL, `max_retries = 0`)
	const roles = `roles = ["producer"]` + "\n"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().revoked(first, second),
		Steps: []resource.TestStep{
			{Config: head + keyHCL("h", first, 1, roles)},
			{
				PreConfig: func() {
					m.Decide(func(call string, _ int) (f faulttest.Fate) {
						if call == "UpdateApiKey" {
							f.Status = http.StatusServiceUnavailable
						}
						return f
					})
				},
				Config:      head + keyHCL("h", second, 2, roles),
				ExpectError: regexp.MustCompile(`(?s)revoke the previous key.*next\s+apply\s+tries\s+again`),
			},
			{
				PreConfig:        func() { m.Decide(nil) },
				Config:           head + keyHCL("h", second, 2, roles),
				ConfigPlanChecks: updates(keyAddr),
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr(keyAddr, "key_id", second.ID()), resource.TestCheckResourceAttrSet(keyAddr, "retiring.0.expires_at"),
				),
			},
		},
	})
}

func TestAPIKey_DriftIsSeenAndCorrected(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	first, second := newKey(t, apikey.DataPlane), newKey(t, apikey.DataPlane)
	const roles = `roles = ["producer"]` + "\n"
	o := s.other()
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.revoked(first, second),
		Steps: []resource.TestStep{
			{Config: block(s, "") + keyHCL("d", first, 1, roles)},
			{
				PreConfig: func() {
					_, err := o.keys.UpdateApiKey(t.Context(), connect.NewRequest(&cloudv1.UpdateApiKeyRequest{
						KeyId: first.ID(), Name: "theirs", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}},
					}))
					if err != nil {
						t.Fatal(err)
					}
				},
				Config:           block(s, "") + keyHCL("d", first, 1, roles),
				ConfigPlanChecks: updates(keyAddr),
				Check:            resource.TestCheckResourceAttr(keyAddr, "name", "d"),
			},
			{
				PreConfig: func() {
					if _, err := o.keys.RevokeApiKey(t.Context(), connect.NewRequest(&cloudv1.RevokeApiKeyRequest{KeyId: first.ID()})); err != nil {
						t.Fatal(err)
					}
				},
				Config:           block(s, "") + keyHCL("d", second, 1, roles),
				ConfigPlanChecks: planned(keyAddr, plancheck.ResourceActionCreate),
				Check:            works(s, second, true),
			},
		},
	})
}

// The whole chain: the secret is formed in the run, the key works, and a second run, which
// forms another one, changes nothing.
func TestAPIKey_WithAnEphemeralSecretWorksAndDoesNotChurn(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	config := block(s, "") + `
ephemeral "corvo_api_key_secret" "this" {
  kind = "dp"
}
provider "echo" {
  data = ephemeral.corvo_api_key_secret.this
}
resource "echo" "this" {}
resource "corvo_api_key" "this" {
  name              = "chain"
  kind              = "dp"
  roles             = ["producer"]
  secret_wo         = ephemeral.corvo_api_key_secret.this.key
  secret_wo_version = 1
}
`
	var made apikey.Key
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(st *terraform.State) error { return s.other().revoked(made)(st) },
		Steps: []resource.TestStep{
			{
				Config: config,
				Check: func(st *terraform.State) error {
					text := st.RootModule().Resources["echo.this"].Primary.Attributes["data.key"]
					k, err := apikey.Parse(text)
					if err != nil {
						return err
					}
					made = k
					if id := st.RootModule().Resources[keyAddr].Primary.Attributes["key_id"]; id != k.ID() {
						return fmt.Errorf("state has %s, the secret is of %s", id, k.ID())
					}
					return works(s, k, true)(st)
				},
			},
			{Config: config, ConfigPlanChecks: planned(keyAddr, plancheck.ResourceActionNoop)},
		},
	})
}

// A key of roles has a service account of its own, which ends with it.
func TestAPIKey_OfRolesHasAServiceAccountThatEndsWithIt(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	first, second, third := newKey(t, apikey.DataPlane), newKey(t, apikey.DataPlane), newKey(t, apikey.DataPlane)
	n := name(t, "own")
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             resource.ComposeAggregateTestCheckFunc(s.other().revoked(first, second, third), s.other().accountGone(n)),
		Steps: []resource.TestStep{
			{Config: block(s, "") + keyHCL(n, first, 1, `roles = ["producer"]`), Check: resource.TestMatchResourceAttr(keyAddr, "owner_id", regexp.MustCompile(`^sa_`))},
			{
				Config:           block(s, "") + keyHCL(n, second, 2, `roles = ["worker"]`),
				ConfigPlanChecks: planned(keyAddr, plancheck.ResourceActionDestroyBeforeCreate),
				Check:            works(s, second, false),
			},
			{
				Config:           block(s, "") + keyHCL(n, second, 2, "roles = [\"worker\"]\nnamespaces = [\"default\"]"),
				ConfigPlanChecks: updates(keyAddr),
			},
			{
				Config:           block(s, "") + keyHCL(n, third, 3, `roles = ["worker"]`),
				ConfigPlanChecks: planned(keyAddr, plancheck.ResourceActionDestroyBeforeCreate),
			},
		},
	})
}

// A secret that was revoked with its key never works again, and a creation doesn't say it does.
func TestAPIKey_ARevokedSecretIsRefused(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	k := newKey(t, apikey.DataPlane)
	w := newWorkspace(t, s, "", keyHCL(name(t, "static"), k, 1, `roles = ["producer"]`))
	w.apply()
	w.destroy()
	said, code := w.run("apply", "-auto-approve", "-no-color", "-input=false")
	if code == 0 || !strings.Contains(said, "was revoked") {
		t.Errorf("a creation with the secret of a revoked key ended with %d:\n%s", code, said)
	}
}

// The service account of an imported key was there before, and stays.
func TestAPIKey_ThatWasImportedLeavesItsServiceAccount(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, n, k := s.other(), name(t, "shared"), newKey(t, apikey.DataPlane)
	account := must(o.accounts.CreateServiceAccount(t.Context(), connect.NewRequest(&cloudv1.CreateServiceAccountRequest{Name: n})))(t).GetServiceAccount().GetId()
	digest := k.Digest()
	must(o.keys.CreateApiKey(t.Context(), connect.NewRequest(&cloudv1.CreateApiKeyRequest{
		Name: n, Kind: cloudv1.KeyKind_KEY_KIND_JOBS, Owner: account, KeyId: k.ID(), Digest: digest[:],
	})))(t)
	w := newWorkspace(t, s, "", keyHCL(n, k, 1, `roles = ["producer"]`))
	w.must("import", "-no-color", "-input=false", keyAddr, k.ID())
	w.apply() // Notes the roles.
	w.settled()
	successor := newKey(t, apikey.DataPlane)
	w.write("main.tf", required+keyHCL(n+"-own", successor, 2, `roles = ["worker"]`))
	if said := w.apply(); !strings.Contains(said, "1 added, 0 changed, 1 destroyed") {
		t.Errorf("another role doesn't replace it:\n%s", said)
	}
	w.destroy() // The successor's own account ends with it.
	for _, err := range []error{o.revoked(k, successor)(nil), o.accountGone(n + "-own")(nil)} {
		if err != nil {
			t.Error(err)
		}
	}
	must(o.accounts.DeleteServiceAccount(t.Context(), connect.NewRequest(&cloudv1.DeleteServiceAccountRequest{ServiceAccountId: account})))(t)
}

// Another way of writing the same namespace doesn't cost the secret of a key with roles.
func TestAPIKey_OfRolesStaysWhenItsNamespacesAreSpelledOtherwise(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	k, ns := newKey(t, apikey.DataPlane), name(t, "spelled")
	head := namespaceHCL(ns, ``)
	key := func(namespaces string) string {
		return head + keyHCL("spelled", k, 1, "roles = [\"producer\"]\nnamespaces = ["+namespaces+"]\ndepends_on = [corvo_namespace.this]\n")
	}
	byName, byID := key(fmt.Sprintf("%q", ns)), key(nsAddr+".id")
	w := newWorkspace(t, s, "", byName)
	w.apply()
	for _, config := range []string{byID, byName} {
		w.write("main.tf", required+config)
		if said := w.apply(); !strings.Contains(said, "0 added, 1 changed, 0 destroyed") {
			t.Fatalf("it was not changed in place:\n%s", said)
		}
	}
	w.must("state", "rm", keyAddr)
	w.must("import", "-no-color", "-input=false", keyAddr, k.ID())
	if said := w.apply(); !strings.Contains(said, "0 added, 1 changed, 0 destroyed") {
		t.Fatalf("after an import it was not changed in place:\n%s", said)
	}
	w.write("main.tf", required+key(nsAddr+`.id, "default"`))
	if said := w.must("plan", "-no-color", "-input=false"); !strings.Contains(said, "must be replaced") {
		t.Errorf("another namespace doesn't replace it:\n%s", said)
	}
	w.destroy()
}

// accountGone fails if there is a service account of the name.
func (o other) accountGone(name string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		_, err := o.accounts.GetServiceAccount(context.Background(), connect.NewRequest(&cloudv1.GetServiceAccountRequest{ServiceAccount: name}))
		if connect.CodeOf(err) == connect.CodeNotFound {
			return nil
		}
		return fmt.Errorf("service account %s is still there, or: %w", name, err)
	}
}

const accountHCL = `resource "corvo_service_account" "this" {
  name = %q
}
resource "corvo_role_binding" "this" {
  principal_id = corvo_service_account.this.id
  role         = "producer"
}
`

func TestAPIKey_OfAServiceAccountStaysWithItWhenItRotates(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	first, second := newKey(t, apikey.DataPlane), newKey(t, apikey.DataPlane)
	head := block(s, "") + fmt.Sprintf(accountHCL, name(t, "owner"))
	const owner = "owner_id = corvo_service_account.this.id\ndepends_on = [corvo_role_binding.this]\n"
	same := statecheck.CompareValue(compareSame())
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().revoked(first, second),
		Steps: []resource.TestStep{
			{
				Config:            head + keyHCL("o", first, 1, owner),
				ConfigStateChecks: []statecheck.StateCheck{same.AddStateValue(keyAddr, tfjsonpath.New("owner_id"))},
				Check:             works(s, first, true),
			},
			{
				ResourceName: keyAddr, ImportState: true, ImportStateId: first.ID(), ImportStateVerify: true,
				ImportStateVerifyIdentifierAttribute: "key_id", ImportStateVerifyIgnore: []string{"secret_wo_version"},
			},
			{
				Config:            head + keyHCL("o", second, 2, owner),
				ConfigPlanChecks:  updates(keyAddr),
				ConfigStateChecks: []statecheck.StateCheck{same.AddStateValue(keyAddr, tfjsonpath.New("owner_id"))},
				Check:             works(s, second, true),
			},
			{Config: head + keyHCL("o", second, 2, owner+`namespaces = ["default"]`), ConfigPlanChecks: updates(keyAddr)},
			{Config: head + keyHCL("o", second, 2, owner), ConfigPlanChecks: updates(keyAddr), Check: works(s, second, true)},
		},
	})
}

// The state of version 0 had the role of a management key in tenant_role.
func TestAPIKey_TheStateOfVersion0IsUpgraded(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	for _, c := range []struct{ kind, was string }{{"mg", "tenant_role"}, {"dp", "roles"}} {
		k := newKey(t, apikey.Kind(c.kind))
		w := newWorkspace(t, s, "", keyHCL(name(t, "old"), k, 1, `roles = ["viewer"]`))
		w.apply()
		w.editState(func(attributes map[string]any, instance map[string]any) {
			instance["schema_version"] = 0
			for _, added := range []string{"owner_id", "permissions", "queues", "cidrs", "roles"} {
				delete(attributes, added)
			}
			attributes["tenant_role"], attributes["roles"] = nil, nil
			attributes[c.was] = map[string]any{"tenant_role": "viewer", "roles": []string{"viewer"}}[c.was]
		})
		w.settled()
		w.apply()
		var roles []any
		w.editState(func(attributes map[string]any, _ map[string]any) { roles, _ = attributes["roles"].([]any) })
		if len(roles) != 1 || roles[0] != "viewer" {
			t.Errorf("%s: roles %v after the upgrade", c.kind, roles)
		}
		w.destroy()
	}
}

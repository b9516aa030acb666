package acceptance

import (
	"archive/zip"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

// Every secret is searched for in everything that Terraform keeps or shows:
// the state and its backup, the plan file and its JSON, the state's JSON, the output.
func TestCLI_NothingSecretIsKept(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	ns := name(t, "secret")
	config := func(version int) string {
		return fmt.Sprintf(`
provider "corvo" {}

resource "corvo_namespace" "this" {
  name = %[1]q
}

ephemeral "corvo_api_key_secret" "jobs" {
  kind = "dp"
}

resource "corvo_api_key" "jobs" {
  name              = "jobs"
  kind              = "dp"
  namespaces        = [corvo_namespace.this.id]
  roles             = ["producer"]
  secret_wo         = ephemeral.corvo_api_key_secret.jobs.key
  secret_wo_version = %[2]d
}

ephemeral "corvo_api_key_secret" "robot" {
  kind = "mg"
}

resource "corvo_api_key" "robot" {
  name              = "robot"
  kind              = "mg"
  roles             = ["viewer"]
  secret_wo         = ephemeral.corvo_api_key_secret.robot.key
  secret_wo_version = %[2]d
}

# Stands for a secrets manager: a place that may see ephemeral values.
resource "terraform_data" "vault" {
  triggers_replace = %[2]d
  provisioner "local-exec" {
    command     = "echo \"$JOBS\" >> vault; echo \"$ROBOT\" >> vault"
    quiet       = true
    environment = {
      JOBS  = ephemeral.corvo_api_key_secret.jobs.key
      ROBOT = ephemeral.corvo_api_key_secret.robot.key
    }
  }
}
`, ns, version)
	}
	w := newWorkspace(t, s, "", config(1))
	for version := 1; version <= 2; version++ {
		w.write("main.tf", required+config(version))
		w.must("plan", "-out=plan", "-no-color", "-input=false")
		w.write("plan.json", w.must("show", "-json", "plan"))
		w.must("apply", "-no-color", "-input=false", "plan")
		w.write("state.json", w.must("show", "-json"))
		w.settled()
		searchEverything(t, w, s, 2*version)
	}
	w.destroy()
	searchEverything(t, w, s, 4)
	if err := s.other().namespacesGone(ns)(nil); err != nil {
		t.Error(err)
	}
}

// A key that was revoked by hand is created again, with a secret that is not stored anywhere
// unless the version is raised: the plan says so.
func TestCLI_AKeyMadeAnewUnderTheSameVersionIsExplained(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	k := newKey(t, apikey.DataPlane)
	w := newWorkspace(t, s, "", keyHCL("again", k, 1, `roles = ["producer"]`))
	w.apply()
	if _, err := s.other().keys.RevokeApiKey(t.Context(), connect.NewRequest(&cloudv1.RevokeApiKeyRequest{KeyId: k.ID()})); err != nil {
		t.Fatal(err)
	}
	plan := w.must("plan", "-no-color", "-input=false")
	for _, want := range []string{"API key again is gone", "increase secret_wo_version", "1 to add"} {
		if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(plan, "│", "")), " "), want) {
			t.Errorf("the plan does not say %q:\n%s", want, plan)
		}
	}
}

// The error says if an endpoint is something else, or a tenant's URL.
func TestCLI_AWrongEndpointIsToldFromARefusal(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	for endpoint, want := range map[string]string{
		s.endpoint() + "/signup": "the endpoint isn't a Corvo Cloud",
		s.url():                  "is a tenant URL",
	} {
		w := newWorkspace(t, s, endpoint, namespaceHCL(name(t, "nowhere"), ``))
		out, code := w.run("apply", "-auto-approve", "-no-color", "-input=false")
		if code == 0 || !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(out, "│", "")), " "), want) {
			t.Errorf("%s: ended with %d and said no %q:\n%s", endpoint, code, want, out)
		}
	}
}

func searchEverything(t *testing.T, w *workspace, s *service, keys int) {
	t.Helper()
	made := strings.Fields(string(w.read("vault")))
	if len(made) != keys {
		t.Fatalf("the vault has %d keys, want %d", len(made), keys)
	}
	places := map[string][]byte{
		"what was printed": w.said.Bytes(), "state": w.read("terraform.tfstate"), "plan as JSON": w.read("plan.json"), "state as JSON": w.read("state.json"),
	}
	for name, b := range unzip(t, w.read("plan")) {
		places["plan file "+name] = b
	}
	if b := w.read("terraform.tfstate"); !bytes.Contains(b, []byte("serial")) {
		t.Fatal("that is no state")
	}
	for _, text := range append(made, s.token()) {
		k, err := apikey.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		secret, digest := text[len(text)-49:len(text)-6], k.Digest()
		for place, b := range places {
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("the secret of %s stands in the %s", k.ID(), place)
			}
			// The digest is not secret, but nobody needs it either.
			if bytes.Contains(b, []byte(hex.EncodeToString(digest[:]))) {
				t.Errorf("the digest of %s stands in the %s", k.ID(), place)
			}
		}
	}
}

func unzip(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if out[f.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// A key of the role viewer drives a second provider block: it sees the tenant and may
// change nothing. By the real command only: the test framework serves every block from
// one process, where the last block's token would be everybody's.
func TestCLI_KeyOfAViewerMayChangeNothing(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	k := newKey(t, apikey.Management)
	robot := keyHCL("robot", k, 1, `roles = ["viewer"]`)
	w := newWorkspace(t, s, "", robot)
	w.apply()
	ns := name(t, "denied")
	w.write("main.tf", required+robot+fmt.Sprintf(`
provider "corvo" {
  alias = "robot"
  token = %q
}
data "corvo_current_identity" "robot" {
  provider = corvo.robot
}
output "role" {
  value = data.corvo_current_identity.robot.roles
}
resource "corvo_namespace" "denied" {
  provider = corvo.robot
  name     = %q
}
`, k.Reveal(), ns))
	out, code := w.run("apply", "-auto-approve", "-no-color", "-input=false")
	refused := regexp.MustCompile(`(?s)the token isn't allowed to do this.*permission\s+namespace\.create.*Request id: \S+`)
	if code == 0 || !refused.MatchString(out) {
		t.Fatalf("ended with %d:\n%s", code, out)
	}
	if !regexp.MustCompile(`(?s)roles\s+= toset\(\[\s*"viewer"|\+ roles? += \[\s*\+ "viewer"`).MatchString(out) {
		t.Errorf("the viewer's own identity was not read:\n%s", out)
	}
	w.write("main.tf", required+robot)
	w.destroy()
	if err := s.other().namespacesGone(ns)(nil); err != nil {
		t.Error(err)
	}
}

// Two people plan from the same state; the second apply must not overwrite the changes of
// the first.
func TestCLI_SecondOfTwoPlansIsRefused(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	ns := name(t, "conflict")
	hcl := func(team string) string { return namespaceHCL(ns, fmt.Sprintf("labels = { team = %q }", team)) }
	mine := newWorkspace(t, s, "", hcl("none"))
	mine.apply()
	theirs := newWorkspace(t, s, "", hcl("theirs"))
	theirs.must("import", "-no-color", "-input=false", nsAddr, ns)
	mine.write("main.tf", required+hcl("mine"))
	mine.must("plan", "-out=plan", "-no-color", "-input=false")
	theirs.apply()
	out, code := mine.run("apply", "-no-color", "-input=false", "plan")
	if code == 0 || !strings.Contains(out, "Someone else changed it after this plan was made") || !strings.Contains(out, "Request id:") {
		t.Fatalf("ended with %d:\n%s", code, out)
	}
	theirs.settled()
	mine.apply() // A new plan has seen the other's change.
	mine.settled()
	mine.destroy()
}

func TestCLI_FiftyNamespacesAtATime(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	ns := name(t, "many")
	w := newWorkspace(t, s, "", fmt.Sprintf(`
resource "corvo_namespace" "this" {
  count = 50
  name  = "%s-${count.index}"
}
`, ns))
	w.must("apply", "-auto-approve", "-no-color", "-input=false", "-parallelism=50")
	w.settled()
	w.must("destroy", "-auto-approve", "-no-color", "-input=false", "-parallelism=50")
	for _, i := range []int{0, 25, 49} {
		if err := s.other().namespacesGone(fmt.Sprintf("%s-%d", ns, i))(nil); err != nil {
			t.Error(err)
		}
	}
}

// The service is killed after it made the namespace and before it can be read. The run
// ends with what it knows, and the next one continues.
func TestCLI_ServiceThatDiesBetweenCreationAndTheFirstRead(t *testing.T) {
	t.Parallel()
	s := ownCloud(t)
	m := startFaultProxy(t, s)
	ns := name(t, "killed")
	w := newWorkspace(t, s, m.URL, `
provider "corvo" {
  max_retries       = 2
  operation_timeout = "8s"
}
`+namespaceHCL(ns, ``))
	m.Decide(func(call string, _ int) faulttest.Fate {
		edit := pending(call)
		if call != "CreateNamespace" {
			return faulttest.Fate{Edit: edit}
		}
		return faulttest.Fate{Edit: func(status int, body []byte) []byte {
			if status == http.StatusOK {
				if err := s.stop(syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
			return edit(status, body)
		}}
	})
	out := w.apply()
	if !regexp.MustCompile(`status\s+is\s+"pending"`).MatchString(out) {
		t.Fatalf("said nothing about it:\n%s", out)
	}
	state := string(w.read("terraform.tfstate"))
	id := regexp.MustCompile(`ns_[0-9A-Z]{26}`).FindString(state)
	if id == "" || !strings.Contains(state, `"status": "pending"`) || strings.Contains(state, "tainted") {
		t.Fatalf("the state should have it as pending:\n%s", state)
	}
	m.Decide(nil)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	w.apply()
	w.settled()
	if state := string(w.read("terraform.tfstate")); !strings.Contains(state, id) || !strings.Contains(state, `"status": "ready"`) {
		t.Fatalf("the state should have %s as ready:\n%s", id, state)
	}
	w.destroy()
}

// The service is killed before its answer gets out. The run fails, and the next one finds
// what it made.
func TestCLI_ServiceThatDiesBeforeItsAnswerGetsOut(t *testing.T) {
	t.Parallel()
	s := ownCloud(t)
	m := startFaultProxy(t, s)
	ns := name(t, "unheard")
	w := newWorkspace(t, s, m.URL, "provider \"corvo\" {\n  max_retries = 0\n}\n"+namespaceHCL(ns, ``))
	m.Decide(func(call string, _ int) faulttest.Fate {
		if call != "CreateNamespace" {
			return faulttest.Fate{}
		}
		return faulttest.Fate{Lose: true, Edit: func(_ int, body []byte) []byte {
			if err := s.stop(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			return body
		}}
	})
	if out, code := w.run("apply", "-auto-approve", "-no-color", "-input=false"); code == 0 {
		t.Fatalf("an apply without an answer succeeded:\n%s", out)
	}
	m.Decide(nil)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	made, err := s.other().find(t.Context(), ns)
	if err != nil || made == nil {
		t.Fatalf("the first run should have made it: %v %v", made, err)
	}
	w.apply()
	if !bytes.Contains(w.read("terraform.tfstate"), []byte(made.GetId())) {
		t.Fatalf("the state does not have %s", made.GetId())
	}
	w.settled()
	w.destroy()
}

func TestCLI_ServiceThatIsAwayIsNamedInTheError(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	w := newWorkspace(t, s, "http://127.0.0.1:1", "provider \"corvo\" {\n  max_retries = 1\n}\n"+namespaceHCL("away", ``))
	began := time.Now()
	out, code := w.run("apply", "-auto-approve", "-no-color", "-input=false")
	if code == 0 || !strings.Contains(out, "can't be reached") || time.Since(began) > time.Minute {
		t.Fatalf("ended with %d:\n%s", code, out)
	}
}

func TestProvider_RefusesBeforeAnythingIsChanged(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	const read = "data \"corvo_current_identity\" \"me\" {}\n"
	for _, c := range []struct{ name, config, want string }{
		{"another tenant", block(s, "", `tenant = "acme"`), `(?s)belongs to another tenant.*acme.*demo`},
		{"clear text", block(s, "http://203.0.113.7"), `(?s)plain\s+text.*allow_http`},
		{"key for jobs", fmt.Sprintf("provider \"corvo\" {\n endpoint = %q\n token = %q\n}\n", s.endpoint(), s.env["CORVO_API_KEY"]), `management key`},
		{"revoked or foreign key", fmt.Sprintf("provider \"corvo\" {\n endpoint = %q\n token = %q\n}\n", s.endpoint(), newKey(t, apikey.Management).Reveal()),
			`(?s)token\s+isn't\s+valid`},
		{"no duration", block(s, "", `request_timeout = "soon"`), `(?i)duration`},
		{"no time at all", block(s, "", `operation_timeout = "0s"`), `Out of range`},
		{"authorities", block(s, "", `ca_pem = "x"`), `no\s+PEM\s+certificate`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			resource.Test(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps:                    []resource.TestStep{{Config: c.config + read, PlanOnly: true, ExpectError: regexp.MustCompile(c.want)}},
			})
		})
	}
}

func TestProvider_GuardTakesNameAndIDOfTheTenant(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	var id string
	read := "data \"corvo_current_identity\" \"me\" {}\n"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{{
			Config: block(s, "", `tenant = "demo"`) + read,
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr("data.corvo_current_identity.me", "tenant", "demo"),
				resource.TestCheckResourceAttr("data.corvo_current_identity.me", "tenant_url", s.url()),
				resource.TestCheckTypeSetElemAttr("data.corvo_current_identity.me", "roles.*", "owner"),
				resource.TestCheckTypeSetElemAttr("data.corvo_current_identity.me", "permissions.*", "key.create"),
				resource.TestCheckResourceAttrWith("data.corvo_current_identity.me", "tenant_id", func(v string) error { id = v; return nil }),
			),
		}},
	})
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps:                    []resource.TestStep{{Config: block(s, "", fmt.Sprintf("tenant = %q", id)) + read}},
	})
}

func TestPlan_WrongValuesAreRefusedBeforeAnyCall(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	k := newKey(t, apikey.DataPlane)
	ns := `"default"`
	for _, c := range []struct{ name, config, want string }{
		{"namespace name", namespaceHCL("Orders", ``), `lowercase`},
		{"namespace name too short", namespaceHCL("ab", ``), `3 to 40`},
		{"label key", namespaceHCL("orders", `labels = { Team = "x" }`), `(?s)labels.*lowercase`},
		{"queue name", queueHCL("-mail", ns, ``), `1 to 128`},
		{"concurrency", queueHCL("mail", ns, `max_concurrency = 0`), `(?s)max_concurrency.*between 1`},
		{"throttle", queueHCL("mail", ns, `throttle = { limit = 0, window_ms = 1 }`), `(?s)limit.*between 1`},
		{"half a throttle", queueHCL("mail", ns, `throttle = { limit = 1 }`), `window_ms`},
		{"no owner", keyHCL("k", k, 1, ``), `belongs to nobody`},
		{"no roles", keyHCL("k", k, 1, `roles = []`), `(?s)roles.*at least 1`},
		{"owner and roles", keyHCL("k", k, 1, "roles = [\"viewer\"]\nowner_id = \"sa_01JD0Z5W6T8RXVQ4K2M3N7P9SB\""), `both an owner and roles`},
		{"owner that is none", keyHCL("k", k, 1, `owner_id = "deploy"`), `(?s)owner_id.*sa_`},
		{"permission", keyHCL("k", k, 1, "roles = [\"viewer\"]\npermissions = [\"JOB_ENQUEUE\"]"), `(?s)permissions.*job\.enqueue`},
		{"pattern of queues", keyHCL("k", k, 1, "roles = [\"viewer\"]\nqueues = [\"a*b\"]"), `Not a pattern of queues`},
		{"network", keyHCL("k", k, 1, "roles = [\"viewer\"]\ncidrs = [\"office\"]"), `Not a network`},
		{"personal key", "resource \"corvo_api_key\" \"this\" {\n  name = \"k\"\n  kind = \"pat\"\n  roles = [\"viewer\"]\n  secret_wo = \"x\"\n  secret_wo_version = 1\n}\n", `(?s)kind.*"dp"`},
		{"other kind of secret", strings.Replace(keyHCL("k", k, 1, `roles = ["admin"]`), `kind = "dp"`, `kind = "mg"`, 1), `key of kind dp`},
		{"no key for a secret", `resource "corvo_api_key" "this" {
  name              = "k"
  kind              = "dp"
  roles             = ["viewer"]
  secret_wo         = "hunter2"
  secret_wo_version = 1
}`, `Not an API key`},
		{"no time", keyHCL("k", k, 1, "roles = [\"viewer\"]\nexpires_at = \"tomorrow\""), `(?i)RFC ?3339`},
		{"overlap", keyHCL("k", k, 1, "roles = [\"viewer\"]\nrotation_overlap = \"200h\""), `Out of range`},
		{"kind of an ephemeral secret", "ephemeral \"corvo_api_key_secret\" \"this\" {\n  kind = \"pat\"\n}\n", `(?s)kind.*"dp"`},
		{"id of an ephemeral secret", "ephemeral \"corvo_api_key_secret\" \"this\" {\n  kind = \"dp\"\n  key_id = \"key_1\"\n}\n", `key_ and 12`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// An address at which nobody listens: nothing is called.
			resource.Test(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config: block(s, "http://127.0.0.1:1", `max_retries = 0`) + c.config, PlanOnly: true, ExpectError: regexp.MustCompile(c.want),
				}},
			})
		})
	}
}

package acceptance

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

// update rewrites the documents: go test ./internal/acceptance -run TestDocs -update.
var update = flag.Bool("update", false, "rewrite docs/ of the provider")

const root = "../.."

// The documents are made from the schema that the built provider tells Terraform, and
// from examples/.
func TestDocs_AreWhatTheSchemaSays(t *testing.T) {
	t.Parallel()
	need(t)
	w := newWorkspace(t, nil, "", "")
	// The generator looks for the provider under its bare name.
	w.write("schema.json", strings.Replace(w.must("providers", "schema", "-json"), `"registry.terraform.io/corvo-cloud/corvo"`, `"corvo"`, 1))
	made := w.generate()
	if *update {
		replaceDocs(t, made)
	}
	want, have := files(t, made), files(t, filepath.Join(root, "docs"))
	for name, text := range want {
		if !bytes.Equal(have[name], text) {
			t.Errorf("docs/%s is not what the schema says: run go test ./internal/acceptance -run TestDocs -update", name)
		}
	}
	for name := range have {
		if want[name] == nil {
			t.Errorf("docs/%s is about nothing that exists", name)
		}
	}
}

// generate makes the documents in a copy of the folder, so that a check writes nothing.
func (w *workspace) generate() string {
	w.t.Helper()
	copied := w.path("provider")
	for _, folder := range []string{"examples", "templates"} {
		if err := os.CopyFS(filepath.Join(copied, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			w.t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(w.t.Context(), "go", "tool", "tfplugindocs", "generate", "--provider-dir", copied, "--provider-name", "corvo",
		"--rendered-provider-name", "Corvo Cloud", "--providers-schema", w.path("schema.json"))
	cmd.Dir = filepath.Join(root, "../tools") // Where the pinned tools are.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("make the documents: %v\n%s", err, out)
	}
	return filepath.Join(copied, "docs")
}

func replaceDocs(t *testing.T, made string) {
	t.Helper()
	docs := filepath.Join(root, "docs")
	if err := os.RemoveAll(docs); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(docs, os.DirFS(made)); err != nil {
		t.Fatal(err)
	}
}

// files reads a folder whole; one that is not there is empty.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		out[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return out
}

func TestExamples_AreValidAndWellFormatted(t *testing.T) {
	t.Parallel()
	need(t)
	var seen int
	for name, text := range files(t, filepath.Join(root, "examples")) {
		if !strings.HasSuffix(name, ".tf") {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, nil, "", "")
			if bytes.Contains(text, []byte("required_providers")) {
				w.write("main.tf", "")
			}
			w.write("example.tf", string(text))
			w.must("fmt", "-check", "-diff", "example.tf")
			w.must("validate", "-no-color")
		})
	}
	if seen < 6 {
		t.Fatalf("only %d examples", seen)
	}
}

// The guide's one apply, as it stands there: the DNS record comes while Terraform waits for it.
func TestGuide_SingleSignOnDirectoryAndRolesInOneApply(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, m, n := s.other(), startFaultProxy(t, s), name(t, "guide")
	domain := n + ".example.com"
	m.Decide(func(call string, nth int) (f faulttest.Fate) {
		if call == "VerifyDomain" && nth == 2 {
			d := must(o.domains.GetDomain(t.Context(), connect.NewRequest(&cloudv1.GetDomainRequest{DomainId: domain})))(t).GetDomain()
			theLab.dns.set(d.GetTxtName(), d.GetTxtValue())
		}
		return f
	})
	text := string(files(t, filepath.Join(root, "examples/guides/single-sign-on"))["main.tf"])
	for _, tenantWide := range []string{`"production"`, `"on-call"`, `"orders"`} { // Other tests share the tenant.
		text = strings.Replace(text, "name = "+tenantWide, "name = "+strings.Replace(tenantWide, `"`, `"`+n+"-", 1), 1)
		text = strings.Replace(text, "name        = "+tenantWide, "name        = "+strings.Replace(tenantWide, `"`, `"`+n+"-", 1), 1)
	}
	w := newWorkspace(t, s, m.URL, text)
	w.env = append(w.env, "TF_VAR_company_domain="+domain, "TF_VAR_idp_metadata_url="+metadata(t, "https://idp.example.com/"+n))
	w.apply()
	w.settled()
	said := w.must("output", "-json")
	for _, want := range []string{"/scim/v2", "/acs", "/metadata"} {
		if !strings.Contains(said, want) {
			t.Errorf("the outputs lack %s: %s", want, said)
		}
	}
	if text, code := w.run("apply", "-auto-approve", "-no-color", "-input=false", "-var", "sign_in_tested=true"); code == 0 || !strings.Contains(text, "test") {
		t.Errorf("turned on before anybody has tried it:\n%s", text)
	}
	w.destroy()
	if ns, err := o.find(t.Context(), n+"-production"); err != nil || ns != nil {
		t.Errorf("it is still there: %v %v", ns, err)
	}
}

// What the examples show works against the service, as it stands there.
func TestExamples_OfAKeyWorks(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	text, err := os.ReadFile(filepath.Join(root, "examples/resources/corvo_api_key/resource.tf"))
	if err != nil {
		t.Fatal(err)
	}
	ns := name(t, "example")
	w := newWorkspace(t, s, "", strings.Replace(string(text), `name = "orders"`, `name = "`+ns+`"`, 1))
	w.apply()
	w.settled()
	w.destroy()
	if err := s.other().namespacesGone(ns)(nil); err != nil {
		t.Error(err)
	}
}

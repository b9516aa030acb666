package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// commandMax bounds one run of Terraform.
const commandMax = 3 * time.Minute

// workspace is a folder in which a person runs Terraform, with the built provider.
type workspace struct {
	t   *testing.T
	dir string
	env []string
	// said is everything that Terraform has printed.
	said bytes.Buffer
}

const required = `
terraform {
  required_providers {
    corvo = { source = "corvo-cloud/corvo" }
  }
}
`

// newWorkspace takes the whole of the configuration but the required provider; endpoint
// and token come by the environment, as the provider block says they may.
func newWorkspace(t *testing.T, s *service, endpoint, config string) *workspace {
	t.Helper()
	w := &workspace{t: t, dir: t.TempDir()}
	w.write("main.tf", required+config)
	w.write("rc", fmt.Sprintf("provider_installation {\n  dev_overrides { \"corvo-cloud/corvo\" = %q }\n  direct {}\n}\n", theLab.path("plugin")))
	w.env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+w.path("rc"), "TF_ACC=")
	if s != nil {
		if endpoint == "" {
			endpoint = s.endpoint()
		}
		w.env = append(w.env, "CORVO_ENDPOINT="+endpoint, "CORVO_TOKEN="+s.token())
	}
	return w
}

func (w *workspace) path(name string) string { return filepath.Join(w.dir, name) }

func (w *workspace) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *workspace) read(name string) []byte {
	w.t.Helper()
	b, err := os.ReadFile(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// run gives what was printed, and the exit code.
func (w *workspace) run(args ...string) (string, int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), theLab.terraform, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = w.dir, w.env, commandMax
	out, err := cmd.CombinedOutput()
	w.said.Write(out)
	if err != nil && cmd.ProcessState == nil {
		w.t.Fatalf("terraform %v: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (w *workspace) must(args ...string) string {
	w.t.Helper()
	out, code := w.run(args...)
	if code != 0 {
		w.t.Fatalf("terraform %v ended with %d:\n%s", args, code, out)
	}
	return out
}

// apply, and destroy once the test is over.
func (w *workspace) apply() string {
	w.t.Helper()
	return w.must("apply", "-auto-approve", "-no-color", "-input=false")
}

func (w *workspace) destroy() string {
	w.t.Helper()
	return w.must("destroy", "-auto-approve", "-no-color", "-input=false")
}

// settled fails if there is anything to change.
func (w *workspace) settled() {
	w.t.Helper()
	if out, code := w.run("plan", "-detailed-exitcode", "-no-color", "-input=false"); code != 0 {
		w.t.Fatalf("a second plan ended with %d:\n%s", code, out)
	}
}

// editState changes the first resource's attributes, and what else is said of it, in the
// state.
func (w *workspace) editState(edit func(attributes, instance map[string]any)) {
	w.t.Helper()
	var state map[string]any
	if err := json.Unmarshal(w.read("terraform.tfstate"), &state); err != nil {
		w.t.Fatal(err)
	}
	resources, _ := state["resources"].([]any)
	first, _ := resources[0].(map[string]any)
	instances, _ := first["instances"].([]any)
	instance, _ := instances[0].(map[string]any)
	attributes, _ := instance["attributes"].(map[string]any)
	edit(attributes, instance)
	text, err := json.Marshal(state)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write("terraform.tfstate", string(text))
}

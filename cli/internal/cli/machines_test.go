package cli

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where the token of a job is found, and that nothing else is shown to anybody.
func TestExchange_FindsTheTokenOfTheJob(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of.a.file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args, stdin string
		env         map[string]string
		token       string
	}{
		"GitHub":           {env: map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": "{runner}?api-version=2", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner"}, token: "of.the.runner"},
		"GitLab":           {env: map[string]string{"CORVO_ID_TOKEN": "of.an.env"}, token: "of.an.env"},
		"another variable": {args: "--token-env MINE", env: map[string]string{"MINE": " of.an.env\n", "CORVO_ID_TOKEN": "x"}, token: "of.an.env"},
		"a file":           {args: "--token-file " + file, env: map[string]string{"CORVO_ID_TOKEN": "x"}, token: "of.a.file"},
		"stdin":            {args: "--token-file -", stdin: "of.a.pipe\n", token: "of.a.pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var audience string
			var body []byte
			runner := answer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer runner" || r.URL.Query().Get("api-version") != "2" {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				audience = r.URL.Query().Get("audience")
				_, _ = w.Write([]byte(`{"value":"of.the.runner"}`)) // The caller may be gone.
			})
			service := answer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					t.Error("a credential was sent with the call")
				}
				body, _ = decodeCall(r)
				encodeAnswer(w, r, `{"key":"corvo_tmp_x","sync":"SYNC_READY"}`)
			})
			env := map[string]string{"CORVO_ENDPOINT": service, "CORVO_TOKEN": "corvo_mg_stored", "CORVO_TENANT": "acme"}
			for k, v := range tc.env {
				env[k] = strings.Replace(v, "{runner}", runner, 1)
			}
			do := func(more ...string) outcome {
				var stdout, stderr bytes.Buffer
				args := append(append([]string{"token", "exchange"}, strings.Fields(tc.args)...), more...)
				exit := Main(t.Context(), args, Process{Stdin: strings.NewReader(tc.stdin), Stdout: &stdout, Stderr: &stderr, Env: func(n string) string { return env[n] }})
				return outcome{exit, stdout.String(), stderr.String()}
			}
			if got := do(); got.exit != ExitOK || got.stdout != "corvo_tmp_x\n" || !sameJSON(string(body), `{"tenant":"acme","token":"`+tc.token+`"}`) {
				t.Errorf("sent %s; %+v", body, got)
			}
			if name == "GitHub" && audience != service+"/acme" {
				t.Errorf("audience %q", audience)
			}
			if got := do("--output", "json", "--trust", "web"); !strings.Contains(got.stdout, `"key"`) || !strings.Contains(string(body), `"web"`) {
				t.Errorf("sent %s; %+v", body, got)
			}
		})
	}
}

func TestExchange_WithoutATokenSaysWhereItLooked(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for args, want := range map[string]string{
		"":                 "--token-env",
		"--token-env NONE": "NONE",
		"--token-file " + t.TempDir() + "/nothing": "no such file",
	} {
		env := map[string]string{"CORVO_ENDPOINT": "http://127.0.0.1:1", "CORVO_TENANT": "acme"}
		if got := h.run(t, "", env, append([]string{"token", "exchange"}, strings.Fields(args)...)...); got.exit != ExitAuth || !strings.Contains(got.stderr, want) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	env := map[string]string{"CORVO_ENDPOINT": "http://127.0.0.1:1", "CORVO_TENANT": "acme", "GITHUB_ACTIONS": "true"}
	if got := h.run(t, "", env, "token", "exchange"); !strings.Contains(got.stderr, "id-token: write") {
		t.Errorf("%+v", got)
	}
	if got := h.run(t, "", map[string]string{"CORVO_ENDPOINT": "http://127.0.0.1:1"}, "token", "exchange"); got.exit != ExitUsage {
		t.Errorf("%+v", got)
	}
}

// Conditions of another provider would never be met by tokens of the trust's issuer.
func TestTrusts_AnUpdateStaysWithTheProvider(t *testing.T) {
	t.Parallel()
	service := answer(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/UpdateTrust") {
			t.Error("the trust was changed")
		}
		encodeAnswer(w, r, `{"trust":{"id":"trust_1","provider":"TRUST_PROVIDER_GITHUB"}}`)
	})
	env := map[string]string{"CORVO_ENDPOINT": service, "CORVO_TOKEN": "corvo_mg_test", "CORVO_TENANT": "acme"}
	if got := newHome(t).run(t, "", env, "trusts", "update", "web", "--gitlab", "acme/web"); got.exit != ExitUsage || !strings.Contains(got.stderr, "github") {
		t.Errorf("%+v", got)
	}
}

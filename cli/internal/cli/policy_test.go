package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// What the verbs of the sign-in policy ask, and what they show of the answer.
func TestPolicy_VerbsAskWhatTheySay(t *testing.T) {
	t.Parallel()
	for line, c := range map[string]struct{ stdin, answers, body, shows string }{
		"policy get": {"", `{"policy":{"requireSso":true},"breakGlassCodesLeft":9,"ssoUrl":"https://x","requireSsoNeeds":["an owner"]}`, `{"tenant":"acme"}`, "require-sso needs an owner"},
		"policy set --key-life-max 90d --require-sso=false": {"", `{"policy":{"keyLifeMaxSeconds":"7776000"}}`,
			`{"tenant":"acme","policy":{"keyLifeMaxSeconds":"7776000"},"updateMask":"requireSso,keyLifeMaxSeconds"}`, "90 d"},
		"policy keys":               {"", `{"keys":[{"keyId":"key_1","problems":["cidrs: none"]}],"total":1}`, `{"tenant":"acme"}`, "cidrs: none"},
		"policy break-glass create": {"", `{"codes":["aaaa-bbbb-cccc-dddd"]}`, `{"tenant":"acme"}`, "aaaa-bbbb-cccc-dddd"},
		"policy break-glass use":    {"aaaa-bbbb\n", `{"codesLeft":8}`, `{"tenant":"acme","code":"aaaa-bbbb"}`, "codes left: 8"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var body []byte
			url := answer(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ = decodeCall(r) // Compared below.
				encodeAnswer(w, r, c.answers)
			})
			do := func(more ...string) outcome {
				var stdout, stderr bytes.Buffer
				env := map[string]string{"CORVO_ENDPOINT": url, "CORVO_TOKEN": "corvo_mg_test"}
				args := append(append(strings.Fields(line), "--tenant", "acme"), more...)
				exit := Main(t.Context(), args, Process{Stdin: strings.NewReader(c.stdin), Stdout: &stdout, Stderr: &stderr, Env: func(n string) string { return env[n] }})
				return outcome{exit, stdout.String(), stderr.String()}
			}
			if got := do(); got.exit != ExitOK || !sameJSON(string(body), c.body) || !strings.Contains(got.stdout, c.shows) {
				t.Errorf("asked %s; %+v", body, got)
			}
			if got := do("-o", "json"); !json.Valid([]byte(got.stdout)) {
				t.Errorf("as JSON: %+v", got)
			}
		})
	}
}

func TestPolicy_NothingToDoIsRefused(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	env := map[string]string{"CORVO_TOKEN": "corvo_mg_test", "CORVO_ENDPOINT": "http://127.0.0.1:1"}
	for _, line := range []string{"policy set", "policy set --session-idle long", "policy break-glass use", "policy break-glass steal"} {
		if got := h.run(t, "", env, strings.Fields(line)...); got.exit != ExitUsage {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// Whoever is asked for a second factor can show it here.
func TestSession_ASecondFactorIsShownByACodeFromStdin(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"123456": `{"totpCode":"123456"}`, "abcd-efgh-ijkl": `{"recoveryCode":"abcd-efgh-ijkl"}`} {
		var body []byte
		url := answer(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ = decodeCall(r) // Compared below.
			encodeAnswer(w, r, `{}`)
		})
		env := map[string]string{"CORVO_ENDPOINT": url, "CORVO_TOKEN": "corvo_mg_test"}
		if got := newHome(t).run(t, code+"\n", env, "session", "prove"); got.exit != ExitOK || !sameJSON(string(body), want) || strings.Contains(got.stdout, code) {
			t.Errorf("%s: asked %s; %+v", code, body, got)
		}
	}
	if got := newHome(t).run(t, "", map[string]string{"CORVO_TOKEN": "corvo_mg_test", "CORVO_ENDPOINT": "http://127.0.0.1:1"}, "session", "prove"); got.exit != ExitUsage {
		t.Errorf("without a code: %+v", got)
	}
}

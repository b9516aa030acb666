package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// What the verbs of plans ask, and what they show of the answer.
func TestPlan_VerbsAskWhatTheySay(t *testing.T) {
	t.Parallel()
	for line, c := range map[string]struct{ method, answers, body, shows string }{
		"plan list": {"ListPlans", `{"plans":[{"name":"team","currency":"usd","baseAmount":"4900","selfServe":true,"entitlements":[{"name":"keys_max","value":"7"}]}]}`, `{}`, "$49.00"},
		"plan show": {"GetSubscription", `{"subscription":{"plan":{"name":"team","version":2,"currency":"usd"},"state":"active","nextPlan":"free","nextPlanAt":"2026-12-01T00:00:00Z"},
			"limits":[{"name":"keys_max","used":"3","max":"7","title":"API keys"}]}`, `{"tenant":"acme"}`, "free at 2026-12-01 00:00 UTC"},
		"plan change team":           {"ChangePlan", `{"subscription":{},"effectiveAt":"2020-01-01T00:00:00Z"}`, `{"tenant":"acme","plan":"team"}`, "The plan is team."},
		"plan change free --etag e":  {"ChangePlan", `{"subscription":{},"effectiveAt":"2999-01-01T00:00:00Z"}`, `{"tenant":"acme","plan":"free","etag":"e"}`, "changes to free at 2999-01-01 00:00 UTC"},
		"plan change team --dry-run": {"ChangePlan", `{"subscription":{},"effectiveAt":"2020-01-01T00:00:00Z"}`, `{"tenant":"acme","plan":"team","validateOnly":true}`, "would change to team at once"},
		"plan cancel-change":         {"CancelPlanChange", `{"subscription":{"plan":{"name":"team"}}}`, `{"tenant":"acme"}`, "The plan stays team."},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var body []byte
			var path string
			url := answer(t, func(w http.ResponseWriter, r *http.Request) {
				path = r.URL.Path
				body, _ = decodeCall(r) // Compared below.
				encodeAnswer(w, r, c.answers)
			})
			do := func(more ...string) outcome {
				var stdout, stderr bytes.Buffer
				env := map[string]string{"CORVO_ENDPOINT": url, "CORVO_TOKEN": "corvo_mg_test"}
				args := append(append(strings.Fields(line), "--tenant", "acme"), more...)
				exit := Main(t.Context(), args, Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Env: func(n string) string { return env[n] }})
				return outcome{exit, stdout.String(), stderr.String()}
			}
			if got := do(); got.exit != ExitOK || path != "/corvo.cloud.v1.PlanService/"+c.method || !sameJSON(string(body), c.body) || !strings.Contains(got.stdout, c.shows) {
				t.Errorf("asked %s %s; %+v", path, body, got)
			}
			if got := do("-o", "json"); !json.Valid([]byte(got.stdout)) {
				t.Errorf("as JSON: %+v", got)
			}
		})
	}
}

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
		"plan show -o text": {"GetSubscription", `{"subscription":{"plan":{"name":"team"},"overrides":[{"name":"stored_bytes_max","value":"1073741824","reason":"trial","endsAt":"2027-01-01T00:00:00Z"}],
			"entitlements":[{"name":"stored_bytes_max","value":"1073741824","unit":"bytes","title":"Stored bytes"},{"name":"feature.sso","value":"1","title":"Single sign-on"},
			{"name":"retention.dead_seconds_max","value":"2592000","unit":"seconds","title":"Dead jobs"}]},
			"limits":[{"name":"jobs_per_month_max","used":"1000000","max":"1000000","title":"Jobs","resetsAt":"2026-12-01T00:00:00Z","holds":"dispatch"},
			{"name":"spend","title":"Spend limit","holds":"enqueue"}]}`, `{"tenant":"acme"}`,
			`override         stored_bytes_max 1.0 GB until 2027-01-01 00:00 UTC: trial

LIMIT                       USED       MAX        HOLDS                                WHAT
jobs_per_month_max          1,000,000  1,000,000  dispatch until 2026-12-01 00:00 UTC  Jobs
spend                       -          -          enqueue                              Spend limit
stored_bytes_max            -          1.0 GB     -                                    Stored bytes
feature.sso                 -          yes        -                                    Single sign-on
retention.dead_seconds_max  -          30 d       -                                    Dead jobs
`},
		"plan list -o text":          {"ListPlans", `{"plans":[{"name":"dedicated","currency":"usd","entitlements":[{"name":"keys_max","value":"5000"}]}]}`, `{}`, "as agreed  operator   5,000 keys"},
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

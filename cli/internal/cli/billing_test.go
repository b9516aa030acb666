package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// What the verbs of billing ask, and what they show of the answer.
func TestBilling_VerbsAskWhatTheySay(t *testing.T) {
	t.Parallel()
	for line, c := range map[string]struct{ method, answers, body, shows string }{
		"billing show":                         {"GetBilling", `{"billing":{"payments":true,"hasPaymentMethod":true,"emails":["a@x.test"]}}`, `{"tenant":"acme"}`, "the owners, a@x.test"},
		"billing set-emails a@x.test b@x.test": {"UpdateBilling", `{"billing":{"emails":["a@x.test"]}}`, `{"tenant":"acme","emails":["a@x.test","b@x.test"]}`, "payments         off"},
		"billing set-emails --etag e":          {"UpdateBilling", `{"billing":{}}`, `{"tenant":"acme","etag":"e"}`, "the owners\n"},
		"billing checkout team":                {"StartCheckout", `{"url":"https://pay.test/1"}`, `{"tenant":"acme","plan":"team"}`, "https://pay.test/1"},
		"billing portal":                       {"OpenPortal", `{"url":"https://pay.test/2"}`, `{"tenant":"acme"}`, "https://pay.test/2"},
		"invoice list": {"ListInvoices", `{"invoices":[{"periodStart":"2026-11-01T00:00:00Z","periodEnd":"2026-12-01T00:00:00Z","state":"paid","total":"4905","currency":"usd"},
			{"periodStart":"2026-10-01T00:00:00Z","periodEnd":"2026-11-01T00:00:00Z","state":"final","total":"-7","currency":"jpy"}]}`, `{"tenant":"acme","pageSize":200}`, "$49.05"},
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
			if got := do(); got.exit != ExitOK || path != "/corvo.cloud.v1.BillingService/"+c.method || !sameJSON(string(body), c.body) || !strings.Contains(got.stdout, c.shows) {
				t.Errorf("asked %s %s; %+v", path, body, got)
			}
			if got := do("-o", "json"); !json.Valid([]byte(got.stdout)) {
				t.Errorf("as JSON: %+v", got)
			}
		})
	}
}

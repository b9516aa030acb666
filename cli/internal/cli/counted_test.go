package cli

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// What the verbs about usage ask, and what they show of the answer.
func TestUsage_VerbsAskWhatTheySay(t *testing.T) {
	t.Parallel()
	for line, c := range map[string]struct{ method, answers, body, shows string }{
		"usage show": {"GetUsage", `{"points":[{"start":"2026-11-03T00:00:00Z","counts":{"jobsEnqueued":"12480"},"closed":true}],"total":{"jobsEnqueued":"12480"},"forecast":{}}`,
			`{"tenant":"acme","interval":"day"}`, "2026-11-03   12,480"},
		"usage show --month 2026-11 --by-namespace --interval hour": {"GetUsage", `{"points":[{"start":"2026-11-03T09:00:00Z","namespaceId":"ns_1","namespace":"prod","counts":{}}],"total":{}}`,
			`{"tenant":"acme","from":"2026-11-01T00:00:00Z","to":"2026-12-01T00:00:00Z","interval":"hour","byNamespace":true}`, "2026-11-03 09:00  prod"},
		"invoice preview --month 2026-11 --plan business": {"PreviewInvoice", `{"invoice":{"currency":"usd","state":"draft","total":"4905","lines":[{"item":"base","plan":"business","quantity":"720","amount":"4905"}]},"forecastTotal":"5100"}`,
			`{"tenant":"acme","period":"2026-11-01T00:00:00Z","plan":"business"}`, "$51.00"},
		"spend-limit show": {"GetSpendLimit", `{"limit":{"amount":"20000","currency":"usd","action":"hold","alertPercents":[80]},"spent":"1234"}`, `{"tenant":"acme"}`, "$12.34"},
		"spend-limit set --amount 99.5 --action reject --alert-percent 50,90": {"SetSpendLimit", `{"limit":{"amount":"9950","currency":"usd","action":"reject"}}`,
			`{"tenant":"acme","limit":{"amount":"9950","action":"reject","alertPercents":[50,90]}}`, "$99.50"},
		"spend-limit remove": {"SetSpendLimit", `{"limit":{"action":"alert"}}`, `{"tenant":"acme","limit":{}}`, "none   -       -\n"},
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
			var stdout, stderr bytes.Buffer
			env := map[string]string{"CORVO_ENDPOINT": url, "CORVO_TOKEN": "corvo_mg_test"}
			exit := Main(t.Context(), append(strings.Fields(line), "--tenant", "acme"), Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Env: func(n string) string { return env[n] }})
			if exit != ExitOK || path != "/corvo.cloud.v1.UsageService/"+c.method || !sameJSON(string(body), c.body) || !strings.Contains(stdout.String(), c.shows) {
				t.Errorf("asked %s %s; exit %d\n%s%s", path, body, exit, stdout.String(), stderr.String())
			}
		})
	}
}

// A month comes in parts: the file is all of them, and it verifies until a number is changed.
func TestUsage_ExportIsAFileThatVerifies(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile(filepath.Join("..", "..", "..", "control-plane", "api", "bill", "testdata", "november.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.IndexByte(golden[len(golden)/2:], '\n') + len(golden)/2 + 1
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		asked, _ := decodeCall(r) // An unreadable one matches neither.
		data, next := golden[:half], "two"
		switch {
		case sameJSON(string(asked), `{"tenant":"acme","period":"2026-11-01T00:00:00Z"}`):
		case sameJSON(string(asked), `{"tenant":"acme","period":"2026-11-01T00:00:00Z","pageToken":"two"}`):
			data, next = golden[half:], ""
		default:
			t.Errorf("asked %s %s", r.URL.Path, asked)
		}
		encodeAnswer(w, r, fmt.Sprintf(`{"data":%q,"nextPageToken":%q}`, base64.StdEncoding.EncodeToString(data), next))
	})
	run := func(stdin string, args ...string) outcome {
		var stdout, stderr bytes.Buffer
		env := map[string]string{"CORVO_ENDPOINT": url, "CORVO_TOKEN": "corvo_mg_test"}
		exit := Main(t.Context(), args, Process{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Env: func(n string) string { return env[n] }})
		return outcome{exit, stdout.String(), stderr.String()}
	}
	exported := run("", "usage", "export", "--month", "2026-11", "--tenant", "acme")
	if exported.exit != ExitOK || exported.stdout != string(golden) {
		t.Fatalf("%+v", exported)
	}
	file := filepath.Join(t.TempDir(), "november.ndjson")
	for want, text := range map[int]string{ExitOK: exported.stdout, ExitFail: strings.Replace(exported.stdout, `"jobs_enqueued":400000`, `"jobs_enqueued":500000`, 1)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := run("", "usage", "verify", file); got.exit != want {
			t.Errorf("want %d: %+v", want, got)
		}
	}
	if got := run("{}\n", "usage", "verify", "-"); got.exit != ExitFail || !strings.Contains(got.stderr, "stdin doesn't add up") {
		t.Errorf("%+v", got)
	}
}

func TestUsage_VerifyNamesEachDifference(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile(filepath.Join("..", "..", "..", "control-plane", "api", "bill", "testdata", "november.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	verify := func(file string) outcome {
		var stdout, stderr bytes.Buffer
		exit := Main(t.Context(), []string{"usage", "verify", "-"}, Process{Stdin: strings.NewReader(file), Stdout: &stdout, Stderr: &stderr, Env: func(string) string { return "" }})
		return outcome{exit, stdout.String(), stderr.String()}
	}
	if got := verify(string(golden)); got.exit != ExitOK || !strings.Contains(got.stdout, "$99.64") || !strings.Contains(got.stdout, "valid") {
		t.Errorf("%+v", got)
	}
	changed := strings.Replace(string(golden), `"jobs_enqueued":400000`, `"jobs_enqueued":500000`, 1)
	if got := verify(changed); got.exit != ExitFail || strings.Count(got.stdout, "differs  footer") < 3 {
		t.Errorf("%+v", got)
	}
}

func TestCents_AreExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"200": 20000, "99.5": 9950, "0.01": 1} {
		if got, err := centsOf(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1.234", "+1", ".5", "1e3", "1.-5"} {
		if got, err := centsOf(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestSpendLimit_ARefusalNamesTheFlags(t *testing.T) {
	t.Parallel()
	const problem = "must be alert, hold or reject"
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		refused := connect.NewError(connect.CodeInvalidArgument, errors.New("limit.action: "+problem))
		if detail, err := connect.NewErrorDetail(&cloudv1.Refusal{Fields: []*cloudv1.RefusedField{{Name: "limit.action", Problem: problem}}}); err == nil {
			refused.AddDetail(detail)
		}
		_ = connect.NewErrorWriter().Write(w, r, refused) // The client sees that nothing came.
	})
	env := map[string]string{"CORVO_TOKEN": "corvo_mg_test", "CORVO_ENDPOINT": url}
	got := newHome(t).run(t, "", env, "spend-limit", "set", "--tenant", "acme", "--amount", "5", "--action", "stop")
	if got.exit != ExitUsage || !strings.Contains(got.stderr, "--action: "+problem) || strings.Contains(got.stderr, "limit.action") {
		t.Errorf("%+v", got)
	}
}

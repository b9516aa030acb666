package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// bulkServer records the bodies of bulk calls and answers them.
func bulkServer(t *testing.T, done string) (url string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	looks := 0
	return answer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/v1/bulk/bulk_1":
			looks++
			if looks < 3 {
				_, _ = w.Write([]byte(`{"id":"bulk_1","status":"running","total":7,"processed":2}`))
				return
			}
			_, _ = w.Write([]byte(done))
		default:
			body, _ := io.ReadAll(r.Body) // Compared by the test.
			*asked = append(*asked, string(body))
			if strings.Contains(string(body), `"async":true`) {
				w.WriteHeader(http.StatusAccepted)
				_, _ = w.Write([]byte(`{"bulk_operation_id":"bulk_1","status":"queued"}`))
				return
			}
			_, _ = w.Write([]byte(done))
		}
	}), asked
}

func runWith(t *testing.T, stdin, url string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	exit := Main(t.Context(), args, Process{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
		Env: func(name string) string { return map[string]string{"CORVO_URL": url}[name] }})
	return outcome{exit, stdout.String(), stderr.String()}
}

func TestBulk_IDsComeAsArgumentsAsLinesOrAsWhatOtherCommandsPrint(t *testing.T) {
	t.Parallel()
	for stdin, args := range map[string][]string{
		"":                                {"job_1", "job_2"},
		"job_1\njob_2\n":                  nil,
		" job_1 job_2":                    {"-"},
		`["job_1","job_2"]`:               nil,
		`[{"id":"job_1"},{"id":"job_2"}]`: nil,
		"{\"id\":\"job_1\"}\n{\"id\":\"job_2\",\"parent_id\":\"job_9\"}": nil,
		`{"jobs":[{"id":"job_1"},{"job_id":"job_2"}]}`:                   {"-"},
	} {
		url, asked := bulkServer(t, `{"affected":2,"errors":0,"duration_ms":1}`)
		got := runWith(t, stdin, url, append([]string{"bulk", "retry"}, args...)...)
		if got.exit != ExitOK || got.stdout != "2 jobs changed, 0 skipped\n" || len(*asked) != 1 || !sameJSON((*asked)[0], `{"action":"retry","job_ids":["job_1","job_2"]}`) {
			t.Errorf("%q: asked %q, %+v", stdin, *asked, got)
		}
	}
	url, asked := bulkServer(t, ``)
	if got := runWith(t, "", url, "bulk", "retry"); got.exit != ExitOK || len(*asked) != 0 || !strings.HasPrefix(got.stdout, "0 jobs") {
		t.Errorf("nothing to do: %+v, asked %q", got, *asked)
	}
	if got := runWith(t, `{"name":"x"}`, url, "bulk", "retry"); got.exit != ExitUsage || len(*asked) != 0 {
		t.Errorf("no jobs: %+v", got)
	}
}

func TestBulk_MoreIDsThanACallTakesAreSeveralCalls(t *testing.T) {
	t.Parallel()
	url, asked := bulkServer(t, `{"affected":1,"errors":1,"refused":[{"job_id":"job_9","error":"cannot"}],"duration_ms":2}`)
	got := runWith(t, strings.Repeat("job_1\n", 25_000), url, "bulk", "cancel", "-o", "json")
	if got.exit != ExitPartial || len(*asked) != 3 || !strings.Contains(got.stdout, `"affected": 3`) || !strings.Contains(got.stdout, `"errors": 3`) || !strings.Contains(got.stdout, `"duration_ms": 6`) {
		t.Errorf("%d calls, %+v", len(*asked), got)
	}
}

func TestBulk_AFilterIsWatchedUntilItIsDone(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"retry --error-group 00ff":                                          `{"action":"retry","async":true,"filter":{"error_group":"00ff"}}`,
		"retry --queue q --state dead,cancelled --tag a:b --limit 5":        `{"action":"retry","async":true,"filter":{"queue":"q","state":["dead","cancelled"],"tags":{"a":"b"},"limit":5}}`,
		`move --to r --filter {"queue":"q","priority":"high"}`:              `{"action":"move","async":true,"move_to_queue":"r","filter":{"queue":"q","priority":"high"}}`,
		"change_priority --priority critical --before 2030-01-01T00:00:00Z": `{"action":"change_priority","async":true,"priority":"critical","filter":{"created_before":"2030-01-01T00:00:00Z"}}`,
		"delete --after 2026-01-01T00:00:00Z --queue q":                     `{"action":"delete","async":true,"filter":{"queue":"q","created_after":"2026-01-01T00:00:00Z"}}`,
	} {
		url, asked := bulkServer(t, `{"id":"bulk_1","status":"completed","affected":6,"errors":1,"refused":[{"job_id":"job_9","error":"cannot do job_9"}]}`)
		got := run(t, url, append([]string{"bulk", "--yes"}, strings.Fields(line)...)...)
		if got.exit != ExitPartial || got.stdout != "6 jobs changed, 1 skipped\n" || !strings.Contains(got.stderr, "job_9: cannot do job_9") || !sameJSON((*asked)[0], want) {
			t.Errorf("%s: asked %q, %+v", line, *asked, got)
		}
	}
	url, _ := bulkServer(t, `{"id":"bulk_1","status":"failed","error":"stopped after 3 jobs","affected":3}`)
	if got := run(t, url, "bulk", "hold", "--queue", "q", "--yes"); got.exit != ExitFail || !strings.Contains(got.stderr, "stopped after 3 jobs") || !strings.Contains(got.stdout, "3 jobs changed") {
		t.Errorf("failed: %+v", got)
	}
}

func TestBulk_AmbiguousCallsAreRefused(t *testing.T) {
	t.Parallel()
	url, asked := bulkServer(t, ``)
	for line, want := range map[string]string{
		"bulk":                                  "ACTION",
		"bulk retry job_1 --queue q":            "not by both",
		"bulk retry --filter x":                 "must be a JSON object",
		"bulk retry --filter {} --queue q":      "not both",
		"bulk retry --limit 3":                  "--limit needs a filter",
		"bulk retry --queue q --after tomorrow": "tomorrow",
		"bulk delete --queue q":                 "--yes",
		"bulk cancel --queue q":                 "--yes",
		"bulk explode":                          `"explode" isn't a bulk action`,
		"bulk explode job_1":                    "retry, delete, cancel",
		"bulk move job_1":                       "needs --to",
		"bulk retry job_1 --priority high":      "only for change_priority",
	} {
		if got := run(t, url, strings.Fields(line)...); got.exit != ExitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if len(*asked) > 0 {
		t.Errorf("asked %s", fmt.Sprint(*asked))
	}
}

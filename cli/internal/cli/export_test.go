package cli

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExport_WritesLinesPageByPage(t *testing.T) {
	t.Parallel()
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		body := map[string]string{
			"/api/v1/jobs/export?limit=1000&queue=q&state=dead":             `{"jobs":[{"id":"job_1","payload":{"a": 1}}],"last_id":"job_2","has_more":true}`,
			"/api/v1/jobs/export?after=job_2&limit=1000&queue=q&state=dead": `{"jobs":[{"id":"job_3"}],"last_id":"job_3","has_more":false}`,
			"/api/v1/cluster/events?after_seq=0&limit=1000":                 `{"events":[{"seq":4},{"seq":5}]}`,
			"/api/v1/cluster/events?after_seq=5&limit=1000":                 `{"events":[]}`,
			"/api/v1/jobs/export?limit=1000":                                `{"jobs":[{"id":"job_1"}],"last_id":"job_1","has_more":true}`,
		}[r.URL.RequestURI()]
		if body == "" {
			w.WriteHeader(http.StatusForbidden)
			body = `{"error":"no","code":"FORBIDDEN"}`
		}
		_, _ = w.Write([]byte(body))
	})
	if got := run(t, url, "export", "--queue", "q", "--state", "dead"); got.exit != ExitOK || got.stdout != "{\"id\":\"job_1\",\"payload\":{\"a\": 1}}\n{\"id\":\"job_3\"}\n" || !strings.Contains(got.stderr, "exported 2 jobs") {
		t.Errorf("%+v", got)
	}
	file := filepath.Join(t.TempDir(), "events.ndjson")
	if got := run(t, url, "export", "--events", "--file", file); got.exit != ExitOK || got.stdout != "" {
		t.Errorf("%+v", got)
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "{\"seq\":4}\n{\"seq\":5}\n" {
		t.Errorf("%s, %v", raw, err)
	}
	if got := run(t, url, "export", "--events", "--file", file); got.exit == ExitOK || !strings.Contains(got.stderr, "exists") {
		t.Errorf("an existing file: %+v", got)
	}
	if got := run(t, url, "export"); got.exit == ExitOK || got.stdout != "{\"id\":\"job_1\"}\n" || !strings.Contains(got.stderr, "exported 1 job; continue with --after job_1") {
		t.Errorf("an export that breaks off: %+v", got)
	}
	if got := run(t, url, "export", "--events", "--queue", "q"); got.exit != ExitUsage {
		t.Errorf("%+v", got)
	}
}

// An archive that continues after a number would have a hole that nobody sees.
func TestExport_SaysWhichEventsAreNoLongerKept(t *testing.T) {
	t.Parallel()
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(map[string]string{
			"0":   `{"events":[{"seq":100}],"lost":true}`,
			"5":   `{"events":[{"seq":100}],"lost":true}`,
			"7":   `{"events":[],"lost":true}`,
			"100": `{"events":[]}`,
		}[r.URL.Query().Get("after_seq")]))
	})
	for args, want := range map[string]outcome{
		"":          {exit: ExitOK},
		"--after 5": {exit: ExitPartial, stderr: "events after 5 and before 100 are no longer kept"},
		"--after 7": {exit: ExitPartial, stderr: "events after 7 are no longer kept"},
	} {
		got := run(t, url, append([]string{"export", "--events"}, strings.Fields(args)...)...)
		if got.exit != want.exit || !strings.Contains(got.stderr, want.stderr) || want.exit == ExitOK && strings.Contains(got.stderr, "kept") {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestExport_AFullDiskIsNoUsageError(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"jobs":[{"id":"job_1"}]}`)) })
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var stderr bytes.Buffer
	exit := Main(t.Context(), []string{"export", "--server", url}, Process{Stdin: strings.NewReader(""), Stdout: full, Stderr: &stderr, Env: func(string) string { return "" }})
	if exit != ExitFail || !strings.Contains(stderr.String(), "no space left") || strings.Contains(stderr.String(), "--help") {
		t.Errorf("exit %d: %s", exit, stderr.String())
	}
}

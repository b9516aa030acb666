package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestJSON_PayloadsKeepTheirLessThanAndAmpersand(t *testing.T) {
	t.Parallel()
	const payload = `{"html":"<b>R&D</b>"}`
	for line, stdin := range map[string]string{
		"enqueue q " + payload:                                  "",
		"enqueue-batch --queue q --payloads":                    payload,
		"enqueue-batch":                                         `{"queue":"q","payload":` + payload + `}`,
		"schedule create n @daily q --payload " + payload:       "",
		"ack job_1 --result " + payload:                         "",
		"heartbeat job_1 --progress " + payload:                 "",
		`bulk retry --yes --filter {"payload":` + payload + `}`: "",
	} {
		var body string
		url := answer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				raw, _ := io.ReadAll(r.Body) // Compared below.
				body = string(raw)
			}
			_, _ = w.Write([]byte(`{"job_id":"job_1","job_ids":["job_1"],"status":"completed"}`))
		})
		if got := runWith(t, stdin, url, strings.Fields(line)...); !strings.Contains(body, payload) {
			t.Errorf("%s sent %s: %+v", line, body, got)
		}
	}
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"jobs":[{"id":"job_1","payload":` + payload + `}]}`))
	})
	for _, format := range []string{"json", "jsonl"} {
		if got := run(t, url, "jobs", "-o", format); !strings.Contains(got.stdout, "<b>R&D</b>") {
			t.Errorf("%s: %+v", format, got)
		}
	}
}

// What jobs and servers say must not move the cursor or rename the window.
func TestText_HasNoControlCharactersOfOthers(t *testing.T) {
	t.Parallel()
	const evil = "a\\u001b]0;x\\u0007b\\u009b2Jc\\rd\\u007fe\\nf\\tg"
	const good = "a\ufffd]0;x\ufffdb\ufffd2Jc\ufffdd\ufffde"
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/jobs/job_1":
			_, _ = w.Write([]byte(`{"id":"job_1","errors":[{"attempt":1,"error":"` + evil + `"}]}`))
		case "/api/v1/jobs":
			_, _ = w.Write([]byte(`{"jobs":[{"id":"job_1","last_error":"` + evil + `"}]}`))
		case "/api/v1/jobs/bulk":
			_, _ = w.Write([]byte(`{"errors":1,"refused":[{"job_id":"job_1","error":"` + evil + `"}]}`))
		default:
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error":"` + evil + `","code":"CONFLICT","request_id":"` + evil + `"}`))
		}
	})
	for line, want := range map[string]string{
		"inspect job_1":        good + "\nf\tg",
		"dead":                 good + " …",
		"cancel job_1":         "error: " + good + "\nf\tg\n",
		"cancel job_1 job_2":   "job_2: " + good,
		"bulk retry job_1":     "job_1: " + good,
		"enqueue q {} -o json": `\u001b]0;x`, // JSON is for programs, and escapes by itself.
	} {
		if got := run(t, url, strings.Fields(line)...); !strings.Contains(got.stdout+got.stderr, want) || strings.ContainsAny(got.stdout+got.stderr, "\x1b\x07\r") {
			t.Errorf("%s: %q %q", line, got.stdout, got.stderr)
		}
	}
}

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

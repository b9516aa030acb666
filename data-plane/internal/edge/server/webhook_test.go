package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// post sends a body unchanged and reads the response.
func (r *real) post(path string, body []byte, header ...string) (int, string) {
	r.Helper()
	return r.send("POST", path, body, header...)
}

func (r *real) postJSON(path string, body object) (int, string) {
	r.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		r.Fatal(err)
	}
	return r.post(path, raw)
}

func (r *real) send(method, path string, body []byte, header ...string) (int, string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, bytes.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.h2.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestTrap118_AnInboundWebhooksBodyIsThePayload(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	for body, want := range map[string]string{
		` {"a": [1.50, "<b>"]} ` + "\n": `{"a":[1.50,"<b>"]}`,
		`7`:                             `7`,
		`"text"`:                        `"text"`,
		`null`:                          `{}`,
		``:                              `{}`,
		"token=x&text=<hi>":             `"token=x&text=<hi>"`,
		" signed as it is\r\n":          `" signed as it is\r\n"`,
		`{"cut": `:                      `"{\"cut\": "`,
		"line\n\x00two\u2028":           `"line\n\u0000two\u2028"`,
	} {
		status, text := r.post("/api/v1/webhooks/hook", []byte(body), "Content-Type", "application/x-www-form-urlencoded")
		if status != 201 || !strings.Contains(text, `"status":"pending"`) {
			t.Fatalf("%q: %d %s", body, status, text)
		}
		_, text = r.post("/api/v1/fetch", []byte(`{"queues":["hook"],"wait":5}`))
		if !strings.Contains(text, `"payload":`+want+`,`) {
			t.Errorf("%q became %s, want %s", body, text, want)
		}
	}
}

func TestReal_WebhookOptionsAreInTheURL(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	const path = "/api/v1/webhooks/hook?priority=high&unique_key=u%26%3A%3A1&max_retries=7&scheduled_at=2031-01-02T03:04:05Z&tags=a:b:c,d:"
	first := r.call(201, "POST", path, object{"x": 1})
	if first["status"] != "scheduled" {
		t.Errorf("enqueue: %v", first)
	}
	j := r.call(200, "GET", "/api/v1/jobs/"+fmt.Sprint(first["job_id"]), nil)
	if j["priority"] != 1.0 || j["unique_key"] != "u&::1" || j["max_retries"] != 7.0 ||
		j["scheduled_at"] != "2031-01-02T03:04:05Z" || fmt.Sprint(j["tags"]) != "map[a:b:c d:]" {
		t.Errorf("job: %v", j)
	}
	if again := r.call(200, "POST", path, object{"x": 2}); again["job_id"] != first["job_id"] || again["unique_existing"] != true {
		t.Errorf("the same unique key: %v", again)
	}
	// A repeated call gets the same answer, whichever way it sends its key.
	one := r.call(201, "POST", "/api/v1/webhooks/hook?idempotency_key=k", object{})
	two := r.call(200, "POST", "/api/v1/webhooks/hook", object{}, "Idempotency-Key", "k")
	if one["job_id"] != two["job_id"] {
		t.Errorf("idempotency key: %v and %v", one, two)
	}
}

func TestReal_WebhookRefusesByFieldAndDoesNothing(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	for path, fields := range map[string]string{
		"no%2Fslash":                        "queue",
		"other::queue":                      "queue",
		"q?priority=urgent&max_retries=two": "priority max_retries",
		"q?max_retries=%2B5":                "max_retries",
		"q?max_retries=-1":                  "max_retries",
		"q?prio=high":                       "prio",
		"q?unique_key=a&unique_key=b":       "unique_key",
		"q?unique_key=%ff":                  "unique_key",
		"q?tags=a":                          "tags",
		"q?tags=a:1,a:2":                    "tags",
		"q?tags=:1":                         "tags",
		"q?scheduled_at=tomorrow":           "scheduled_at",
		"q?priority=%zz":                    "query",
		"q?payload=1":                       "payload",
		"q?unique_key=" + strings.Repeat("x", 257): "unique_key",
	} {
		status, text := r.post("/api/v1/webhooks/"+path, []byte(`{}`))
		if status != 400 {
			t.Errorf("%s: %d %s", path, status, text)
		}
		for _, f := range strings.Fields(fields) {
			if !strings.Contains(text, `"field":"`+f+`"`) {
				t.Errorf("%s does not name %s: %s", path, f, text)
			}
		}
	}
	for body, want := range map[string]int{
		"\xff\xfe": 400, `{"a":1,"a":2}`: 400, strings.Repeat("[", 5000) + strings.Repeat("]", 5000): 400,
		strings.Repeat("x", 257<<10): 413, strings.Repeat("x", 5<<20): 413,
	} {
		if status, text := r.post("/api/v1/webhooks/q", []byte(body)); status != want {
			t.Errorf("body %.20q: %d %.200s", body, status, text)
		}
	}
	if status, text := r.post("/api/v1/webhooks/q?idempotency_key=a", nil, "Idempotency-Key", "b"); status != 400 || !strings.Contains(text, "idempotency_key") {
		t.Errorf("two keys: %d %s", status, text)
	}
	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"q"}, "wait": 0})
}

// Generation 2's fairness key is kept as a tag, in whatever order the members come.
func TestReal_GroupIsATag(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	for body, want := range map[string]string{
		`{"queue":"g","group":"a"}`:                      "map[group:a]",
		`{"queue":"g","group":"a","tags":{"k":"v"}}`:     "map[group:a k:v]",
		`{"queue":"g","tags":{"group":"a"},"group":"a"}`: "map[group:a]",
		`{"queue":"g","tags":{"k":"v"},"group":""}`:      "map[k:v]",
	} {
		_, text := r.post("/api/v1/enqueue", []byte(body))
		_, id, _ := strings.Cut(text, `"job_id":"`)
		if got := fmt.Sprint(r.call(200, "GET", "/api/v1/jobs/"+id[:30], nil)["tags"]); got != want {
			t.Errorf("%s: tags %s, want %s", body, got, want)
		}
	}
	for _, body := range []string{`{"queue":"g","group":"a","tags":{"group":"b"}}`, `{"queue":"g","tags":{"group":"b"},"group":"a"}`, `{"queue":"g","group":1}`} {
		if status, text := r.post("/api/v1/enqueue", []byte(body)); status != 400 || !strings.Contains(text, `group"`) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

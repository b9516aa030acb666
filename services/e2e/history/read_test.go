package history

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// service answers what a record is read from: each path has its pages, the last of which comes again.
type service map[string][]string

// ServeHTTP implements http.Handler.
func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/api/v1")
	pages := s[path]
	if len(pages) > 1 {
		s[path] = pages[1:]
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(pages[0]))
}

func TestReadRecord_TellsWhatIsLostLateOrDouble(t *testing.T) {
	t.Parallel()
	whole := func() service {
		return service{
			"/cluster/events": {`{"events":[{"seq":1,"job_id":"a"}],"lost":true}`, `{"events":[{"seq":2,"job_id":"b"}]}`, `{"events":[]}`},
			"/jobs/bulk-get":  {`{"jobs":[{"id":"a"},{"id":"b"}]}`},
			"/jobs":           {`{"jobs":[{"id":"a"}],"cursor":"x","has_more":true}`, `{"jobs":[{"id":"a"},{"id":"b"}]}`},
			"/batches":        {`{"batches":[]}`},
			"/schedules":      {`{"schedules":[]}`},
		}
	}
	r, err := read(t, whole())
	if err != nil {
		t.Fatal(err)
	}
	if !r.Lost || len(r.Jobs) != 2 || len(r.Rows) != 2 || len(r.Twice) != 1 || r.Twice[0] != "a" {
		t.Errorf("read %+v, want two jobs, one of which the lists show twice, and that events are lost", r)
	}
	for _, late := range []string{`{"jobs":[],"lag_ms":5}`, `{"jobs":[],"rebuilding":true}`} {
		s := whole()
		s["/jobs"] = []string{late}
		if _, err := read(t, s); err == nil {
			t.Errorf("lists that are late were read: %s", late)
		}
	}
}

func read(t *testing.T, s service) (*Record, error) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := corvo.New(corvo.WithURL(server.URL), corvo.WithAPIKey("corvo_key"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return ReadRecord(t.Context(), c)
}

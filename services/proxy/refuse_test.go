package proxy

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// The proxy's own refusals say when to come back in the forms of the nodes: whole seconds
// in HTTP's header, except for overload, and exact milliseconds beside it.
func TestRefusal_SaysWhenToComeBackAsTheNodesDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ref        *refusal
		header, ms string
	}{
		"shutting down": {refuseEnding, "1", "100"},
		"overloaded":    {refuseCalls(73_400_001 * time.Nanosecond), "0.074", "74"},
		"a second":      {refuseBusy, "1", "1000"},
		"no time":       {refuseNotFound, "", ""},
	} {
		w := httptest.NewRecorder()
		writeRefusal(w, httptest.NewRequest("GET", "/api/v1/info", nil), connect.NewErrorWriter(), false, c.ref)
		if got := w.Header().Get("Retry-After"); got != c.header || strings.Contains(w.Body.String(), `"retry_after_ms":`+c.ms) != (c.ms != "") {
			t.Errorf("%s: Retry-After %q, %s", name, got, w.Body)
		}
		w = httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/corvo.v1.WorkerService/Fetch", nil)
		r.Header.Set("Content-Type", "application/proto")
		writeRefusal(w, r, connect.NewErrorWriter(), true, c.ref)
		if h := w.Header(); h.Get("Retry-After") != c.header || h.Get("Retry-After-Ms") != c.ms {
			t.Errorf("%s in an RPC: %v", name, h)
		}
	}
}

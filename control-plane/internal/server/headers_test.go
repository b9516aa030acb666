package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
)

func TestPanic_IsAnAnswerWithTheRequestsID(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	h := introduced(recovered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("key corvo_mg_0123456789abSECRETSECRETSECRETSECRETSECRETSECRETSECRETS1234567")
	}), slog.New(slog.NewTextHandler(&log, nil))), ids.NewMaker(), time.Now, remoteAddress)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/x", nil))
	id := w.Header().Get("X-Request-Id")
	if w.Code != http.StatusInternalServerError || !ids.Is(requestKind, id) || !strings.Contains(w.Body.String(), id) || strings.Contains(w.Body.String(), "corvo_mg") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), id) || strings.Contains(log.String(), "SECRET") {
		t.Errorf("the log has %s", log.String())
	}
}

func TestIntroduced_KnowsTheAddressAndNothingElse(t *testing.T) {
	t.Parallel()
	var got access.Caller
	h := introduced(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = access.From(r.Context()) }), ids.NewMaker(), time.Now, remoteAddress)
	r := httptest.NewRequest("GET", "/x", nil)
	r.RemoteAddr = "[2001:db8::1]:4711"
	r.Header.Set("X-Request-Id", "forged")
	r.Header.Set("User-Agent", "tool\r\n\x1b[31m\xff"+strings.Repeat("é", 1000))
	h.ServeHTTP(httptest.NewRecorder(), r)
	if got.Peer != "2001:db8::1" || got.RequestID == "forged" || got.ID() != "" || len(got.Rights.Grants) != 0 {
		t.Errorf("%+v", got)
	}
	if len(got.UserAgent) > userAgentBytesMax || !strings.HasPrefix(got.UserAgent, "tool[31mé") || strings.ContainsAny(got.UserAgent, "\r\n\x1b") {
		t.Errorf("user agent %q", got.UserAgent)
	}
}

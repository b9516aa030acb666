package server

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func TestConsole_FilesPagesAndWhatIsNeither(t *testing.T) {
	t.Parallel()
	built := fstest.MapFS{
		"index.html":       {Data: []byte("<title>Console</title>")},
		"assets/app-1a.js": {Data: []byte("script")},
		"favicon.svg":      {Data: []byte("<svg/>")},
	}
	for _, tc := range []struct {
		files                     fs.FS
		method, path              string
		status                    int
		contains, cache, mimeType string
	}{
		{built, "GET", "/", 200, "Console", "no-cache", "text/html"},
		{built, "GET", "/acme/queues?state=dead", 200, "Console", "no-cache", "text/html"},
		{built, "HEAD", "/acme", 200, "", "no-cache", "text/html"},
		{built, "GET", "/assets/app-1a.js", 200, "script", "immutable", "text/javascript"},
		{built, "GET", "/favicon.svg", 200, "<svg/>", "no-cache", "image/svg"},
		{built, "GET", "/assets/gone-2b.js", 404, "", "", "text/plain"},
		{built, "GET", "/robots.txt", 404, "", "", "text/plain"},
		{built, "GET", "/../../etc/passwd", 200, "Console", "", ""},
		{built, "GET", "/assets/%2e%2e/%2e%2e/server.go", 404, "", "", ""},
		{built, "GET", "/corvo.cloud.v1.TenantService/NoSuch", 404, "", "", "text/plain"},
		{built, "GET", "/api/v1/queues", 404, "", "", "text/plain"},
		{built, "GET", "/t/acme/api/v1/queues", 404, "", "", "text/plain"},
		{built, "GET", "/auth/nowhere", 404, "", "", "text/plain"},
		{built, "GET", "/mailers/queues", 200, "Console", "no-cache", "text/html"},
		{built, "POST", "/acme", 405, "", "", "text/plain"},
		{fstest.MapFS{"keep": {}}, "GET", "/", 404, "make web", "", "text/plain"},
		{nil, "GET", "/acme", 404, "make web", "", "text/plain"},
	} {
		w := httptest.NewRecorder()
		console(tc.files).ServeHTTP(w, httptest.NewRequest(tc.method, "http://x"+tc.path, nil))
		h := w.Header()
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.contains) || !strings.Contains(h.Get("Cache-Control"), tc.cache) || !strings.HasPrefix(h.Get("Content-Type"), tc.mimeType) {
			t.Errorf("%s %s: %d %q %q %q", tc.method, tc.path, w.Code, h.Get("Cache-Control"), h.Get("Content-Type"), w.Body)
		}
		if w.Code != http.StatusOK && strings.Contains(h.Get("Cache-Control"), "immutable") {
			t.Errorf("%s %s: a refusal is kept for ever", tc.method, tc.path)
		}
	}
}

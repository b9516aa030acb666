package server

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/fstest"
)

func builtConsole() fstest.MapFS {
	return fstest.MapFS{
		"index.html":          {Data: []byte("<title>Console</title>")},
		"index.html.br":       {Data: []byte("small page")},
		"index.html.gz":       {Data: []byte("smaller page")},
		"assets/app-1a.js":    {Data: []byte("a long script")},
		"assets/app-1a.js.br": {Data: []byte("br")},
		"assets/app-1a.js.gz": {Data: []byte("gz")},
		"assets/inter.woff2":  {Data: []byte("letters")},
	}
}

func get(t *testing.T, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", "http://x"+path, nil)
	for n := 0; n < len(header); n += 2 {
		r.Header.Add(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAssets_AreSentInTheSmallestFormThatTheClientTakes(t *testing.T) {
	t.Parallel()
	h := console(builtConsole())
	for _, tc := range []struct{ path, accept, encoding, body string }{
		{"/assets/app-1a.js", "gzip, deflate, br, zstd", "br", "br"},
		{"/assets/app-1a.js", "br;q=0, gzip;q=0.5", "gzip", "gz"},
		{"/assets/app-1a.js", "BR ; Q=0.1", "br", "br"},
		{"/assets/app-1a.js", "gzip;q=nonsense", "", "a long script"},
		{"/assets/app-1a.js", "brotli, *", "", "a long script"},
		{"/assets/app-1a.js", "", "", "a long script"},
		{"/acme/jobs", "gzip", "gzip", "smaller page"},
		{"/assets/inter.woff2", "br", "", "letters"},
	} {
		w := get(t, h, tc.path, "Accept-Encoding", tc.accept)
		if w.Code != 200 || w.Header().Get("Content-Encoding") != tc.encoding || w.Body.String() != tc.body {
			t.Errorf("%s for %q: %d %q %q", tc.path, tc.accept, w.Code, w.Header().Get("Content-Encoding"), w.Body)
		}
		if varies := w.Header().Get("Vary") == "Accept-Encoding"; varies == (tc.body == "letters") {
			t.Errorf("%s: Vary is %q", tc.path, w.Header().Get("Vary"))
		}
		if w.Header().Get("Content-Length") == "" {
			t.Errorf("%s for %q: no length", tc.path, tc.accept)
		}
	}
	if w := get(t, h, "/assets/app-1a.js", "Accept-Encoding", "br"); w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("a compressed script is sent as %q", w.Header().Get("Content-Type"))
	}
}

func TestAssets_ARepeatedQuestionIsAnsweredWithoutTheFile(t *testing.T) {
	t.Parallel()
	h := console(builtConsole())
	plain := get(t, h, "/acme").Header().Get("ETag")
	small := get(t, h, "/acme", "Accept-Encoding", "br").Header().Get("ETag")
	if plain == "" || plain == small {
		t.Fatalf("tags %q and %q: two encodings are two things to a cache", plain, small)
	}
	w := get(t, h, "/acme", "Accept-Encoding", "br", "If-None-Match", small)
	if w.Code != http.StatusNotModified || w.Body.Len() != 0 || w.Header().Get("ETag") != small {
		t.Errorf("the same tag again: %d, %d bytes, ETag %q", w.Code, w.Body.Len(), w.Header().Get("ETag"))
	}
	if w := get(t, h, "/acme", "If-None-Match", small); w.Code != http.StatusOK {
		t.Errorf("the tag of another encoding: %d", w.Code)
	}
}

// What another build made is another thing to a cache, in every form.
func TestAssets_TagsFollowTheContent(t *testing.T) {
	t.Parallel()
	changed := builtConsole()
	changed["index.html.br"] = &fstest.MapFile{Data: []byte("small page of a newer build")}
	for _, accept := range []string{"br", "gzip", ""} {
		tag := func(files fs.FS) string {
			return get(t, console(files), "/acme", "Accept-Encoding", accept).Header().Get("ETag")
		}
		if a, b, same := tag(builtConsole()), tag(changed), tag(builtConsole()); a == b || a != same {
			t.Errorf("accepting %q: %s, another build %s, the same one %s", accept, a, b, same)
		}
	}
}

// Not parallel: it measures the heap. Embedded files are in memory once, as part of the program.
func TestAssets_AreNotCopied(t *testing.T) {
	const size = 16 << 20
	files := fstest.MapFS{"index.html": {Data: make([]byte, size)}}
	before := heap()
	h := console(files)
	if grown := heap() - before; grown > size/4 {
		t.Errorf("%d bytes are kept for files of %d", grown, size)
	}
	runtime.KeepAlive(h)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAssets_CompressedFilesHaveNoAddressAndNoRanges(t *testing.T) {
	t.Parallel()
	h := console(builtConsole())
	for _, path := range []string{"/assets/app-1a.js.br", "/index.html.gz"} {
		if w := get(t, h, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := get(t, h, "/assets/app-1a.js", "Accept-Encoding", "br", "Range", "bytes=1-"); w.Code != 200 || w.Body.String() != "br" {
		t.Errorf("part of a compressed file: %d %q", w.Code, w.Body)
	}
	if w := get(t, h, "/assets/inter.woff2", "Range", "bytes=1-3"); w.Code != http.StatusPartialContent || w.Body.String() != "ett" {
		t.Errorf("part of a file as it is: %d %q", w.Code, w.Body)
	}
}

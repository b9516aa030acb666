package server

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

const (
	indexName = "index.html"
	// hashedDir holds files whose name changes with their content.
	hashedDir = "assets/"

	notBuilt = "The console is not built into this program.\n\nBuild it with: make web\nThen build and start the program again.\n"
)

// console serves the built console. Pages are made in the browser, so every path that
// names no file is the one page.
func console(files fs.FS) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		switch {
		case notAPage(name):
			http.NotFound(w, r)
		case strings.HasPrefix(name, hashedDir):
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			if !serve(w, r, files, name) {
				w.Header().Del("Cache-Control")
				http.NotFound(w, r)
			}
		default:
			w.Header().Set("Cache-Control", "no-cache")
			servePage(w, r, files, name)
		}
	})
}

func servePage(w http.ResponseWriter, r *http.Request, files fs.FS, name string) {
	switch {
	case name != "" && serve(w, r, files, name):
	case path.Ext(name) != "":
		http.NotFound(w, r)
	case !serve(w, r, files, indexName):
		http.Error(w, notBuilt, http.StatusNotFound)
	}
}

// notAPage reports whether a path belongs to an API: a mistyped call must not be
// answered with a page and status 200.
func notAPage(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	switch first {
	case "api", "auth", "t", "mail", "healthz", "readyz", "metrics":
		return true
	}
	return strings.HasPrefix(first, "corvo.") || strings.HasPrefix(first, ".")
}

// serve sends a file and reports whether there is one.
func serve(w http.ResponseWriter, r *http.Request, files fs.FS, name string) bool {
	if files == nil || !fs.ValidPath(name) {
		return false
	}
	// Files are read whole: embedded ones are in memory already.
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return false
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	return true
}

// built reports whether the console is there.
func built(files fs.FS) bool {
	if files == nil {
		return false
	}
	_, err := fs.Stat(files, indexName)
	return !errors.Is(err, fs.ErrNotExist) && err == nil
}

package server

import (
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

const (
	indexName = "index.html"
	// hashedDir holds files whose name changes with their content.
	hashedDir = "assets/"

	notBuilt = "The console isn't built into this program.\n\nBuild it with: make web\nThen build and start the program again.\n"
)

// console serves the built console. Pages are made in the browser, so every path that
// names no file is the one page.
func console(files fs.FS) http.Handler {
	c := assets(files)
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
			if !c.serve(w, r, name, "public, max-age=31536000, immutable") {
				http.NotFound(w, r)
			}
		default:
			c.servePage(w, r, name)
		}
	})
}

func (c assetSet) servePage(w http.ResponseWriter, r *http.Request, name string) {
	switch {
	case name != "" && c.serve(w, r, name, "no-cache"):
	case path.Ext(name) != "":
		http.NotFound(w, r)
	case !c.serve(w, r, indexName, "no-cache"):
		http.Error(w, notBuilt, http.StatusNotFound)
	}
}

// notAPage reports whether a path belongs to an API: a mistyped call must not be
// answered with a page and status 200.
func notAPage(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	switch first {
	case "api", "auth", "scim", "t", "mail", "healthz", "readyz", "metrics":
		return true
	}
	return strings.HasPrefix(first, "corvo.") || strings.HasPrefix(first, ".")
}

// built reports whether the console is there.
func built(files fs.FS) bool {
	if files == nil {
		return false
	}
	_, err := fs.Stat(files, indexName)
	return !errors.Is(err, fs.ErrNotExist) && err == nil
}

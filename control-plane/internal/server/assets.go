package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// assetSet holds the console's files by name, each in the forms in which it can be sent.
type assetSet map[string][]form

// A form is one encoding of a file.
type form struct {
	encoding string // empty: as it is
	content  []byte
	tag      string
}

// encodings are those that the build makes, the smallest first, with the suffix of their files.
var encodings = []struct{ name, suffix string }{{"br", ".br"}, {"gzip", ".gz"}}

// assets reads every file and what the build has compressed beside it. The files are
// embedded, so that reading them copies nothing.
func assets(files fs.FS) assetSet {
	set := assetSet{}
	if files == nil {
		return set
	}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || encodingOf(name) != "" {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		set[name] = append(packed(files, name), formOf("", content))
		return nil
	})
	if err != nil {
		// Half a console is worse than none; without one, the answer says how to get
		// it.
		return assetSet{}
	}
	return set
}

func packed(files fs.FS, name string) []form {
	var forms []form
	for _, e := range encodings {
		if content, err := fs.ReadFile(files, name+e.suffix); err == nil {
			forms = append(forms, formOf(e.name, content))
		}
	}
	return forms
}

func encodingOf(name string) string {
	for _, e := range encodings {
		if path.Ext(name) == e.suffix {
			return e.name
		}
	}
	return ""
}

// formOf makes an etag from the content: for caches, two encodings of a file are
// different.
func formOf(encoding string, content []byte) form {
	sum := sha256.Sum256(content)
	return form{encoding, content, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
}

// serve sends a file in the smallest form that the client takes, and reports whether there is one.
func (c assetSet) serve(w http.ResponseWriter, r *http.Request, name, cache string) bool {
	forms := c[name]
	if len(forms) == 0 {
		return false
	}
	f := chosen(forms, r.Header.Values("Accept-Encoding"))
	h := w.Header()
	h.Set("Cache-Control", cache)
	h.Set("ETag", f.tag)
	if len(forms) > 1 {
		h.Add("Vary", "Accept-Encoding")
	}
	if f.encoding != "" {
		h.Set("Content-Encoding", f.encoding)
		// ServeContent leaves the length of encoded content to whoever encoded it.
		h.Set("Content-Length", strconv.Itoa(len(f.content)))
		// Part of an encoded file is of no use, and caches get it wrong.
		r = withoutRange(r)
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
	return true
}

func withoutRange(r *http.Request) *http.Request {
	if r.Header.Get("Range") == "" {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Del("Range")
	return r
}

// chosen is the first form that the client accepts. The last one is the file as it is,
// which every client takes.
func chosen(forms []form, accept []string) form {
	for _, f := range forms[:len(forms)-1] {
		if accepts(accept, f.encoding) {
			return f
		}
	}
	return forms[len(forms)-1]
}

// accepts reports whether an Accept-Encoding names an encoding with a weight above zero.
// A wildcard does not count: clients that accept brotli say so.
func accepts(accept []string, encoding string) bool {
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			if !strings.EqualFold(strings.TrimSpace(name), encoding) {
				continue
			}
			return weight(params) > 0
		}
	}
	return false
}

// weight is the q of an item; 1 if it has none, 0 if it makes no sense.
func weight(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return 0
		}
		return q
	}
	return 1
}

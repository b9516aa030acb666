package server

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// assetSet is the console's files by name, each with the forms in which it can be sent.
type assetSet struct {
	files http.FileSystem
	forms map[string][]form
}

// A form is one encoding of a file.
type form struct {
	encoding string // empty: as it is
	file     string
	tag      string
}

// encodings are those that the build makes, the smallest first, with the suffix of their files.
var encodings = []struct{ name, suffix string }{{"br", ".br"}, {"gzip", ".gz"}}

// assets looks for every file and what the build has compressed beside it. It keeps none, and reads
// the smallest form only: they are embedded, and what is read of the program stays in memory.
func assets(files fs.FS) assetSet {
	if files == nil {
		return assetSet{}
	}
	set := assetSet{http.FS(files), map[string][]form{}}
	buffer := make([]byte, 32<<10)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || encodingOf(name) != "" {
			return err
		}
		forms := append(packed(files, name), form{file: name})
		sum, err := sumOf(files, forms[0].file, buffer)
		for i, f := range forms {
			// For caches, two encodings of a file are different.
			forms[i].tag = `"` + sum + f.encoding + `"`
		}
		set.forms[name] = forms
		return err
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
		if _, err := fs.Stat(files, name+e.suffix); err == nil {
			forms = append(forms, form{encoding: e.name, file: name + e.suffix})
		}
	}
	return forms
}

func sumOf(files fs.FS, name string, buffer []byte) (string, error) {
	file, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, file, buffer); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:12]), nil
}

func encodingOf(name string) string {
	for _, e := range encodings {
		if path.Ext(name) == e.suffix {
			return e.name
		}
	}
	return ""
}

// serve sends a file in the smallest form that the client takes, and reports whether there is one.
func (c assetSet) serve(w http.ResponseWriter, r *http.Request, name, cache string) bool {
	forms := c.forms[name]
	if len(forms) == 0 {
		return false
	}
	f := chosen(forms, r.Header.Values("Accept-Encoding"))
	content, err := c.files.Open(f.file)
	if err != nil {
		return false
	}
	defer content.Close()
	info, err := content.Stat()
	if err != nil {
		return false
	}
	h := w.Header()
	h.Set("Cache-Control", cache)
	h.Set("ETag", f.tag)
	if len(forms) > 1 {
		h.Add("Vary", "Accept-Encoding")
	}
	if f.encoding != "" {
		h.Set("Content-Encoding", f.encoding)
		// ServeContent leaves the length of encoded content to whoever encoded it.
		h.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
		// Part of an encoded file is of no use, and caches get it wrong.
		r = withoutRange(r)
	}
	http.ServeContent(w, r, name, time.Time{}, content)
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

package scim

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden responses")

// memory is a Backend for tests of the protocol alone.
type memory struct {
	all  []Resource
	next int
}

func (m *memory) find(k Kind, id string) (int, error) {
	i := slices.IndexFunc(m.all, func(r Resource) bool { return r.Kind == k && r.ID == id })
	if i < 0 {
		return 0, Missing(k)
	}
	return i, nil
}

func (m *memory) Get(_ context.Context, k Kind, id string, _ bool) (Resource, error) {
	i, err := m.find(k, id)
	if err != nil {
		return Resource{}, err
	}
	return m.all[i], nil
}

func (m *memory) List(_ context.Context, k Kind, q Query) (l List, _ error) {
	for _, r := range m.all {
		has := func(_, id string) (bool, error) {
			return slices.ContainsFunc(r.Members, func(m Reference) bool { return m.ID == id }), nil
		}
		if ok, err := q.Filter.Matches(r, has); err != nil {
			return l, err
		} else if !ok || r.Kind != k {
			continue
		}
		if l.Total++; l.Total > q.Start && len(l.Resources) < q.Count {
			l.Resources = append(l.Resources, r)
		}
	}
	return l, nil
}

func (m *memory) Create(_ context.Context, k Kind, o Object, members []string) (Resource, error) {
	m.next++
	at := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	r := Resource{Kind: k, ID: fmt.Sprintf("%s_%d", strings.ToLower(string(k))[:3], m.next), Version: 1, Created: at, Modified: at, Attributes: o}
	r.change([]MemberOp{{Add: members}})
	m.all = append(m.all, r)
	return r, nil
}

func (r *Resource) change(ops []MemberOp) {
	for _, op := range ops {
		if op.Replace {
			r.Members = nil
		}
		for _, id := range op.Add {
			r.Members = append(r.Members, Reference{ID: id})
		}
		r.Members = slices.DeleteFunc(slices.Clone(r.Members), func(m Reference) bool { return slices.Contains(op.Remove, m.ID) })
	}
}

func (m *memory) Update(_ context.Context, k Kind, id string, change Change) (Resource, error) {
	i, err := m.find(k, id)
	if err != nil {
		return Resource{}, err
	}
	r := m.all[i]
	o, ops, err := change(r)
	if err != nil {
		return r, err
	}
	r.Attributes = o
	r.change(ops)
	r.Version++
	m.all[i] = r
	return r, nil
}

func (m *memory) Delete(_ context.Context, k Kind, id string, before func(Resource) error) error {
	i, err := m.find(k, id)
	if err == nil {
		err = before(m.all[i])
	}
	if err == nil {
		m.all = slices.Delete(m.all, i, i+1)
	}
	return err
}

func newHandler() *Handler {
	m := &memory{}
	return &Handler{Backend: func(*http.Request) Backend { return m }, URL: "https://corvo.test" + Base, Log: slog.New(slog.DiscardHandler)}
}

// script is requests one after another: method, path, body, headers.
var script = [][]string{
	{"GET", "/ServiceProviderConfig"},
	{"GET", "/ResourceTypes"},
	{"GET", "/Schemas"},
	{"GET", "/Schemas/" + urnGroup},
	{"GET", "/Users?filter=userName%20eq%20%22ada%40example.com%22"},
	{"POST", "/Users", `{"schemas":["` + urnUser + `","` + urnEnterprise + `"],"externalId":"x1","userName":"ada@example.com","active":"True","emails":[{"primary":true,"type":"work","value":"ada@example.com"}],"name":{"familyName":"Lovelace","givenName":"Ada","middleName":""},"roles":[],"` + urnEnterprise + `":{"department":"Engines"}}`},
	{"GET", "/Users/use_1"},
	{"GET", "/Users/use_1?attributes=userName,name.givenName," + urnEnterprise + ":department"},
	{"GET", "/Users/use_1?excludedAttributes=emails,name.familyName"},
	{"GET", "/Users/use_1", "", "If-None-Match", `W/"1"`},
	{"PATCH", "/Users/use_1", fmt.Sprintf(patchOf, `{"op":"Replace","path":"active","value":"False"}`), "If-Match", `W/"1"`},
	{"PATCH", "/Users/use_1", fmt.Sprintf(patchOf, `{"op":"Replace","path":"active","value":"True"}`), "If-Match", `W/"1"`},
	{"PUT", "/Users/use_1", `{"userName":"ada@example.com","title":"Countess"}`},
	{"POST", "/Groups", `{"displayName":"Engines","members":[{"value":"use_1"}]}`},
	{"PATCH", "/Groups/gro_2", fmt.Sprintf(patchOf, `{"op":"add","path":"members","value":[{"value":"use_9"}]}`)},
	{"GET", "/Groups/gro_2"},
	{"GET", "/Groups?excludedAttributes=members&filter=" + `id%20eq%20%22gro_2%22%20and%20members%20eq%20%22use_9%22`},
	{"GET", "/Groups?startIndex=2&count=1"},
	{"GET", "/Users?count=0"},
	{"GET", "/Users?count=x"},
	{"GET", "/Users?filter=userName%20is%20odd"},
	{"GET", "/Users/gro_2"},
	{"GET", "/Users?attributes=id&excludedAttributes=id"},
	{"POST", "/Users", `{"displayName":"no name"}`},
	{"POST", "/Users", `{"userName":"a","USERNAME":"b"}`},
	{"POST", "/Users", `{"userName":"a"}`, "Content-Type", "text/plain"},
	{"POST", "/Bulk", `{}`},
	{"GET", "/Me"},
	{"PUT", "/Users", `{}`},
	{"GET", "/Nothing"},
	{"DELETE", "/Users/use_1", "", "If-Match", `W/"7"`},
	{"DELETE", "/Users/use_1"},
	{"DELETE", "/Users/use_1"},
}

func (h *Handler) do(step []string) *httptest.ResponseRecorder {
	body := ""
	if len(step) > 2 {
		body = step[2]
	}
	r := httptest.NewRequest(step[0], Base+step[1], strings.NewReader(body))
	r.Header.Set("Content-Type", ContentType)
	for i := 3; i+1 < len(step); i += 2 {
		r.Header.Set(step[i], step[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHandler_AnswersAsBefore(t *testing.T) {
	t.Parallel()
	h := newHandler()
	var out bytes.Buffer
	for _, step := range script {
		w := h.do(step)
		fmt.Fprintf(&out, "%s\n%d", strings.Join(step, " "), w.Code)
		for _, name := range []string{"ETag", "Location", "Allow"} {
			if v := w.Header().Get(name); v != "" {
				fmt.Fprintf(&out, " %s: %s", name, v)
			}
		}
		out.WriteByte('\n')
		if w.Body.Len() > 0 {
			if got := w.Header().Get("Content-Type"); got != ContentType {
				t.Errorf("%s: content type %q", step, got)
			}
			if err := json.Indent(&out, w.Body.Bytes(), "", " "); err != nil {
				t.Fatal(err)
			}
			out.WriteByte('\n')
		}
		out.WriteByte('\n')
	}
	golden := filepath.Join("testdata", "responses.txt")
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(want, out.Bytes()) {
		t.Errorf("the responses differ from %s (%v); read the differences after -update", golden, err)
	}
}

func TestHandler_BodyIsBounded(t *testing.T) {
	t.Parallel()
	h := newHandler()
	w := h.do([]string{"POST", "/Users", `{"userName":"` + strings.Repeat("x", BodyMax) + `"}`})
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func FuzzHandler(f *testing.F) {
	for _, step := range script {
		body := ""
		if len(step) > 2 {
			body = step[2]
		}
		f.Add(step[0], step[1], body)
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		r, err := http.NewRequest(method, "https://corvo.test"+Base+target, strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		r.Header.Set("Content-Type", ContentType)
		h := newHandler()
		h.do(script[5])
		h.do([]string{"POST", "/Groups", `{"displayName":"G"}`})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError && w.Code != http.StatusNotImplemented {
			t.Errorf("%s %s %s: %d %s", method, target, body, w.Code, w.Body)
		}
		if w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s: %s", method, target, w.Body)
		}
	})
}

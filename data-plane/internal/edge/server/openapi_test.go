package server

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

type document struct {
	Paths map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Security    []any  `json:"security"`
		Parameters  []struct{ Name, In string }
		RequestBody *struct {
			Content map[string]struct{ Schema shape.Schema }
		} `json:"requestBody"`
		Responses map[string]any
	}
	Components struct{ Schemas map[string]shape.Schema }
}

func readDocument(t *testing.T, b *bench) document {
	t.Helper()
	var doc document
	b.do("GET", "/openapi.json", "").want(t, 200).into(t, &doc)
	return doc
}

func TestOpenAPI_DescribesExactlyTheRoutes(t *testing.T) {
	t.Parallel()
	doc := readDocument(t, newBench(t, benchOptions{}))
	want := make(map[string]bool)
	for _, rt := range Routes() {
		if rt.RPC {
			continue
		}
		key := strings.ToLower(rt.Method) + " " + rt.Pattern
		want[key] = true
		op, ok := doc.Paths[rt.Pattern][strings.ToLower(rt.Method)]
		if !ok {
			t.Errorf("%s is not in the document", key)
			continue
		}
		if (len(op.Security) > 0) != (rt.Permission != public) || (op.RequestBody != nil) != (rt.request != "") {
			t.Errorf("%s: security %v, body %v", key, op.Security, op.RequestBody)
		}
		for _, p := range op.Parameters {
			if p.In == "path" && !strings.Contains(rt.Pattern, "{"+p.Name+"}") {
				t.Errorf("%s: parameter %s", key, p.Name)
			}
		}
	}
	ids := make(map[string]bool)
	for path, ops := range doc.Paths {
		for method, op := range ops {
			if !want[method+" "+path] {
				t.Errorf("%s %s is in the document alone", method, path)
			}
			if ids[op.OperationID] {
				t.Errorf("operationId %s is used twice", op.OperationID)
			}
			ids[op.OperationID] = true
		}
	}
}

// The table of calls in docs/api.md is generated from the routes, so that they cannot differ.
func TestDocs_TheTableOfCallsIsTheRoutes(t *testing.T) {
	t.Parallel()
	const file, begins, ends = "../../../../docs/api.md", "<!-- calls: ", "<!-- end of calls -->"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begins)
	marker, rest, _ := strings.Cut(rest, "\n")
	_, after, found := strings.Cut(rest, ends)
	if !ok || !found {
		t.Fatalf("%s has no place for the calls, between %q and %q", file, begins, ends)
	}
	table := "| call | what it does |\n|---|---|\n"
	for _, rt := range Routes() {
		if !rt.RPC {
			table += fmt.Sprintf("| `%s %s` | %s |\n", rt.Method, rt.Pattern, strings.ToLower(rt.summary[:1])+rt.summary[1:])
		}
	}
	want := before + begins + marker + "\n" + table + ends + after
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(page) {
		t.Errorf("the table in %s is not the routes (rewrite with -rewrite); it should be\n%s", file, table)
	}
}

func TestDocs_EveryEventIsInTheTableOfEvents(t *testing.T) {
	t.Parallel()
	const file, begins = "../../../../docs/api.md", "| type | sent when |\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), begins)
	if !found {
		t.Fatalf("%s has no table of events, which begins with %q", file, begins)
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	for _, e := range wire.EventTypes() {
		if !strings.Contains(table, "`"+string(e)+"`") {
			t.Errorf("the table of events in %s does not say when %s is sent", file, e)
		}
	}
}

// A component that is only a reference to itself is meaningless, and generators stop at it.
func TestOpenAPI_ComponentsAreNoReferences(t *testing.T) {
	t.Parallel()
	for name, s := range readDocument(t, newBench(t, benchOptions{})).Components.Schemas {
		if s.Ref != "" {
			t.Errorf("%s is a reference to %s", name, s.Ref)
		}
	}
}

func TestOpenAPI_EveryReferenceHasATarget(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	doc := readDocument(t, b)
	raw := string(b.do("GET", "/openapi.json", "").body)
	for i, part := range strings.Split(raw, `"$ref": "`) {
		if i == 0 {
			continue
		}
		ref, _, _ := strings.Cut(part, `"`)
		if _, ok := doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]; !ok {
			t.Errorf("%s has no target", ref)
		}
	}
}

// The running server refuses what the document calls not available, and requires what
// the document calls required.
func TestOpenAPI_AgreesWithTheRunningServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	doc := readDocument(t, b)
	for path, ops := range doc.Paths {
		op, ok := ops["post"]
		if !ok || op.RequestBody == nil {
			continue
		}
		ref := op.RequestBody.Content["application/json"].Schema.Ref
		s := doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
		url := strings.NewReplacer("{id}", jobNumber(1).String()).Replace(path)
		for name, member := range s.Properties {
			if !member.Deprecated {
				continue
			}
			body, _ := json.Marshal(map[string]any{name: 1})
			if a := b.post(url, string(body)); a.status != 400 || !strings.Contains(string(a.body), `"field":"`+name+`","message":"is not available yet"`) {
				t.Errorf("%s with %s: %d %s", path, name, a.status, a.body)
			}
		}
		for _, name := range s.Required {
			if a := b.post(url, `{}`); a.status != 400 || !strings.Contains(string(a.body), `"field":"`+name+`"`) {
				t.Errorf("%s without %s: %d %s", path, name, a.status, a.body)
			}
		}
	}
}

func TestOpenAPI_EveryTypeOfWordsHasItsList(t *testing.T) {
	t.Parallel()
	seen := make(map[reflect.Type]bool)
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		if of == nil || seen[of] {
			return
		}
		seen[of] = true
		switch of.Kind() {
		case reflect.Struct:
			for _, f := range reflect.VisibleFields(of) {
				walk(f.Type)
			}
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(of.Elem())
		case reflect.String:
			if strings.HasSuffix(of.PkgPath(), "/wire") && len(shape.WordLists[of]) == 0 {
				t.Errorf("%s has no list", of)
			}
		}
	}
	for _, rt := range Routes() {
		walk(reflect.TypeOf(rt.answer))
		walk(reflect.TypeOf(rt.accepted))
	}
	walk(reflect.TypeFor[wire.Problem]())
	for of := range shape.WordLists {
		if !seen[of] {
			t.Errorf("no answer has a %s", of)
		}
	}
}

// A component of a response would overwrite a request of the same name.
func TestOpenAPI_RequestsAndAnswersHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	answers := make(map[string]shape.Schema)
	for _, rt := range Routes() {
		if rt.answer != nil {
			shape.SchemaOf(reflect.TypeOf(rt.answer), answers)
		}
	}
	for name := range requestSchemas() {
		if _, taken := answers[name]; taken {
			t.Errorf("%s is a request and an answer", name)
		}
	}
}

func TestShapes_FitTheirBitSet(t *testing.T) {
	t.Parallel()
	for name, s := range requestSchemas() {
		if len(s.Properties) > 64 {
			t.Errorf("%s has %d members; Read of a shape remembers 64", name, len(s.Properties))
		}
	}
}

package isolation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// document is the OpenAPI document, as far as it says what can be called.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	Security    []any `json:"security"` // Empty: no key is needed.
	RequestBody struct {
		Content map[string]struct {
			Schema schema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
}

type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"` // A name, or a list of them.
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	Enum       []any             `json:"enum"`
}

// allProbes are the probes of every route and procedure of a service: those of probes,
// and for the other routes those derived from the document.
func allProbes(ctx context.Context, t *testing.T, base string) map[string]probe {
	t.Helper()
	a, err := request{method: http.MethodGet, base: base, path: "/openapi.json"}.send(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal([]byte(a.body), &d); err != nil {
		t.Fatal(err)
	}
	all := map[string]probe{}
	for path, methods := range d.Paths {
		for method, op := range methods {
			route := strings.ToUpper(method) + " " + path
			switch _, said := probes[route]; {
			case strings.HasPrefix(path, "/corvo."): // Those are in the descriptors.
			case said:
				all[route] = probe{}
			default:
				all[route] = d.probe(t, path, op)
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("the document of %s has no paths", base)
	}
	services := corvov1.File_corvo_v1_worker_proto.Services()
	for i := range services.Len() {
		for _, route := range procedures(services.Get(i)) {
			all[route] = probe{}
		}
	}
	for route, p := range probes {
		if _, there := all[route]; !there {
			t.Errorf("%s is in the table of routes, and the service does not have it", route)
		}
		all[route] = p
	}
	return all
}

// probe derives the probe of a route from its path and the required members of its body.
func (d *document) probe(t *testing.T, path string, op operation) probe {
	var body any
	if content, ok := op.RequestBody.Content["application/json"]; ok {
		body = d.sample(t, path, content.Schema)
	}
	p := probe{derived: true, public: op.Security != nil && len(op.Security) == 0}
	switch {
	case strings.Contains(path, "{name}"):
		p.queue, p.body = true, body
	case strings.Contains(path, "/jobs/{id}"):
		p.job = func(job) any { return body }
	case strings.Contains(path, "{id}"):
		before, _, _ := strings.Cut(path, "/{id}")
		p.thing, p.thingKind = func(string) any { return body }, things[before[strings.LastIndex(before, "/")+1:]]
		if p.thingKind == "" {
			t.Errorf("%s names a thing of a kind that the test does not know", path)
		}
	default:
		p.names = func() any { return body }
	}
	return p
}

func (s schema) may(be string) bool { return strings.Contains(fmt.Sprint(s.Type), be) }

// samples are values of members that take more than any value of their type.
var samples = map[string]any{"queue": queue, "cron": "@daily"}

// sample is an object of a schema with the members that it must have.
func (d *document) sample(t *testing.T, path string, s schema) o {
	for s.Ref != "" {
		s = d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
	}
	body := o{}
	for _, name := range s.Required {
		member := s.Properties[name]
		value, known := samples[name]
		switch {
		case known:
		case len(member.Enum) > 0:
			value = member.Enum[0]
		case member.may("integer"), member.may("number"):
			value = 1
		case member.may("boolean"):
			value = true
		case member.may("string"):
			value = "x"
		default:
			t.Errorf("%s must be told %q, which the test cannot make up: say in the table of routes what can be asked there", path, name)
		}
		body[name] = value
	}
	return body
}

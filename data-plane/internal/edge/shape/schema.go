package shape

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// Schema is the part of JSON Schema that the document uses.
type Schema struct {
	Ref                  string            `json:"$ref,omitempty"`
	Type                 any               `json:"type,omitempty"` // A text, or several.
	Format               string            `json:"format,omitempty"`
	Enum                 []string          `json:"enum,omitempty"`
	Description          string            `json:"description,omitempty"`
	Properties           map[string]Schema `json:"properties,omitempty"`
	Required             []string          `json:"required,omitempty"`
	Items                *Schema           `json:"items,omitempty"`
	AdditionalProperties any               `json:"additionalProperties,omitempty"`
	OneOf                []Schema          `json:"oneOf,omitempty"`
	Examples             []any             `json:"examples,omitempty"`
	Deprecated           bool              `json:"deprecated,omitempty"`
}

// Ref is the address of a component of the document.
func Ref(name string) string { return "#/components/schemas/" + name }

// Schema describes the requests a shape accepts.
func (s *Shape[T]) Schema() Schema {
	out := Schema{Type: "object", Properties: make(map[string]Schema, len(s.fields))}
	for _, f := range s.fields {
		p := f.Schema
		p.Description = f.Doc
		p.Deprecated = f.Reserved // The nearest word the format has for "do not send".
		out.Properties[f.Name] = p
		if f.Required {
			out.Required = append(out.Required, f.Name)
		}
	}
	if s.strict {
		out.AdditionalProperties = false
	}
	return out
}

// WordLists has every type of words of the answers.
var WordLists = lists(
	listOf(wire.States()), listOf(append(wire.EventTypes(), wire.EventGap, wire.EventEnd)), listOf(wire.Priorities()), listOf(wire.Backoffs()),
	listOf(wire.DeadReasons()), listOf(wire.DependencyPolicies()), listOf(wire.Decisions()), listOf(wire.EnqueueStatuses()),
	listOf(wire.HeartbeatStatuses()), listOf(wire.AgentStatuses()), listOf(wire.ChainStatuses()), listOf(wire.BatchStatuses()),
	listOf(wire.BatchOutcomes()), listOf(wire.Overlaps()), listOf(wire.CatchUps()), listOf(wire.BudgetScopes()), listOf(wire.OnExceeds()),
	listOf(wire.PolicyModes()), listOf(wire.OnExpires()), listOf(wire.BulkActions()), listOf(wire.BulkStatuses()), listOf(wire.WhyCodes()),
	listOf(wire.Codes()),
)

type wordList struct {
	of    reflect.Type
	words []string
}

func listOf[W ~string](words []W) wordList {
	return wordList{reflect.TypeFor[W](), TextsOf(words)}
}

// TextsOf is a list of words, as text.
func TextsOf[W ~string](words []W) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

func lists(all ...wordList) map[reflect.Type][]string {
	out := make(map[reflect.Type][]string, len(all))
	for _, l := range all {
		out[l.of] = l.words
	}
	return out
}

// SchemaOf describes an answer by its Go type. Named structs and words become components.
func SchemaOf(t reflect.Type, schemas map[string]Schema) Schema {
	switch t {
	case reflect.TypeFor[time.Time]():
		return Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return Schema{Description: "Any JSON."}
	case reflect.TypeFor[wire.Dollars]():
		return Schema{Type: "number", Description: "Amount in dollars."}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return SchemaOf(t.Elem(), schemas)
	case reflect.Struct:
		return structSchema(t, schemas)
	case reflect.Slice, reflect.Array:
		items := SchemaOf(t.Elem(), schemas)
		return Schema{Type: "array", Items: &items}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return Schema{Type: "object"}
		}
		values := SchemaOf(t.Elem(), schemas)
		return Schema{Type: "object", AdditionalProperties: &values}
	case reflect.Bool:
		return Schema{Type: "boolean"}
	case reflect.String:
		return wordSchema(t, schemas)
	case reflect.Float64, reflect.Float32:
		return Schema{Type: "number"}
	default:
		return Schema{Type: "integer"}
	}
}

func structSchema(t reflect.Type, schemas map[string]Schema) Schema {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if _, known := schemas[name]; known {
		return Schema{Ref: Ref(name)}
	}
	s := Schema{Type: "object", Properties: make(map[string]Schema)}
	schemas[name] = s                            // Before its members, which may contain it.
	for _, f := range reflect.VisibleFields(t) { // Those of embedded structs are members too.
		member, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if member == "" || member == "-" {
			continue
		}
		s.Properties[member] = memberSchema(f.Type, opts, schemas)
		if !strings.HasPrefix(opts, "omit") {
			s.Required = append(s.Required, member)
		}
	}
	schemas[name] = s
	return Schema{Ref: Ref(name)}
}

// memberSchema: a pointer that is not left out when it is nil is null then.
func memberSchema(t reflect.Type, opts string, schemas map[string]Schema) Schema {
	s := SchemaOf(t, schemas)
	if t.Kind() == reflect.Pointer && opts == "" {
		s.Type = []any{s.Type, "null"}
	}
	return s
}

// wordSchema is one of a list of words, or any text.
func wordSchema(t reflect.Type, schemas map[string]Schema) Schema {
	words, ok := WordLists[t]
	if !ok {
		return Schema{Type: "string"}
	}
	schemas[t.Name()] = Schema{Type: "string", Enum: words}
	return Schema{Ref: Ref(t.Name())}
}

package server

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// schema is the part of JSON Schema that the document uses.
type schema struct {
	Ref                  string            `json:"$ref,omitempty"`
	Type                 any               `json:"type,omitempty"` // A text, or several.
	Format               string            `json:"format,omitempty"`
	Enum                 []string          `json:"enum,omitempty"`
	Description          string            `json:"description,omitempty"`
	Properties           map[string]schema `json:"properties,omitempty"`
	Required             []string          `json:"required,omitempty"`
	Items                *schema           `json:"items,omitempty"`
	AdditionalProperties any               `json:"additionalProperties,omitempty"`
	OneOf                []schema          `json:"oneOf,omitempty"`
	Examples             []any             `json:"examples,omitempty"`
	Deprecated           bool              `json:"deprecated,omitempty"`
}

func refOf(name string) string { return "#/components/schemas/" + name }

// schema describes the requests a shape accepts.
func (s *shape[T]) schema() schema {
	out := schema{Type: "object", Properties: make(map[string]schema, len(s.fields))}
	for _, f := range s.fields {
		p := f.schema
		p.Description = f.doc
		p.Deprecated = f.later // The nearest word the format has for "do not send".
		out.Properties[f.name] = p
		if f.required {
			out.Required = append(out.Required, f.name)
		}
	}
	if s.strict {
		out.AdditionalProperties = false
	}
	return out
}

func requestSchemas() map[string]schema {
	return map[string]schema{
		enqueueShape.name:       enqueueShape.schema(),
		enqueueBatchShape.name:  enqueueBatchShape.schema(),
		webhookPayload:          {Description: "Any JSON, or any UTF-8 text, which becomes a JSON string."},
		stepShape.name:          stepShape.schema(),
		chainShape.name:         chainShape.schema(),
		batchShape.name:         batchShape.schema(),
		newBatchShape.name:      newBatchShape.schema(),
		fetchShape.name:         fetchShape.schema(),
		searchShape.name:        searchShape.schema(),
		bulkGetShape.name:       bulkGetShape.schema(),
		bulkShape.name:          bulkShape.schema(),
		ackShape.name:           ackShape.schema(),
		ackItemShape.name:       ackItemShape.schema(),
		ackBatchShape.name:      ackBatchShape.schema(),
		failShape.name:          failShape.schema(),
		heartbeatShape.name:     heartbeatShape.schema(),
		heartbeatItemShape.name: heartbeatItemShape.schema(),
		throttleShape.name:      throttleShape.schema(),
		queueShape.name:         queueShape.schema(),
		concurrencyShape.name:   concurrencyShape.schema(),
		rateShape.name:          rateShape.schema(),
		holdShape.name:          holdShape.schema(),
		decideShape.name:        decideShape.schema(),
		scheduleShape.name:      scheduleShape.schema(),
		previewShape.name:       previewShape.schema(),
		moveShape.name:          moveShape.schema(),
		usageShape.name:         usageShape.schema(),
		agentShape.name:         agentShape.schema(),
		replayShape.name:        replayShape.schema(),
		budgetShape.name:        budgetShape.schema(),
		policyShape.name:        policyShape.schema(),
	}
}

type operation struct {
	Summary     string                    `json:"summary"`
	OperationID string                    `json:"operationId"`
	Security    []map[string][]string     `json:"security"`
	Parameters  []parameter               `json:"parameters,omitempty"`
	RequestBody *content                  `json:"requestBody,omitempty"`
	Responses   map[string]map[string]any `json:"responses"`
}

type parameter struct {
	Name        string `json:"name"`
	In          string `json:"in"`
	Required    bool   `json:"required"`
	Description string `json:"description,omitempty"`
	Schema      schema `json:"schema"`
}

type content struct {
	Content map[string]media `json:"content"`
}

type media struct {
	Schema schema `json:"schema"`
}

// openAPIDocument describes the HTTP/JSON routes of the table.
func openAPIDocument(version string, routes []Route) []byte {
	schemas := requestSchemas()
	schemaOf(reflect.TypeFor[wire.Problem](), schemas)
	paths := make(map[string]map[string]operation)
	for i := range routes {
		rt := &routes[i]
		if rt.RPC {
			continue // Described by corvo/v1/worker.proto.
		}
		if paths[rt.Pattern] == nil {
			paths[rt.Pattern] = make(map[string]operation)
		}
		paths[rt.Pattern][strings.ToLower(rt.Method)] = operationOf(rt, schemas)
	}
	doc := map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Corvo worker API", "version": version,
			"description": "HTTP/JSON form of the worker protocol. Ack, fail, heartbeat and move ignore unknown members; other calls refuse them. " +
				"Members marked deprecated are part of the protocol but not available yet, and are refused.",
		},
		"paths": paths,
		"components": map[string]any{
			"schemas": schemas,
			"securitySchemes": map[string]any{
				"bearer": map[string]any{"type": "http", "scheme": "bearer"},
				"apiKey": map[string]any{"type": "apiKey", "in": "header", "name": "X-API-Key"},
			},
		},
	}
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic("openapi document: " + err.Error()) // Built from constants only.
	}
	return append(b, '\n')
}

func operationOf(rt *Route, schemas map[string]schema) operation {
	op := operation{
		Summary: rt.summary, OperationID: operationID(rt), Parameters: parametersOf(rt),
		Security:  []map[string][]string{},
		Responses: map[string]map[string]any{"default": answerBody("An error", "application/problem+json", schema{Ref: refOf("Problem")})},
	}
	if rt.Action != public {
		op.Security = []map[string][]string{{"bearer": {}}, {"apiKey": {}}}
	}
	if rt.request != "" {
		op.RequestBody = &content{Content: map[string]media{"application/json": {Schema: schema{Ref: refOf(rt.request)}}}}
	}
	status := rt.status
	if status == 0 {
		status = http.StatusOK
	}
	contentType := "application/json"
	if rt.events {
		contentType = "text/event-stream"
	}
	op.Responses[strconv.Itoa(status)] = answerBody("Done", contentType, schemaOf(reflect.TypeOf(rt.answer), schemas))
	if rt.accepted != nil {
		op.Responses[strconv.Itoa(http.StatusAccepted)] = answerBody("Begun", contentType, schemaOf(reflect.TypeOf(rt.accepted), schemas))
	}
	return op
}

func answerBody(description, contentType string, s schema) map[string]any {
	return map[string]any{"description": description, "content": map[string]media{contentType: {Schema: s}}}
}

// operationID is for example post_jobs_id_retry.
func operationID(rt *Route) string {
	p := strings.TrimPrefix(rt.Pattern, "/api/v1")
	p = strings.NewReplacer("/", "_", "{", "", "}", "", ".", "_").Replace(p)
	return strings.ToLower(rt.Method) + p
}

func parametersOf(rt *Route) []parameter {
	var out []parameter
	for rest := rt.Pattern; ; {
		_, after, ok := strings.Cut(rest, "{")
		if !ok {
			break
		}
		name, tail, _ := strings.Cut(after, "}")
		out = append(out, parameter{Name: name, In: "path", Required: true, Schema: schema{Type: "string"}})
		rest = tail
	}
	for _, p := range rt.query {
		out = append(out, parameter{Name: p.name, In: "query", Description: p.doc, Schema: p.schema})
	}
	if rt.once {
		out = append(out, parameter{
			Name: headerIdempotencyKey, In: "header", Schema: schema{Type: "string"},
			Description: "For 24 hours, the same key returns the first response again. In a batch, each job's index is added to the key.",
		})
	}
	return out
}

// wordLists has every type of words of the answers.
var wordLists = lists( //nolint:gochecknoglobals // A constant table.
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
	return wordList{reflect.TypeFor[W](), textsOf(words)}
}

func textsOf[W ~string](words []W) []string {
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

// schemaOf describes an answer by its Go type. Named structs and words become components.
func schemaOf(t reflect.Type, schemas map[string]schema) schema {
	switch t {
	case reflect.TypeFor[time.Time]():
		return schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return schema{Description: "Any JSON."}
	case reflect.TypeFor[wire.Dollars]():
		return schema{Type: "number", Description: "Amount in dollars."}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case reflect.Struct:
		return structSchema(t, schemas)
	case reflect.Slice, reflect.Array:
		items := schemaOf(t.Elem(), schemas)
		return schema{Type: "array", Items: &items}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return schema{Type: "object"}
		}
		values := schemaOf(t.Elem(), schemas)
		return schema{Type: "object", AdditionalProperties: &values}
	case reflect.Bool:
		return schema{Type: "boolean"}
	case reflect.String:
		return wordSchema(t, schemas)
	case reflect.Float64, reflect.Float32:
		return schema{Type: "number"}
	default:
		return schema{Type: "integer"}
	}
}

func structSchema(t reflect.Type, schemas map[string]schema) schema {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if _, known := schemas[name]; known {
		return schema{Ref: refOf(name)}
	}
	s := schema{Type: "object", Properties: make(map[string]schema)}
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
	return schema{Ref: refOf(name)}
}

// memberSchema: a pointer that is not left out when it is nil is null then.
func memberSchema(t reflect.Type, opts string, schemas map[string]schema) schema {
	s := schemaOf(t, schemas)
	if t.Kind() == reflect.Pointer && opts == "" {
		s.Type = []any{s.Type, "null"}
	}
	return s
}

// wordSchema is one of a list of words, or any text.
func wordSchema(t reflect.Type, schemas map[string]schema) schema {
	words, ok := wordLists[t]
	if !ok {
		return schema{Type: "string"}
	}
	schemas[t.Name()] = schema{Type: "string", Enum: words}
	return schema{Ref: refOf(t.Name())}
}

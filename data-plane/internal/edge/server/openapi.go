package server

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

func requestSchemas() map[string]shape.Schema {
	return map[string]shape.Schema{
		enqueueShape.Name:       enqueueShape.Schema(),
		enqueueBatchShape.Name:  enqueueBatchShape.Schema(),
		webhookPayload:          {Description: "Any JSON, or any UTF-8 text, which becomes a JSON string."},
		stepShape.Name:          stepShape.Schema(),
		chainShape.Name:         chainShape.Schema(),
		batchShape.Name:         batchShape.Schema(),
		newBatchShape.Name:      newBatchShape.Schema(),
		fetchShape.Name:         fetchShape.Schema(),
		searchShape.Name:        searchShape.Schema(),
		bulkGetShape.Name:       bulkGetShape.Schema(),
		bulkShape.Name:          bulkShape.Schema(),
		ackShape.Name:           ackShape.Schema(),
		ackItemShape.Name:       ackItemShape.Schema(),
		ackBatchShape.Name:      ackBatchShape.Schema(),
		failShape.Name:          failShape.Schema(),
		heartbeatShape.Name:     heartbeatShape.Schema(),
		heartbeatItemShape.Name: heartbeatItemShape.Schema(),
		throttleShape.Name:      throttleShape.Schema(),
		queueShape.Name:         queueShape.Schema(),
		concurrencyShape.Name:   concurrencyShape.Schema(),
		rateShape.Name:          rateShape.Schema(),
		holdShape.Name:          holdShape.Schema(),
		decideShape.Name:        decideShape.Schema(),
		scheduleShape.Name:      scheduleShape.Schema(),
		previewShape.Name:       previewShape.Schema(),
		moveShape.Name:          moveShape.Schema(),
		usageShape.Name:         usageShape.Schema(),
		agentShape.Name:         agentShape.Schema(),
		replayShape.Name:        replayShape.Schema(),
		budgetShape.Name:        budgetShape.Schema(),
		policyShape.Name:        policyShape.Schema(),
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
	Name        string       `json:"name"`
	In          string       `json:"in"`
	Required    bool         `json:"required"`
	Description string       `json:"description,omitempty"`
	Schema      shape.Schema `json:"schema"`
}

type content struct {
	Content map[string]media `json:"content"`
}

type media struct {
	Schema shape.Schema `json:"schema"`
}

// openAPIDocument describes the HTTP/JSON routes of the table.
func openAPIDocument(version string, routes []Route) []byte {
	schemas := requestSchemas()
	shape.SchemaOf(reflect.TypeFor[wire.Problem](), schemas)
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

func operationOf(rt *Route, schemas map[string]shape.Schema) operation {
	op := operation{
		Summary: rt.summary, OperationID: operationID(rt), Parameters: parametersOf(rt),
		Security:  []map[string][]string{},
		Responses: map[string]map[string]any{"default": answerBody("An error", "application/problem+json", shape.Schema{Ref: shape.Ref("Problem")})},
	}
	if rt.Permission != public {
		op.Security = []map[string][]string{{"bearer": {}}, {"apiKey": {}}}
	}
	if rt.request != "" {
		op.RequestBody = &content{Content: map[string]media{"application/json": {Schema: shape.Schema{Ref: shape.Ref(rt.request)}}}}
	}
	status := rt.status
	if status == 0 {
		status = http.StatusOK
	}
	contentType := "application/json"
	if rt.events {
		contentType = "text/event-stream"
	}
	op.Responses[strconv.Itoa(status)] = answerBody("Done", contentType, shape.SchemaOf(reflect.TypeOf(rt.answer), schemas))
	if rt.accepted != nil {
		op.Responses[strconv.Itoa(http.StatusAccepted)] = answerBody("Begun", contentType, shape.SchemaOf(reflect.TypeOf(rt.accepted), schemas))
	}
	return op
}

func answerBody(description, contentType string, s shape.Schema) map[string]any {
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
		out = append(out, parameter{Name: name, In: "path", Required: true, Schema: shape.Schema{Type: "string"}})
		rest = tail
	}
	for _, p := range rt.query {
		out = append(out, parameter{Name: p.Name, In: "query", Description: p.Doc, Schema: p.Schema})
	}
	if rt.once {
		out = append(out, parameter{
			Name: headerIdempotencyKey, In: "header", Schema: shape.Schema{Type: "string"},
			Description: "For 24 hours, the same key returns the first response again. In a batch, each job's index is added to the key.",
		})
	}
	return out
}

// Package repeat decides whether a call may be sent again when it is unknown whether the
// first one was done: its node was lost, or lost the lead. Proxies and nodes use it for
// failed calls only, so it reads whole bodies. It must know no store and no connection.
// Surprising is how little it takes: a lease token, an idempotency key, or a call that
// only reads.
package repeat

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

const (
	headerKey = "Idempotency-Key"
	api       = "/api/v1/"
)

// Safe reports whether doing the call twice has the effect of doing it once. A fetch is
// safe: a job that was leased by the lost answer waits for the end of its lease in any
// case.
func Safe(method, path, query string, h http.Header, body []byte) bool {
	switch {
	case method == http.MethodGet || method == http.MethodHead:
		return true
	case method != http.MethodPost || h.Get("Content-Encoding") != "":
		return false
	case strings.HasPrefix(path, "/"+corvov1connect.WorkerServiceName+"/"):
		return safeRPC(path, h, body)
	}
	call, found := strings.CutPrefix(path, api)
	return found && safeJSON(call, query, h.Get(headerKey) != "", body)
}

// enqueue is the part of an enqueue, of one job or many, that matters here.
type enqueue struct {
	Key   string          `json:"idempotency_key"`
	Jobs  []enqueue       `json:"jobs"`
	Batch json.RawMessage `json:"batch"`
}

// settlement is the part of an ack, fail or heartbeat that matters here.
type settlement struct {
	Token string                     `json:"lease_token"`
	Usage json.RawMessage            `json:"usage"`
	Acks  []settlement               `json:"acks"`
	Jobs  map[string]json.RawMessage `json:"jobs"`
}

func safeJSON(call, query string, keyed bool, body []byte) bool {
	first, rest, _ := strings.Cut(call, "/")
	switch {
	case first == "fetch", call == "jobs/search", call == "jobs/bulk-get", call == "schedules/preview":
		return true
	case first == "enqueue":
		var e enqueue
		return keyed || json.Unmarshal(body, &e) == nil && e.keyed()
	case first == "webhooks":
		q, err := url.ParseQuery(query)
		return keyed || err == nil && q.Get("idempotency_key") != ""
	case first == "jobs" && strings.HasSuffix(rest, "/replay"):
		return keyed
	case first == "ack", first == "fail", first == "heartbeat":
		var s settlement
		return json.Unmarshal(body, &s) == nil && s.safe(first, rest)
	}
	return false
}

// keyed: every job has an idempotency key. Jobs that make a batch need one for the
// batch too, which only the header can be.
func (e *enqueue) keyed() bool {
	if e.Jobs == nil {
		return e.Key != ""
	}
	for i := range e.Jobs {
		if e.Jobs[i].Key == "" {
			return false
		}
	}
	return len(e.Batch) == 0 || string(e.Batch) == "null"
}

func (s *settlement) safe(call, id string) bool {
	switch {
	case call == "heartbeat":
		for _, raw := range s.Jobs {
			var one settlement
			if json.Unmarshal(raw, &one) != nil || counts(one.Usage) {
				return false
			}
		}
		return true
	case id != "batch":
		return s.Token != ""
	}
	for i := range s.Acks {
		if s.Acks[i].Token == "" {
			return false
		}
	}
	return true
}

// counts: a heartbeat adds its usage to the usage before.
func counts(usage json.RawMessage) bool { return len(usage) > 0 && string(usage) != "null" }

func safeRPC(path string, h http.Header, body []byte) bool {
	switch path {
	case corvov1connect.WorkerServiceFetchProcedure, corvov1connect.WorkerServiceFetchBatchProcedure,
		corvov1connect.WorkerServiceGetServerInfoProcedure:
		return true
	case corvov1connect.WorkerServiceEnqueueProcedure:
		var m corvov1.EnqueueRequest
		return h.Get(headerKey) != "" || read(h, body, &m) && m.GetOptions().GetIdempotencyKey() != ""
	case corvov1connect.WorkerServiceEnqueueBatchProcedure:
		var m corvov1.EnqueueBatchRequest
		return h.Get(headerKey) != "" || read(h, body, &m) && m.GetBatch() == nil &&
			every(m.GetJobs(), func(j *corvov1.EnqueueRequest) bool { return j.GetOptions().GetIdempotencyKey() != "" })
	case corvov1connect.WorkerServiceAckProcedure:
		var m corvov1.AckRequest
		return read(h, body, &m) && m.GetLeaseToken() != ""
	case corvov1connect.WorkerServiceAckBatchProcedure:
		var m corvov1.AckBatchRequest
		return read(h, body, &m) && every(m.GetItems(), func(i *corvov1.AckBatchItem) bool { return i.GetLeaseToken() != "" })
	case corvov1connect.WorkerServiceFailProcedure:
		var m corvov1.FailRequest
		return read(h, body, &m) && m.GetLeaseToken() != ""
	case corvov1connect.WorkerServiceHeartbeatProcedure:
		var m corvov1.HeartbeatRequest
		if !read(h, body, &m) {
			return false
		}
		for _, j := range m.GetJobs() {
			if j.GetUsage() != nil {
				return false
			}
		}
		return true
	}
	return false
}

func every[T any](list []T, ok func(T) bool) bool {
	for _, v := range list {
		if !ok(v) {
			return false
		}
	}
	return true
}

// read reads a message in any of the forms that a unary call may have. A compressed
// one is not read, and so not repeated.
func read(h http.Header, body []byte, m proto.Message) bool {
	kind := h.Get("Content-Type")
	if strings.HasPrefix(kind, "application/grpc") {
		const prefix = 5
		if len(body) < prefix || body[0] != 0 || int64(binary.BigEndian.Uint32(body[1:])) != int64(len(body)-prefix) {
			return false
		}
		body = body[prefix:]
	}
	if strings.Contains(kind, "json") {
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, m) == nil
	}
	return proto.Unmarshal(body, m) == nil
}

package server

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// public marks the few routes that ask for no credential.
const public identity.Action = 0

// Route is one door of the server.
type Route struct {
	Method  string
	Pattern string // As http.ServeMux understands it, without the method.
	// Action is what the caller's role must allow; 0 is a public route.
	Action identity.Action
	// Or is a second action that opens the same door (a stream works and enqueues;
	// each frame is checked again).
	Or identity.Action
	// Leader routes are carried to the leader of the caller's shard.
	Leader bool
	// RPC routes speak Connect, gRPC and gRPC-Web.
	RPC bool
	// Process routes tell about the process itself, which tenants share: behind a
	// proxy they are for the parts of the cell alone.
	Process bool

	summary string
	stream  bool
	waits   bool   // A long poll.
	request string // Name of the request shape; "" has no body.
	status  int    // Of success; 0 is 200.
	answer  any    // A value of the answer's type, for the document.
	handle  func(*call) error
}

func (rt *Route) allows(who *Principal) bool {
	if rt.Process && (who.Identity.IsCell() || who.Identity.TenantID != "") {
		return who.Identity.IsCell()
	}
	return who.May(rt.Action) || rt.Or != 0 && who.May(rt.Or)
}

// Routes lists every door. Tests of isolation and the OpenAPI document walk it.
func Routes() []Route { return append(httpRoutes(), rpcRoutes()...) }

func httpRoutes() []Route {
	const (
		get  = http.MethodGet
		post = http.MethodPost
		del  = http.MethodDelete
	)
	return []Route{
		{Method: post, Pattern: "/api/v1/enqueue", Action: identity.Enqueue, Leader: true, handle: (*call).enqueue,
			summary: "Enqueue a job", request: "EnqueueRequest", status: 201, answer: enqueueAnswer{}},
		{Method: post, Pattern: "/api/v1/enqueue/batch", Action: identity.Enqueue, Leader: true, handle: (*call).enqueueBatch,
			summary: "Enqueue many jobs, all or none", request: "EnqueueBatchRequest", status: 201, answer: enqueueBatchAnswer{}},
		{Method: post, Pattern: "/api/v1/fetch", Action: identity.Work, Leader: true, waits: true, handle: (*call).fetch,
			summary: "Lease one job, waiting for one", request: "FetchRequest", answer: grantAnswer{}},
		{Method: post, Pattern: "/api/v1/fetch/batch", Action: identity.Work, Leader: true, waits: true, handle: (*call).fetchBatch,
			summary: "Lease up to count jobs", request: "FetchRequest", answer: fetchBatchAnswer{}},
		{Method: post, Pattern: "/api/v1/ack/{id}", Action: identity.Work, Leader: true, handle: (*call).ack,
			summary: "Complete a job", request: "AckRequest", answer: statusAnswer{}},
		{Method: post, Pattern: "/api/v1/ack/batch", Action: identity.Work, Leader: true, handle: (*call).ackBatch,
			summary: "Complete many jobs", request: "AckBatchRequest", answer: ackBatchAnswer{}},
		{Method: post, Pattern: "/api/v1/fail/{id}", Action: identity.Work, Leader: true, handle: (*call).fail,
			summary: "Report a failed attempt", request: "FailRequest", answer: failAnswer{}},
		{Method: post, Pattern: "/api/v1/heartbeat", Action: identity.Work, Leader: true, handle: (*call).heartbeat,
			summary: "Renew leases, store progress, learn of cancellations", request: "HeartbeatRequest", answer: heartbeatAnswer{}},

		{Method: get, Pattern: "/api/v1/jobs/{id}", Action: identity.ReadJob, Leader: true, handle: (*call).job,
			summary: "A whole job", answer: jobAnswer{}},
		{Method: del, Pattern: "/api/v1/jobs/{id}", Action: identity.Operate, Leader: true, handle: (*call).deleteJob,
			summary: "Delete a job", answer: statusAnswer{}},
		{Method: post, Pattern: "/api/v1/jobs/{id}/retry", Action: identity.Operate, Leader: true, handle: (*call).retryJob,
			summary: "Run a finished or scheduled job again", answer: statusAnswer{}},
		{Method: post, Pattern: "/api/v1/jobs/{id}/cancel", Action: identity.Operate, Leader: true, handle: (*call).cancelJob,
			summary: "Cancel a job", answer: statusAnswer{}},
		{Method: get, Pattern: "/api/v1/queues", Action: identity.Read, Leader: true, handle: (*call).queues,
			summary: "All queues with exact counts", answer: []queueAnswer{}},
		{Method: post, Pattern: "/api/v1/queues/{name}/pause", Action: identity.Operate, Leader: true, handle: (*call).pauseQueue,
			summary: "Stop handing out jobs of a queue", answer: statusAnswer{}},
		{Method: post, Pattern: "/api/v1/queues/{name}/resume", Action: identity.Operate, Leader: true, handle: (*call).resumeQueue,
			summary: "Hand out jobs of a queue again", answer: statusAnswer{}},

		{Method: get, Pattern: "/api/v1/info", handle: (*call).info, summary: "Versions", answer: infoAnswer{}},
		{Method: get, Pattern: "/healthz", handle: (*call).healthz, summary: "Does this process work", answer: healthAnswer{}},
		{Method: get, Pattern: "/readyz", handle: (*call).readyz, summary: "Should this process get traffic", answer: healthAnswer{}},
		{Method: get, Pattern: "/openapi.json", handle: (*call).openAPI, summary: "This document", answer: map[string]any{}},
		{Method: get, Pattern: "/api/v1/debug/runtime", Action: identity.Administer, Process: true, handle: (*call).runtime,
			summary: "Goroutines, memory and CPU of this process", answer: runtimeAnswer{}},
		{Method: get, Pattern: "/api/v1/cluster/status", Action: identity.Administer, Process: true, handle: (*call).clusterStatus,
			summary: "Groups and nodes as this process sees them", answer: ClusterStatus{}},
	}
}

func rpcRoutes() []Route {
	rpc := func(procedure string, a identity.Action, leader bool) Route {
		return Route{Method: http.MethodPost, Pattern: procedure, Action: a, Leader: leader, RPC: true}
	}
	fetch := rpc(corvov1connect.WorkerServiceFetchProcedure, identity.Work, true)
	fetchBatch := rpc(corvov1connect.WorkerServiceFetchBatchProcedure, identity.Work, true)
	fetch.waits, fetchBatch.waits = true, true
	stream := rpc(corvov1connect.WorkerServiceStreamLifecycleProcedure, identity.Work, true)
	stream.Or, stream.stream = identity.Enqueue, true
	return []Route{
		rpc(corvov1connect.WorkerServiceEnqueueProcedure, identity.Enqueue, true),
		rpc(corvov1connect.WorkerServiceEnqueueBatchProcedure, identity.Enqueue, true),
		fetch,
		fetchBatch,
		rpc(corvov1connect.WorkerServiceAckProcedure, identity.Work, true),
		rpc(corvov1connect.WorkerServiceAckBatchProcedure, identity.Work, true),
		rpc(corvov1connect.WorkerServiceFailProcedure, identity.Work, true),
		rpc(corvov1connect.WorkerServiceHeartbeatProcedure, identity.Work, true),
		stream,
		rpc(corvov1connect.WorkerServiceGetServerInfoProcedure, public, false),
	}
}

// mount builds the mux from the table.
func (s *Server) mount() {
	workers := s.workerService()
	routes := Routes()
	for i := range routes {
		rt := &routes[i]
		if rt.RPC {
			rt.handle = func(c *call) error { c.serveRPC(workers); return nil }
		}
		s.mux.Handle(rt.Method+" "+rt.Pattern, s.door(rt))
	}
	s.mountReflection()
	s.nothing = s.unknown(routes)
	s.mux.Handle("/", s.nothing)
	s.openAPI = sync.OnceValue(func() []byte { return openAPIDocument(s.opts.Version, routes) })
}

// unknown answers what no route matches: 405 when another method would have, else
// 404, as a problem like every refusal.
func (s *Server) unknown(routes []Route) http.Handler {
	byPattern := http.NewServeMux()
	allow := make(map[string][]string)
	for _, rt := range routes {
		if allow[rt.Pattern] == nil {
			byPattern.Handle(rt.Pattern, http.NotFoundHandler())
		}
		allow[rt.Pattern] = append(allow[rt.Pattern], rt.Method)
	}
	refused := &Route{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{s: s, w: w, route: refused, start: s.now()}
		c.r = contextWithCall(r, c)
		c.nameRequest("")
		_, pattern := byPattern.Handler(r)
		if methods := allow[pattern]; methods != nil && !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			writeStatus(w, c.r, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "this address does not take "+r.Method)
			return
		}
		writeProblem(w, c.r, s.log, fault.New(fault.NotFound, "NOT_FOUND", "there is nothing at this address"))
	})
}

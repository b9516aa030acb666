package server

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// public marks the few routes that ask for no credential.
const public permission.Permission = 0

// Route is one route of the server.
type Route struct {
	Method  string
	Pattern string // As http.ServeMux understands it, without the method.
	// Permission is what the caller must have; 0 is a public route.
	Permission permission.Permission
	// Any are others of which one opens the same route: a stream works and enqueues, a bulk
	// call does one of many things. What is asked for is checked again.
	Any []permission.Permission
	// Leader routes are carried to the leader of the caller's shard.
	Leader bool
	// RPC routes speak Connect, gRPC and gRPC-Web.
	RPC bool
	// Process routes tell about the process itself, which tenants share: behind a
	// proxy they are for the parts of the cell alone.
	Process bool

	// whole routes ask for the permission in the whole namespace: what they are about may have
	// jobs of any queue.
	whole   bool
	summary string
	stream  bool
	events  bool          // Server-sent events, or Subscribe.
	waits   bool          // A long poll.
	once    bool          // Takes an idempotency key.
	query   []shape.Param // Any other is refused, but for public routes. See call.query.
	request string        // Name of the request shape; "" has no body.
	status  int           // Of success; 0 is 200.
	answer  any           // A value of the answer's type, for the document.
	// accepted is that of a 202, if there is one.
	accepted any
	handle   func(*call) error
}

// allows reports whether the caller may call the route at all; queue is the one that the
// path names. What else the call is about, its use case looks at.
func (rt *Route) allows(who *Principal, queue string) bool {
	if rt.Process && (who.Identity.IsCell() || who.Identity.TenantID != "") {
		return who.Identity.IsCell()
	}
	switch {
	case rt.whole:
		return who.Identity.Grants.Everywhere(rt.Permission)
	case queue != "":
		return who.Identity.Grants.Queue(rt.Permission, queue)
	}
	return who.May(rt.Permission) || slices.ContainsFunc(rt.Any, who.May)
}

// Routes lists every route. Tests of isolation and the OpenAPI document walk it.
func Routes() []Route { return append(httpRoutes(), rpcRoutes()...) }

func httpRoutes() []Route {
	const (
		get  = http.MethodGet
		post = http.MethodPost
		put  = http.MethodPut
		del  = http.MethodDelete
	)
	return []Route{
		{Method: post, Pattern: "/api/v1/enqueue", Permission: permission.JobEnqueue, Leader: true, once: true, handle: (*call).enqueue,
			summary: "Enqueue a job", request: "EnqueueRequest", status: 201, answer: wire.Enqueued{}},
		{Method: post, Pattern: "/api/v1/enqueue/batch", Permission: permission.JobEnqueue, Leader: true, once: true, handle: (*call).enqueueBatch,
			summary: "Enqueue many jobs, all or none", request: "EnqueueBatchRequest", status: 201, answer: wire.EnqueuedBatch{}},
		{Method: post, Pattern: "/api/v1/webhooks/{name}", Permission: permission.JobEnqueue, Leader: true, once: true, handle: (*call).webhook,
			summary: "Enqueue a job with the request body as its payload", query: webhookParams, request: webhookPayload,
			status: 201, answer: wire.Enqueued{}},
		{Method: post, Pattern: "/api/v1/fetch", Permission: permission.JobFetch, Leader: true, waits: true, handle: (*call).fetch,
			summary: "Lease one job, or wait for one", request: "FetchRequest", answer: wire.FetchedJob{}},
		{Method: post, Pattern: "/api/v1/fetch/batch", Permission: permission.JobFetch, Leader: true, waits: true, handle: (*call).fetchBatch,
			summary: "Lease up to count jobs", request: "FetchRequest", answer: wire.FetchedJobs{}},
		{Method: post, Pattern: "/api/v1/ack/{id}", Permission: permission.JobFetch, Leader: true, handle: (*call).ack,
			summary: "Complete a job", request: "AckRequest", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/ack/batch", Permission: permission.JobFetch, Leader: true, handle: (*call).ackBatch,
			summary: "Complete many jobs", request: "AckBatchRequest", answer: wire.AckBatchResult{}},
		{Method: post, Pattern: "/api/v1/fail/{id}", Permission: permission.JobFetch, Leader: true, handle: (*call).fail,
			summary: "Report a failed attempt", request: "FailRequest", answer: wire.FailResult{}},
		{Method: post, Pattern: "/api/v1/heartbeat", Permission: permission.JobFetch, Leader: true, handle: (*call).heartbeat,
			summary: "Renew leases, report progress, learn of cancellations", request: "HeartbeatRequest", answer: wire.HeartbeatResult{}},
		{Method: post, Pattern: "/api/v1/batches", Permission: permission.JobEnqueue, whole: true, Leader: true, handle: (*call).makeBatch,
			summary: "Open a batch", request: "BatchRequest", status: 201, answer: wire.BatchMade{}},
		{Method: get, Pattern: "/api/v1/batches", Permission: permission.JobList, whole: true, Leader: true, handle: page((*queue.Service).Batches),
			summary: "List batches, newest first", query: pageParams, answer: wire.BatchList{}},
		{Method: get, Pattern: "/api/v1/batches/{id}", Permission: permission.JobList, whole: true, Leader: true, handle: (*call).batch,
			summary: "Get a batch with a page of its jobs", query: pageParams, answer: wire.BatchPage{}},
		{Method: post, Pattern: "/api/v1/batches/{id}/seal", Permission: permission.JobEnqueue, whole: true, Leader: true, handle: one((*call).jobs, (*call).batchID, (*queue.Service).SealBatch),
			summary: "Seal a batch so that no more jobs can join", answer: wire.Batch{}},
		{Method: get, Pattern: "/api/v1/chains", Permission: permission.JobList, Leader: true, handle: page((*queue.Service).Chains),
			summary: "List chains, newest first", query: pageParams, answer: wire.ChainList{}},
		{Method: get, Pattern: "/api/v1/chains/{id}", Permission: permission.JobList, Leader: true, handle: one((*call).jobs, (*call).chainID, (*queue.Service).Chain),
			summary: "Get a chain with the jobs of its steps", answer: wire.Chain{}},

		{Method: get, Pattern: "/api/v1/jobs", Permission: permission.JobList, Leader: true, handle: (*call).listJobs,
			summary: "List jobs, newest first", query: listParams, answer: wire.JobList{}},
		{Method: post, Pattern: "/api/v1/jobs/search", Permission: permission.JobList, Leader: true, handle: (*call).searchJobs,
			summary: "Search jobs with every filter", request: "JobSearchRequest", answer: wire.JobSearch{}},
		{Method: post, Pattern: "/api/v1/jobs/bulk-get", Permission: permission.JobRead, Leader: true, handle: (*call).bulkGet,
			summary: "Get many jobs by id", request: "BulkGetRequest", answer: wire.Jobs{}},
		{Method: get, Pattern: "/api/v1/jobs/export", Permission: permission.JobList, Leader: true, handle: (*call).exportJobs,
			summary: "Export whole jobs, oldest first", query: exportParams, answer: wire.ExportPage{}},
		{Method: post, Pattern: "/api/v1/jobs/bulk", Permission: permission.JobRetry, Any: queue.BulkPermissions(), Leader: true, handle: (*call).bulk,
			summary: "Apply one action to many jobs, by id or by filter", request: "BulkRequest", answer: wire.BulkResult{}, accepted: wire.BulkBegun{}},
		{Method: get, Pattern: "/api/v1/bulk/{id}", Permission: permission.JobList, Any: queue.BulkPermissions(), Leader: true, handle: (*call).bulkStatus,
			summary: "Get the progress of a bulk operation", answer: wire.BulkOperation{}},
		{Method: get, Pattern: "/api/v1/bulk/{id}/progress", Permission: permission.JobList, Any: queue.BulkPermissions(), Leader: true, events: true, handle: (*call).bulkProgress,
			summary: "Stream the progress of a bulk operation", answer: wire.BulkProgress{}},
		{Method: get, Pattern: "/api/v1/jobs/{id}/events", Permission: permission.JobRead, Leader: true, handle: one((*call).views, (*call).jobID, (*queue.Views).Timeline),
			summary: "Get the timeline of a job", answer: wire.Timeline{}},
		{Method: get, Pattern: "/api/v1/events", Permission: permission.EventRead, Leader: true, events: true, handle: (*call).events,
			summary: "Stream the namespace's events (server-sent events)", query: eventParams, answer: wire.Event{}},
		{Method: get, Pattern: "/api/v1/jobs/{id}/why", Permission: permission.JobRead, Leader: true, handle: one((*call).views, (*call).jobID, (*queue.Views).Why),
			summary: "Explain why a job isn't running", answer: wire.Why{}},
		{Method: get, Pattern: "/api/v1/cluster/events", Permission: permission.EventRead, Leader: true, handle: (*call).recentEvents,
			summary: "List the namespace's events by number", query: recentParams, answer: wire.EventPage{}},
		{Method: get, Pattern: "/api/v1/workers", Permission: permission.WorkerRead, Leader: true, handle: list((*call).views, (*queue.Views).Workers),
			summary: "List workers", answer: []wire.Worker{}},
		{Method: get, Pattern: "/api/v1/metrics/throughput", Permission: permission.UsageRead, Leader: true, handle: (*call).throughput,
			summary: "Get throughput for each of the last 60 minutes", answer: []wire.Minute{}},
		{Method: get, Pattern: "/api/v1/jobs/{id}", Permission: permission.JobRead, Leader: true, handle: one((*call).jobs, (*call).jobID, (*queue.Service).Job),
			summary: "Get a job", answer: wire.Job{}},
		{Method: del, Pattern: "/api/v1/jobs/{id}", Permission: permission.JobDelete, Leader: true, handle: act("deleted", (*call).jobID, (*queue.Service).Delete),
			summary: "Delete a job", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/jobs/{id}/retry", Permission: permission.JobRetry, Leader: true, handle: act("retried", (*call).jobID, (*queue.Service).Retry),
			summary: "Retry an ended job, or run a scheduled or retrying job now", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/jobs/{id}/cancel", Permission: permission.JobCancel, Leader: true, handle: (*call).cancelJob,
			summary: "Cancel a job", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/jobs/{id}/hold", Permission: permission.JobApprove, Leader: true, handle: (*call).holdJob,
			summary: "Hold a job for approval", request: "HoldRequest", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/jobs/{id}/approve", Permission: permission.JobApprove, Leader: true, handle: (*call).approveJob,
			summary: "Approve a held job", request: "DecideRequest", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/jobs/{id}/reject", Permission: permission.JobApprove, Leader: true, handle: (*call).rejectJob,
			summary: "Reject a held job", request: "DecideRequest", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/jobs/{id}/move", Permission: permission.JobMove, Leader: true, handle: (*call).moveJob,
			summary: "Move a job to another queue", request: "MoveRequest", answer: wire.Status{}},
		{Method: get, Pattern: "/api/v1/dead", Permission: permission.JobList, Leader: true, handle: (*call).deadJobs,
			summary: "List dead jobs, newest first", query: deadParams, answer: wire.JobList{}},
		{Method: get, Pattern: "/api/v1/dead/groups", Permission: permission.JobList, Leader: true, handle: (*call).deadGroups,
			summary: "Count dead jobs by queue and error, the largest group first", query: deadGroupsParams, answer: wire.ErrorGroupList{}},
		{Method: get, Pattern: "/api/v1/queues", Permission: permission.QueueRead, Leader: true, handle: list((*call).jobs, (*queue.Service).Queues),
			summary: "List queues with exact counts", answer: []wire.Queue{}},
		{Method: post, Pattern: "/api/v1/queues/{name}/pause", Permission: permission.QueuePause, Leader: true, handle: act("paused", (*call).queueName, (*queue.Service).PauseQueue),
			summary: "Pause a queue", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/queues/{name}/resume", Permission: permission.QueuePause, Leader: true, handle: act("resumed", (*call).queueName, (*queue.Service).ResumeQueue),
			summary: "Resume a paused or draining queue", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/queues/{name}/drain", Permission: permission.QueuePause, Leader: true, waits: true, handle: (*call).drainQueue,
			summary: "Drain a queue, and wait until it is empty", query: drainParams, answer: wire.Drained{}},
		{Method: post, Pattern: "/api/v1/queues/{name}/clear", Permission: permission.QueueClear, Leader: true, handle: (*call).clearQueue,
			summary: "Clear a queue: remove all jobs that no worker has", answer: wire.Cleared{}},
		{Method: post, Pattern: "/api/v1/queues/{name}/requeue", Permission: permission.JobRetry, Leader: true, handle: (*call).requeueDead,
			summary: "Retry all dead jobs of a queue", answer: wire.Requeued{}},
		{Method: get, Pattern: "/api/v1/queues/{name}", Permission: permission.QueueRead, Leader: true, handle: one((*call).jobs, (*call).queueName, (*queue.Service).Queue),
			summary: "Get a queue with exact counts", answer: wire.Queue{}},
		{Method: put, Pattern: "/api/v1/queues/{name}", Permission: permission.QueueUpdate, Leader: true, handle: (*call).putQueue,
			summary: "Create a queue or replace its settings", request: "QueueRequest", answer: wire.Queue{}},
		{Method: del, Pattern: "/api/v1/queues/{name}", Permission: permission.QueueDelete, Leader: true, handle: (*call).deleteQueue,
			summary: "Delete a queue with all its jobs", query: deleteParams, answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/queues/{name}/concurrency", Permission: permission.QueueUpdate, Leader: true, handle: (*call).limitQueue,
			summary: "Limit how many jobs of a queue are leased at a time", request: "QueueConcurrencyRequest", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/queues/{name}/throttle", Permission: permission.QueueUpdate, Leader: true, handle: (*call).throttleQueue,
			summary: "Limit how many jobs of a queue start in a time window", request: "QueueThrottleRequest", answer: wire.Status{}},
		{Method: del, Pattern: "/api/v1/queues/{name}/throttle", Permission: permission.QueueUpdate, Leader: true, handle: (*call).unthrottleQueue,
			summary: "Remove a queue's throttle", answer: wire.Status{}},

		{Method: get, Pattern: "/api/v1/jobs/{id}/iterations", Permission: permission.JobRead, Leader: true, handle: (*call).iterations,
			summary: "List the finished iterations of an agent job", query: iterationParams, answer: wire.IterationList{}},
		{Method: post, Pattern: "/api/v1/jobs/{id}/replay", Permission: permission.JobRetry, Leader: true, once: true, handle: (*call).replay,
			summary: "Create a job that continues from an iteration of this one", request: "ReplayRequest", status: 201, answer: wire.Enqueued{}},
		{Method: get, Pattern: "/api/v1/budgets", Permission: permission.BudgetRead, Leader: true, handle: list((*call).jobs, (*queue.Service).Budgets),
			summary: "List budgets with what is spent today", answer: []wire.Budget{}},
		{Method: post, Pattern: "/api/v1/budgets", Permission: permission.BudgetUpdate, Leader: true, handle: (*call).setBudget,
			summary: "Create a budget, or update the one with the same scope and target", request: "BudgetRequest", answer: wire.Budget{}},
		{Method: del, Pattern: "/api/v1/budgets/{scope}/{target}", Permission: permission.BudgetUpdate, Leader: true, handle: (*call).deleteBudget,
			summary: "Delete a budget", answer: wire.Status{}},
		{Method: del, Pattern: "/api/v1/budgets/{budget}", Permission: permission.BudgetUpdate, Leader: true, handle: (*call).deleteBudgetByID,
			summary: "Delete a budget by id", answer: wire.Status{}},
		{Method: get, Pattern: "/api/v1/approval-policies", Permission: permission.ApprovalRead, Leader: true, handle: list((*call).jobs, (*queue.Service).Policies),
			summary: "List approval policies", answer: []wire.ApprovalPolicy{}},
		{Method: post, Pattern: "/api/v1/approval-policies", Permission: permission.ApprovalUpdate, Leader: true, handle: (*call).setPolicy,
			summary: "Create or update an approval policy", request: "ApprovalPolicyRequest", answer: wire.ApprovalPolicy{}},
		{Method: del, Pattern: "/api/v1/approval-policies/{policy}", Permission: permission.ApprovalUpdate, Leader: true, handle: act("deleted", (*call).policyID, (*queue.Service).DeletePolicy),
			summary: "Delete an approval policy; jobs it holds stay held", answer: wire.Status{}},
		{Method: get, Pattern: "/api/v1/usage/summary", Permission: permission.UsageRead, Leader: true, handle: (*call).usageSummary,
			summary: "Get model usage and cost", query: usageParams, answer: wire.UsageSummary{}},

		{Method: get, Pattern: "/api/v1/schedules", Permission: permission.ScheduleRead, Leader: true, handle: page((*queue.Service).Schedules),
			summary: "List cron schedules", query: scheduleParams, answer: wire.ScheduleList{}},
		{Method: post, Pattern: "/api/v1/schedules", Permission: permission.ScheduleUpdate, Leader: true, handle: (*call).createSchedule,
			summary: "Create a cron schedule", request: "ScheduleRequest", status: 201, answer: wire.Schedule{}},
		{Method: post, Pattern: "/api/v1/schedules/preview", Permission: permission.ScheduleRead, Leader: true, handle: (*call).previewSchedule,
			summary: "Preview when an expression would run", request: "SchedulePreviewRequest", answer: wire.SchedulePreview{}},
		{Method: get, Pattern: "/api/v1/schedules/{id}", Permission: permission.ScheduleRead, Leader: true, handle: (*call).schedule,
			summary: "Get a cron schedule and its next runs", answer: wire.Schedule{}},
		{Method: put, Pattern: "/api/v1/schedules/{id}", Permission: permission.ScheduleUpdate, Leader: true, handle: (*call).putSchedule,
			summary: "Replace a cron schedule", request: "ScheduleRequest", answer: wire.Schedule{}},
		{Method: del, Pattern: "/api/v1/schedules/{id}", Permission: permission.ScheduleUpdate, Leader: true, handle: act("deleted", (*call).scheduleID, (*queue.Service).DeleteSchedule),
			summary: "Delete a cron schedule; its jobs stay", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/schedules/{id}/pause", Permission: permission.ScheduleUpdate, Leader: true, handle: act("paused", (*call).scheduleID, (*queue.Service).PauseSchedule),
			summary: "Pause a cron schedule", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/schedules/{id}/resume", Permission: permission.ScheduleUpdate, Leader: true, handle: act("resumed", (*call).scheduleID, (*queue.Service).ResumeSchedule),
			summary: "Resume a cron schedule", answer: wire.Status{}},
		{Method: post, Pattern: "/api/v1/schedules/{id}/run", Permission: permission.ScheduleUpdate, Leader: true, handle: (*call).runSchedule,
			summary: "Enqueue the job of a cron schedule now", status: 201, answer: wire.ScheduleRun{}},

		{Method: get, Pattern: "/api/v1/audit", Permission: permission.ActivityRead, Leader: true, handle: (*call).audit,
			summary: "List the audit log of queues and jobs, newest first", query: auditParams, answer: wire.AuditPage{}},

		{Method: get, Pattern: "/api/v1/info", handle: (*call).info, summary: "Get versions", answer: wire.Info{}},
		{Method: get, Pattern: "/healthz", handle: (*call).healthz, summary: "Check whether this process works", answer: wire.Health{}},
		{Method: get, Pattern: "/readyz", handle: (*call).readyz, summary: "Check whether to send this process traffic", answer: wire.Health{}},
		{Method: get, Pattern: "/openapi.json", handle: (*call).openAPI, summary: "Get the OpenAPI document", answer: map[string]any{}},
		{Method: get, Pattern: "/api/v1/debug/runtime", Permission: permission.ServerRead, Process: true, handle: (*call).runtime,
			summary: "Get goroutines, memory and CPU of this process", answer: wire.Runtime{}},
		{Method: get, Pattern: "/api/v1/cluster/status", Permission: permission.ServerRead, Process: true, handle: (*call).clusterStatus,
			summary: "Get groups and nodes as seen by this process", answer: wire.ClusterStatus{}},
	}
}

func rpcRoutes() []Route {
	rpc := func(procedure string, p permission.Permission, leader bool) Route {
		return Route{Method: http.MethodPost, Pattern: procedure, Permission: p, Leader: leader, RPC: true}
	}
	fetch := rpc(corvov1connect.WorkerServiceFetchProcedure, permission.JobFetch, true)
	fetchBatch := rpc(corvov1connect.WorkerServiceFetchBatchProcedure, permission.JobFetch, true)
	fetch.waits, fetchBatch.waits = true, true
	stream := rpc(corvov1connect.WorkerServiceStreamLifecycleProcedure, permission.JobFetch, true)
	stream.Any, stream.stream = []permission.Permission{permission.JobEnqueue}, true
	subscribe := rpc(corvov1connect.WorkerServiceSubscribeProcedure, permission.EventRead, true)
	subscribe.events = true
	return []Route{
		rpc(corvov1connect.WorkerServiceEnqueueProcedure, permission.JobEnqueue, true),
		rpc(corvov1connect.WorkerServiceEnqueueBatchProcedure, permission.JobEnqueue, true),
		fetch,
		fetchBatch,
		rpc(corvov1connect.WorkerServiceAckProcedure, permission.JobFetch, true),
		rpc(corvov1connect.WorkerServiceAckBatchProcedure, permission.JobFetch, true),
		rpc(corvov1connect.WorkerServiceFailProcedure, permission.JobFetch, true),
		rpc(corvov1connect.WorkerServiceHeartbeatProcedure, permission.JobFetch, true),
		stream,
		subscribe,
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
		s.mux.Handle(rt.Method+" "+rt.Pattern, s.handler(rt))
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
			writeStatus(w, c.r, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "this path does not support "+r.Method)
			return
		}
		writeProblem(w, c.r, s.log, fault.New(fault.NotFound, "NOT_FOUND", "this path doesn't exist"))
	})
}

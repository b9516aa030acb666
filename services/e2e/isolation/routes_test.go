package isolation

import (
	"strconv"
	"strings"
	"time"
)

// probe says how one route is tested. At least one member is set.
type probe struct {
	// job asks about one job, by id and lease token; nil bodies are sent empty. The
	// answer about another tenant's job must be that about a job that never was.
	job func(j job) any
	// names asks with names that both tenants use. The answer must carry nothing of
	// the other tenant.
	names func() any
	// queue: the path names a queue. The answer about a queue that only the other
	// tenant has must be that about one that nobody has.
	queue bool
	body  any // Of a queue's route.
	// thing asks about something else with an id, of the kind that thingKind
	// names. The answer about the other tenant's must be that about one that never was.
	thing     func(id string) any
	thingKind string
	query     string // With its question mark.
	// watch: an RPC whose answer has no end.
	watch bool
	// public routes need no key.
	public bool
	// derived from the document: the request must not be refused for its form.
	derived bool
}

type o = map[string]any

func noBody() any { return nil }

// Kinds of things that have an id of their own, as ids begin.
const (
	aBatch    = "batch_"
	aChain    = "chn_"
	aSchedule = "sched_"
	aBulk     = "bulk_"
)

// things are the kinds by the path segment before their ids.
var things = map[string]string{"batches": aBatch, "chains": aChain, "schedules": aSchedule, "bulk": aBulk}

func bulkByName() any {
	return o{"filter": o{"queue": queue, "state": []string{"dead"}}, "action": "delete"}
}

// The names that both tenants use for everything.
const (
	queue       = "mail"
	worker      = "worker-1"
	uniqueKey   = "unique-1"
	idempotency = "idempotency-1"
	tagName     = "team"
)

const rpc = "POST /corvo.v1.WorkerService/"

// probes are the routes at which more can be asked than the OpenAPI document tells, which
// gives all others theirs (see document.probe), and the procedures. {id} is a job's or a
// thing's id, {name} a queue's.
var probes = map[string]probe{
	"POST /api/v1/enqueue": {
		names: enqueue, job: func(j job) any { return o{"queue": queue, "depends_on": []string{j.id}} },
		thing: func(id string) any { return o{"queue": queue, "batch_id": id} }, thingKind: aBatch,
	},
	"POST /api/v1/enqueue/batch": {names: func() any { return o{"jobs": []any{enqueue()}} }},
	"POST /api/v1/fetch":         {names: fetch},
	"POST /api/v1/fetch/batch":   {names: fetch},
	"POST /api/v1/ack/{id}":      {job: func(j job) any { return o{"lease_token": j.token, "worker_id": worker, "result": o{}} }},
	"POST /api/v1/ack/batch": {job: func(j job) any {
		return o{"worker_id": worker, "acks": []any{o{"job_id": j.id, "lease_token": j.token}}}
	}},
	"POST /api/v1/fail/{id}": {job: func(j job) any { return o{"lease_token": j.token, "worker_id": worker, "error": "no"} }},
	"POST /api/v1/heartbeat": {job: func(j job) any {
		return o{"worker_id": worker, "jobs": o{j.id: o{"lease_token": j.token, "progress": o{"p": 1}, "checkpoint": o{"c": 1}}}}
	}},
	"POST /api/v1/webhooks/{name}": {
		queue: true, query: "?priority=high&tags=" + tagName + ":x",
	},
	"POST /api/v1/jobs/search":            {names: func() any { return o{"queue": queue, "tags": o{tagName: "x"}} }},
	"POST /api/v1/jobs/bulk-get":          {job: func(j job) any { return o{"job_ids": []string{j.id}} }},
	"POST /api/v1/jobs/bulk":              {job: func(j job) any { return o{"job_ids": []string{j.id}, "action": "cancel"} }, names: bulkByName},
	"GET /api/v1/events":                  {names: noBody, query: "?last_event_id=0"},
	"GET /api/v1/cluster/events":          {names: noBody, query: "?after_seq=0&limit=1000"},
	"POST /api/v1/batches":                {names: func() any { return o{"callback_queue": queue} }},
	"POST /api/v1/queues/{name}/throttle": {queue: true, body: o{"rate": 1, "period": "1m"}},
	"DELETE /api/v1/queues/{name}":        {queue: true, query: "?confirm=true"},
	"POST /api/v1/jobs/{id}/replay":       {job: func(job) any { return o{"from": 1} }},
	"POST /api/v1/budgets":                {names: func() any { return o{"scope": "queue", "target": queue, "daily_usd": 1000} }},
	"POST /api/v1/approval-policies":      {names: func() any { return o{"name": "p", "queue": "approved-only"} }},
	"GET /api/v1/usage/summary":           {names: noBody, query: "?period=7d"},
	"POST /api/v1/schedules":              {names: schedule},
	"PUT /api/v1/schedules/{id}":          {thing: func(string) any { return schedule() }, thingKind: aSchedule},
	rpc + "Enqueue":                       {names: enqueueRPC},
	rpc + "EnqueueBatch":                  {names: func() any { return o{"jobs": []any{enqueueRPC()}} }},
	rpc + "Fetch":                         {names: fetchRPC},
	rpc + "FetchBatch":                    {names: fetchRPC},
	rpc + "Ack":                           {job: func(j job) any { return o{"jobId": j.id, "leaseToken": j.token, "workerId": worker} }},
	rpc + "AckBatch":                      {job: func(j job) any { return o{"workerId": worker, "items": []any{item(j)}} }},
	rpc + "Fail":                          {job: func(j job) any { return o{"jobId": j.id, "leaseToken": j.token, "error": "no"} }},
	rpc + "Heartbeat":                     {job: func(j job) any { return o{"workerId": worker, "jobs": o{j.id: o{"leaseToken": j.token}}} }},
	rpc + "StreamLifecycle":               {job: frame, names: frameOfNames},
	rpc + "Subscribe":                     {names: func() any { return o{"lastEventId": 1} }, watch: true},
	rpc + "GetServerInfo":                 {names: func() any { return o{} }, public: true},
}

func enqueue() any {
	return o{"queue": queue, "payload": o{}, "unique_key": uniqueKey, "idempotency_key": idempotency, "tags": o{tagName: "x"}}
}

// schedule is one that both tenants have, by the same name.
func schedule() any {
	return o{"name": "nightly", "cron": "@yearly", "queue": queue, "paused": true, "payload": o{}, "unique_key": uniqueKey}
}

func fetch() any {
	return o{"queues": []string{queue}, "worker_id": worker, "wait": "0s", "lease": "1h", "count": 10}
}

func enqueueRPC() any {
	return o{"queue": queue, "payloadJson": "{}", "options": o{
		"uniqueKey": uniqueKey, "idempotencyKey": idempotency, "tags": o{tagName: "x"},
	}}
}

func fetchRPC() any {
	return o{"queues": []string{queue}, "workerId": worker, "leaseDuration": 3600, "waitMs": 0, "count": 10}
}

func item(j job) any { return o{"jobId": j.id, "leaseToken": j.token, "resultJson": "{}"} }

// frame settles and renews; the TypeScript SDK sends a frame as one plain call.
func frame(j job) any {
	return o{
		"requestId": 1, "workerId": worker, "acks": []any{item(j)},
		"fails":      []any{o{"jobId": j.id, "leaseToken": j.token, "error": "no"}},
		"heartbeats": o{j.id: o{"leaseToken": j.token, "progressJson": "{}"}},
	}
}

func frameOfNames() any {
	return o{
		"requestId": 1, "workerId": worker, "queues": []string{queue}, "fetchCount": 10, "leaseDuration": 3600,
		"enqueues": []any{enqueueRPC()},
	}
}

// forged is every header with which a caller could try to impersonate somebody.
func forged(b *tenant) map[string]string {
	return map[string]string{
		"X-Corvo-Tenant":         b.id,
		"X-Corvo-Tenant-Name":    b.name,
		"X-Corvo-Namespace-Id":   b.namespaces[0].id,
		"X-Corvo-Namespace":      b.namespaces[0].id,
		"X-Corvo-Principal":      "cell:test",
		"X-Corvo-Grants":         "____________________9w",
		"X-Corvo-Peer":           "127.0.0.1",
		"X-Corvo-Tenant-Url":     "http://" + b.name + ".localhost",
		"X-Corvo-Payload-Max":    "1000000000",
		"X-Corvo-Request-Id":     "req_000000000000000000000000",
		"X-Corvo-Expires":        "9999999999",
		"X-Corvo-Proxy-Stream":   "1",
		"X-Corvo-Forwarded":      "1",
		"X-Corvo-Signature":      "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"X-Corvo-Index":          "1",
		"X-Corvo-Client-Name":    b.name,
		"X-Corvo-SAML-Subject":   "admin",
		"X-Corvo-SAML-Role":      "admin",
		"X-Forwarded-Host":       b.name + ".localhost",
		"X-Forwarded-Prefix":     "/t/" + b.name,
		"X-Forwarded-For":        "127.0.0.1",
		"Forwarded":              "host=" + b.name + ".localhost",
		"X-Original-Url":         "/t/" + b.name + "/api/v1/queues",
		"X-Rewrite-Url":          "/t/" + b.name + "/api/v1/queues",
		"X-Host":                 b.name + ".localhost",
		"X-Http-Method-Override": "DELETE",
		"Connection":             "X-Corvo-Signature, X-Corvo-Tenant, Authorization, X-Api-Key",
	}
}

// credible are whole identities as a proxy or a part of the cell would send them,
// correct except for the signature.
func credible(b *tenant) []map[string]string {
	as := func(principal, grants string) map[string]string {
		return map[string]string{
			"X-Corvo-Tenant": b.id, "X-Corvo-Tenant-Name": b.name,
			"X-Corvo-Namespace-Id": b.namespaces[0].id, "X-Corvo-Namespace": b.namespaces[0].name,
			"X-Corvo-Principal": principal, "X-Corvo-Grants": grants, "X-Corvo-Peer": "127.0.0.1",
			"X-Corvo-Tenant-Url": "http://" + b.name + ".localhost",
			"X-Corvo-Expires":    strconv.FormatInt(time.Now().Add(30*time.Second).Unix(), 10),
			"X-Corvo-Signature":  strings.Repeat("A", 43),
		}
	}
	return []map[string]string{as("key_000000000000", "____________________9w"), as("cell:test", "")}
}

// hosts are spellings of a tenant's host.
func hosts(name string) []string {
	return []string{
		name + ".localhost", name + ".LOCALHOST", name + ".localhost.", name + ".localhost:80", name + ".localhost:443",
		"x." + name + ".localhost", name + ".localhost.localhost", name, "localhost", "[::1]", "127.0.0.1", "",
	}
}

// paths are ways to write, as it goes over the wire, the address of a job of a
// tenant, from the address of another.
func paths(own, name, id string) []string {
	return []string{
		"/t/" + name + "/api/v1/jobs/" + id,
		"/T/" + name + "/api/v1/jobs/" + id,
		"/t/" + name + "//api/v1/jobs/" + id,
		"//t/" + name + "/api/v1/jobs/" + id,
		"/t//" + name + "/api/v1/jobs/" + id,
		"/t/" + own + "/../" + name + "/api/v1/jobs/" + id,
		"/t/" + own + "/./api/v1/jobs/" + id,
		"/t/" + own + "/%2e%2e/" + name + "/api/v1/jobs/" + id,
		"/t/" + own + "/..%2f" + name + "/api/v1/jobs/" + id,
		"/t/" + own + "%2f..%2f" + name + "/api/v1/jobs/" + id,
		"/t/" + own + "%252f..%252f" + name + "/api/v1/jobs/" + id,
		"/t/" + own + "/t/" + name + "/api/v1/jobs/" + id,
		"/t/" + own + "\\..\\" + name + "/api/v1/jobs/" + id,
		"/t/" + own + ";/t/" + name + "/api/v1/jobs/" + id,
		"/t/" + own + "/api/v1/jobs/" + id + "/../" + id,
		"/t/" + own + "/api/v1/jobs/%2e%2e/jobs/" + id,
		"/t/" + own + "/api/v1/jobs/" + id + "%00",
		"/t/" + own + "/api/v1/jobs/" + id + "?tenant=" + name,
		"/t/" + own + "/api/v1/jobs/" + id + "#/t/" + name,
		"/%74/" + name + "/api/v1/jobs/" + id,
		"/t/%" + hexByte(name[0]) + name[1:] + "/api/v1/jobs/" + id,
		"/api/v1/jobs/" + id + "?namespace=" + name,
		"/api/v1/jobs/" + name + "%2f" + id,
		"/api/v1/jobs/" + id + "/",
		"/api//v1/jobs/" + id,
		"/api/v1/../v1/jobs/" + id,
		"/t/" + name,
		"/t/" + name + "/",
		"/t/" + name + "/healthz",
		"/t/" + name + "/api/v1/queues",
		"http://" + name + ".localhost/api/v1/jobs/" + id,
		"http://" + own + ".localhost/t/" + name + "/api/v1/jobs/" + id,
		"*",
	}
}

package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

type enqueueBatchRequest struct {
	jobs  []queue.EnqueueInput
	batch *wire.BatchOptions
}

var enqueueShape = shape.New("EnqueueRequest",
	shape.Text("queue", "Queue name.", func(in *queue.EnqueueInput) *string { return &in.Queue }).Must(),
	shape.RawJSON("payload", "Any JSON; default {}.", func(in *queue.EnqueueInput) *json.RawMessage { return &in.Payload }),
	shape.RawJSON("checkpoint", "Initial checkpoint, any JSON.", func(in *queue.EnqueueInput) *json.RawMessage { return &in.Checkpoint }),
	shape.Enum("priority", "critical, high or normal; low means normal.", wire.Priorities(), func(in *queue.EnqueueInput) *wire.Priority { return &in.Priority }),
	shape.Int("max_retries", "Total number of attempts; default 3, and 0 means 1.", func(in *queue.EnqueueInput, n int) { in.MaxRetries = &n }),
	shape.Enum("retry_backoff", "none, fixed, linear or exponential.", wire.Backoffs(), func(in *queue.EnqueueInput) *wire.Backoff { return &in.RetryBackoff }),
	shape.Duration("retry_base_delay", "Default 5s.", setBaseDelay),
	shape.Duration("retry_max_delay", "Default 10m.", setMaxDelay),
	shape.Millis("retry_base_delay_ms", "The same in milliseconds.", setBaseDelay),
	shape.Millis("retry_max_delay_ms", "The same in milliseconds.", setMaxDelay),
	shape.Time("scheduled_at", "Don't start before this time.", func(in *queue.EnqueueInput) *time.Time { return &in.ScheduledAt }),
	shape.Duration("delay", "Don't start for this long; instead of scheduled_at.", setDelay),
	shape.Millis("delay_ms", "The same in milliseconds.", setDelay),
	shape.Duration("expire_after", "Time to live: a job that hasn't ended by then becomes dead.", setExpireAfter),
	shape.Millis("expire_after_ms", "The same in milliseconds.", setExpireAfter),
	shape.Tags("tags", "Tags to find the job by.", queue.TagsMax, func(in *queue.EnqueueInput) *map[string]string { return &in.Tags }),
	shape.Text("unique_key", "While a job with this key exists in the queue, enqueueing it again returns that job.",
		func(in *queue.EnqueueInput) *string { return &in.UniqueKey }),
	shape.Seconds("unique_period", "Maximum seconds the key is locked; default 3600.",
		func(in *queue.EnqueueInput, d time.Duration) { in.UniquePeriod = &d }),
	shape.Text("idempotency_key", "For 24 hours, the same key returns the first response again. Also accepted as the header Idempotency-Key.",
		func(in *queue.EnqueueInput) *string { return &in.IdempotencyKey }),
	shape.Text("traceparent", "W3C trace context passed to the worker. Also accepted as the header Traceparent.",
		func(in *queue.EnqueueInput) *string { return &in.TraceParent }),
	shape.Text("parent_id", "The job that created this one, shown to people.", func(in *queue.EnqueueInput) *string { return &in.ParentID }),
	groupField(),
	shape.Object("agent", "Makes the job an agent job, which runs in iterations.", agentShape, func(in *queue.EnqueueInput) *queue.AgentLimits {
		in.Agent = new(queue.AgentLimits)
		return in.Agent
	}),
	chainField(),
	shape.Texts("depends_on", "Ids of the jobs that must complete before this one runs.", func(in *queue.EnqueueInput) *[]string { return &in.DependsOn }),
	shape.Enum("on_dependency_failed", "What happens if one of them doesn't complete: fail (default), run or cancel.", wire.DependencyPolicies(),
		func(in *queue.EnqueueInput) *wire.DependencyPolicy { return &in.OnDependencyFailed }),
	shape.Text("batch_id", "Id of an open batch to join.", func(in *queue.EnqueueInput) *string { return &in.BatchID }),
	shape.Reserved[queue.EnqueueInput]("chain_id"),
	shape.Reserved[queue.EnqueueInput]("chain_step"),
	shape.Reserved[queue.EnqueueInput]("chain_config"),
).Strictly()

var enqueueBatchShape = shape.New("EnqueueBatchRequest",
	shape.List("jobs", "The jobs; all are enqueued or none.", queue.BatchMax, enqueueShape,
		func(in *enqueueBatchRequest) *[]queue.EnqueueInput { return &in.jobs }).Must(),
	shape.Object("batch", "Makes the jobs a batch.", batchShape, func(in *enqueueBatchRequest) *wire.BatchOptions {
		in.batch = new(wire.BatchOptions)
		return in.batch
	}),
).Strictly()

// groupTag is the tag that generation 2's fairness key becomes. To refuse the key would
// lock those clients out; who is served next does not depend on it, because queues are
// served in turn, but the jobs of a group can be found, and be held to a budget.
const groupTag = "group"

func groupField() shape.Field[queue.EnqueueInput] {
	const doc = "The earlier server's fairness key: stored as the tag group. Doesn't change the order."
	return shape.Field[queue.EnqueueInput]{Name: "group", Doc: doc, Schema: shape.Schema{Type: "string"}, Read: func(d *shape.Decoder, path string, v []byte, in *queue.EnqueueInput) string {
		if shape.KindOf(v) != '"' {
			return "must be a string"
		}
		if group := shape.Unquote(v); group != "" {
			shape.AddTag(d, path, &in.Tags, groupTag, group)
		}
		return ""
	}}
}

func setBaseDelay(in *queue.EnqueueInput, d time.Duration) { in.RetryBaseDelay = &d }
func setMaxDelay(in *queue.EnqueueInput, d time.Duration)  { in.RetryMaxDelay = &d }

func setDelay(in *queue.EnqueueInput, d time.Duration) { in.Delay = &d }

func setExpireAfter(in *queue.EnqueueInput, d time.Duration) { in.ExpireAfter = &d }

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerTraceParent    = "Traceparent"
	// headerReplayed marks the repeated answer of an idempotency key.
	headerReplayed = "Idempotent-Replayed"
)

// enqueue takes one job, or in generation 2's form {"jobs": [...]} many.
func (c *call) enqueue() error {
	b, err := c.parse()
	if err != nil {
		return err
	}
	if shape.KindOf(b) == '{' && hasMember(b, "jobs") {
		return c.enqueueMany(b)
	}
	var in queue.EnqueueInput
	var d shape.Decoder
	enqueueShape.Read(&d, "", b, &in)
	return c.enqueueOne(&d, in)
}

// enqueueOne adds a job that was read from the wire with the problems in d.
func (c *call) enqueueOne(d *shape.Decoder, in queue.EnqueueInput) error {
	c.stampEnqueue(d, "", &in, c.r.Header.Get(headerIdempotencyKey))
	if len(d.Problems) > 0 {
		d.Also("", in.Check(c.who.Caller, c.s.now()), shape.AsIs)
	}
	if err := d.ErrOr(c.tooLarge("", &in)); err != nil {
		return err
	}
	res, err := c.place.Local.Enqueue(c.r.Context(), c.who.Caller, in)
	c.sayQuota()
	if err != nil {
		return err
	}
	return c.replyEnqueued(&res)
}

// replyEnqueued is 201 for a job that is new.
func (c *call) replyEnqueued(res *queue.EnqueueResult) error {
	status := http.StatusCreated
	if res.UniqueExisting || res.Replayed {
		status = http.StatusOK
	}
	c.markReplayed(res)
	return c.replyStatus(status, res.Enqueued)
}

func (c *call) enqueueBatch() error {
	b, err := c.parse()
	if err != nil {
		return err
	}
	return c.enqueueMany(b)
}

func (c *call) enqueueMany(b []byte) error {
	var req enqueueBatchRequest
	var d shape.Decoder
	enqueueBatchShape.Read(&d, "", b, &req)
	c.stampAll(&d, req.jobs, c.r.Header.Get(headerIdempotencyKey), shape.AsIs)
	var tooLarge []fault.Field
	for i := range req.jobs {
		tooLarge = append(tooLarge, c.tooLarge(fmt.Sprintf("jobs[%d]", i), &req.jobs[i])...)
	}
	if err := d.ErrOr(tooLarge); err != nil {
		return err
	}
	batch, results, err := c.enqueueAll(req.jobs, req.batch)
	c.sayQuota()
	if err != nil {
		return err
	}
	a := wire.EnqueuedBatch{
		JobIDs: make([]string, len(results)), Jobs: make([]wire.JobRef, len(results)), Results: make([]wire.Enqueued, len(results)),
		BatchID: batch,
	}
	for i := range results {
		a.Results[i] = results[i].Enqueued
		a.JobIDs[i], a.Jobs[i] = a.Results[i].JobID, a.Results[i].Job
	}
	if len(results) > 0 {
		c.markReplayed(&results[0])
	}
	return c.replyStatus(201, a)
}

// Headers of draft-ietf-httpapi-ratelimit-headers.
const (
	headerRateLimitPolicy = "RateLimit-Policy"
	headerRateLimit       = "RateLimit"
)

// sayQuota tells how much more the namespace may enqueue, if its plan limits the rate.
func (c *call) sayQuota() {
	q, ok := c.place.Local.EnqueueQuota(c.who.Caller)
	if !ok {
		return
	}
	h := c.w.Header()
	h[headerRateLimitPolicy] = []string{fmt.Sprintf(`"enqueue_per_second";q=%d;w=%.0f`, q.Limit, math.Ceil(q.Window.Seconds()))}
	h[headerRateLimit] = []string{fmt.Sprintf(`"enqueue_per_second";r=%d;t=%.0f`, q.Left, math.Ceil(q.Full.Seconds()))}
}

// enqueueAll adds many jobs, as a batch if there are options of one.
func (c *call) enqueueAll(in []queue.EnqueueInput, batch *wire.BatchOptions) (string, []queue.EnqueueResult, error) {
	if batch == nil {
		results, err := c.place.Local.EnqueueBatch(c.r.Context(), c.who.Caller, in)
		return "", results, err
	}
	res, err := c.place.Local.EnqueueAsBatch(c.r.Context(), c.who.Caller, in, *batch)
	return res.Batch, res.Jobs, err
}

// stampAll adds what stands in headers to the jobs of a batch, and to problems of the
// wire what the use case would refuse.
func (c *call) stampAll(d *shape.Decoder, jobs []queue.EnqueueInput, key string, spell func(string) string) {
	for i := range jobs {
		itemKey := key
		if key != "" {
			// Each job of the batch needs a key of its own; its place makes it one.
			itemKey = fmt.Sprintf("%s#%d", key, i)
		}
		c.stampEnqueue(d, fmt.Sprintf("jobs[%d]", i), &jobs[i], itemKey)
	}
	for i := range jobs {
		if len(d.Problems) > 0 {
			d.Also(fmt.Sprintf("jobs[%d]", i), jobs[i].Check(c.who.Caller, c.s.now()), spell)
		}
	}
}

// stampEnqueue adds what stands in headers.
func (c *call) stampEnqueue(d *shape.Decoder, path string, in *queue.EnqueueInput, key string) {
	if trace := c.r.Header.Get(headerTraceParent); in.TraceParent == "" && queue.ValidTraceParent(trace) {
		in.TraceParent = trace // A header that is not one means nothing (W3C Trace Context, 3.2).
	}
	switch {
	case key == "":
	case in.IdempotencyKey == "":
		in.IdempotencyKey = key
	case path == "" && in.IdempotencyKey != key:
		d.Problem("idempotency_key", "differs from the header Idempotency-Key")
	}
}

// tooLarge: over HTTP a payload above the limit has a status of its own.
func (c *call) tooLarge(path string, in *queue.EnqueueInput) []fault.Field {
	limit := cmp.Or(c.who.Caller.PayloadBytesMax, queue.PayloadBytesMax)
	if len(in.Payload) <= limit {
		return nil
	}
	return []fault.Field{{
		Path:    shape.Join(path, "payload"),
		Message: fmt.Sprintf("is %d bytes long; at most %d are allowed", len(in.Payload), limit),
	}}
}

// noKey refuses an idempotency key where it would not help: to take it in silence would
// be a promise.
func (c *call) noKey(instead string) error {
	if c.r.Header.Get(headerIdempotencyKey) == "" {
		return nil
	}
	return fault.InvalidFields([]fault.Field{{Path: headerIdempotencyKey, Message: "is not accepted by this call: " + instead}})
}

func (c *call) markReplayed(res *queue.EnqueueResult) {
	if res.Replayed {
		c.w.Header().Set(headerReplayed, "true")
	}
}

func hasMember(object []byte, want string) bool {
	found := false
	shape.Members(object, func(name string, _ []byte) { found = found || name == want })
	return found
}

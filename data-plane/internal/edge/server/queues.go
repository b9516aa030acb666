package server

import (
	"cmp"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// The settings of a queue. Their shapes are strict: a misspelt limit that is passed
// over would be no limit.

// queueRequest is the whole of a queue's settings. A limit that is left out is no
// limit, a retry default the engine's; paused that is left out stays as it is, because
// people pause by hand what a program describes.
type queueRequest struct {
	paused   bool
	setsIt   bool // paused is given.
	max      int
	throttle *queue.Throttle
	retry    queue.RetrySettings
	keep     retention.Finished
}

var (
	throttleShape = shape.New("QueueThrottle",
		shape.Int("limit", "How many jobs can start in any window.", func(in *queue.Throttle, n int) { in.Limit = n }).Must(),
		shape.Millis("window_ms", "Length of the window in milliseconds.", func(in *queue.Throttle, d time.Duration) { in.Window = d }).Must(),
	).Strictly()

	retentionShape = shape.New("QueueRetention",
		shape.Duration("completed", "How long completed jobs are kept, such as 168h; if left out, as long as the namespace says.", setCompleted),
		shape.Duration("dead", "How long dead jobs are kept; if left out, as long as the namespace says.", setDead),
		shape.Duration("cancelled", "How long cancelled jobs are kept; if left out, as long as the namespace says.", setCancelled),
		shape.Millis("completed_ms", "The same in milliseconds.", setCompleted),
		shape.Millis("dead_ms", "The same in milliseconds.", setDead),
		shape.Millis("cancelled_ms", "The same in milliseconds.", setCancelled),
		shape.Int("finished_max", "How many finished jobs are kept, whatever their age; the oldest are deleted first. If left out, as many as the namespace says.",
			func(in *retention.Finished, n int) { in.Max = int64(n) }),
	).Strictly()

	queueShape = shape.New("QueueRequest",
		shape.Bool("paused", "Whether the queue is paused; leave out to keep the current value.",
			func(in *queueRequest) *bool { in.setsIt = true; return &in.paused }),
		shape.Int("max_concurrency", "How many of its jobs can be leased at a time; 0 or left out means no limit.",
			func(in *queueRequest, n int) { in.max = n }),
		shape.Object("throttle", "How many of its jobs can start in a time window; leave out for no limit.", throttleShape,
			func(in *queueRequest) *queue.Throttle { in.throttle = new(queue.Throttle); return in.throttle }),
		shape.Int("max_retries", "Default for jobs that don't set max_retries; if left out, 3.",
			func(in *queueRequest, n int) { in.retry.MaxRetries = &n }),
		shape.Enum("retry_backoff", "Default for jobs that don't set retry_backoff; if left out, exponential.", wire.Backoffs(), func(in *queueRequest) *wire.Backoff { return &in.retry.Backoff }),
		shape.Duration("retry_base_delay", "Default for jobs that don't set retry_base_delay; if left out, 5s.", setQueueBaseDelay),
		shape.Duration("retry_max_delay", "Default for jobs that don't set retry_max_delay; if left out, 10m.", setQueueMaxDelay),
		shape.Millis("retry_base_delay_ms", "The same in milliseconds.", setQueueBaseDelay),
		shape.Millis("retry_max_delay_ms", "The same in milliseconds.", setQueueMaxDelay),
		shape.Object("retention", "How long its finished jobs are kept before they are deleted, which can't be undone; leave out for what the namespace says.", retentionShape,
			func(in *queueRequest) *retention.Finished { return &in.keep }),
	).Strictly()

	concurrencyShape = shape.New("QueueConcurrencyRequest",
		shape.Int("max", "How many of the queue's jobs can be leased at a time; 0 removes the limit.",
			func(in *int, n int) { *in = n }).Must(),
	).Strictly()

	rateShape = shape.New("QueueThrottleRequest",
		shape.Int("rate", "How many jobs can start in any window.", func(in *queue.Throttle, n int) { in.Limit = n }).Must(),
		shape.Millis("window_ms", "Length of the window in milliseconds.", setWindow),
		shape.Duration("period", "The same as a duration, such as 1m.", setWindow),
	).Strictly()
)

func setQueueBaseDelay(in *queueRequest, d time.Duration) { in.retry.BaseDelay = &d }
func setQueueMaxDelay(in *queueRequest, d time.Duration)  { in.retry.MaxDelay = &d }

func setCompleted(in *retention.Finished, d time.Duration) { in.Completed = d }
func setDead(in *retention.Finished, d time.Duration)      { in.Dead = d }
func setCancelled(in *retention.Finished, d time.Duration) { in.Cancelled = d }

func setWindow(in *queue.Throttle, d time.Duration) { in.Window = d }

func (c *call) putQueue() error {
	var req queueRequest
	d, err := decodeAll(c, queueShape, &req)
	if err != nil {
		return err
	}
	in := queue.QueueSettings{MaxConcurrency: &req.max, Throttle: &queue.Throttle{}, Retry: &req.retry, Retention: &req.keep}
	if req.throttle != nil {
		in.Throttle = req.throttle
		notNothing(d, req.throttle, shape.AsIs)
	}
	if req.setsIt {
		in.Paused = &req.paused
	}
	if in.IfFingerprint, err = ifMatch(c.r.Header.Get(headerIfMatch)); err != nil {
		return err
	}
	return c.setQueue(d, in, shape.AsIs, func(q wire.Queue) any { return q })
}

// headerIfMatch makes a PUT of a queue depend on the settings that the caller has seen.
const headerIfMatch = "If-Match"

// ifMatch reads the etag of a queue; 0 if none is given. An asterisk, any settings, would
// refuse nothing but a queue that is not there, and PUT makes that one.
func ifMatch(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	fingerprint, ok := queue.ParseETag(text)
	if !ok {
		return 0, fault.InvalidFields([]fault.Field{{Path: headerIfMatch, Message: "must be the queue's etag, as returned by GET /api/v1/queues/{name}"}})
	}
	return fingerprint, nil
}

func (c *call) limitQueue() error {
	var limit int
	d, err := decodeAll(c, concurrencyShape, &limit)
	if err != nil {
		return err
	}
	return c.setQueue(d, queue.QueueSettings{MaxConcurrency: &limit}, spelled(map[string]string{"max_concurrency": "max"}), ok)
}

func (c *call) throttleQueue() error {
	var t queue.Throttle
	d, err := decodeAll(c, rateShape, &t)
	if err != nil {
		return err
	}
	if t.Window == 0 {
		d.Also("", []fault.Field{{Path: "window_ms", Message: "is required unless you send period"}}, shape.AsIs)
	}
	spell := spelled(map[string]string{"throttle.limit": "rate", "throttle.window_ms": "window_ms"})
	notNothing(d, &t, spell)
	return c.setQueue(d, queue.QueueSettings{Throttle: &t}, spell, ok)
}

// notNothing refuses a throttle of zeros: to the use case that is no throttle.
func notNothing(d *shape.Decoder, t *queue.Throttle, spell func(string) string) {
	const how = "must be at least 1; to remove the throttle, leave it out or delete it"
	if *t == (queue.Throttle{}) {
		d.Also("", []fault.Field{{Path: "throttle.limit", Message: how}, {Path: "throttle.window_ms", Message: how}}, spell)
	}
}

// spelled gives members the names they have in a request.
func spelled(names map[string]string) func(string) string {
	return func(path string) string { return cmp.Or(names[path], path) }
}

func (c *call) unthrottleQueue() error {
	return c.setQueue(&shape.Decoder{}, queue.QueueSettings{Throttle: &queue.Throttle{}}, shape.AsIs, ok)
}

func ok(wire.Queue) any { return wire.Status{Status: "ok"} }

// decodeAll reads the body and keeps its problems, so that those of the use case can
// be told with them.
func decodeAll[T any](c *call, sh *shape.Shape[T], into *T) (*shape.Decoder, error) {
	b, err := c.parse()
	if err != nil {
		return nil, err
	}
	d := new(shape.Decoder)
	sh.Read(d, "", b, into)
	return d, nil
}

func (c *call) setQueue(d *shape.Decoder, in queue.QueueSettings, spell func(string) string, answer func(wire.Queue) any) error {
	name := c.r.PathValue("name")
	d.Also("", in.Check(name), spell)
	if err := d.Err(); err != nil {
		return err
	}
	q, err := c.place.Local.SetQueue(c.r.Context(), c.who.Caller, name, in)
	return c.answer(answer(q), err)
}

var deleteParams = []shape.Param{
	shape.BoolParam("confirm", "True or left out. Deleting a queue can't be undone."),
}

// deleteQueue takes the jobs with the queue. Clients ask their user, not this server.
func (c *call) deleteQueue() error {
	var d shape.Decoder
	if v := c.query(&d).Get("confirm"); v != "" && v != "true" {
		d.Problem("confirm", "must be true or left out: this deletes the queue and all its jobs, and can't be undone")
	}
	if err := d.Err(); err != nil {
		return err
	}
	return c.done("deleted", c.place.Local.DeleteQueue(c.r.Context(), c.who.Caller, c.r.PathValue("name")))
}

func (c *call) clearQueue() error {
	removed, err := c.place.Local.ClearQueue(c.r.Context(), c.who.Caller, c.r.PathValue("name"))
	return c.answer(wire.Cleared{Status: "cleared", Removed: removed}, err)
}

func (c *call) requeueDead() error {
	requeued, err := c.place.Local.RequeueDead(c.r.Context(), c.who.Caller, c.r.PathValue("name"))
	return c.answer(wire.Requeued{Status: "requeued", Requeued: requeued}, err)
}

var drainParams = []shape.Param{
	shape.TextParam("wait", `How long to wait for the queue to be empty, at most 60s; for example "30s".`),
}

func (c *call) drainQueue() error {
	var d shape.Decoder
	var wait time.Duration
	if text := c.query(&d).Get("wait"); text != "" {
		var msg string
		if wait, msg = shape.ParseDuration(text); msg != "" {
			d.Problem("wait", "%s", msg)
		}
	}
	if err := d.Err(); err != nil {
		return err
	}
	ctx, cancel := c.s.untilDrain(c.r.Context())
	defer cancel()
	remaining, err := c.place.Local.DrainQueue(ctx, c.who.Caller, c.r.PathValue("name"), wait)
	return c.answer(wire.Drained{Status: "draining", Remaining: remaining}, err)
}

package conformance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Client is the worker protocol; there is one implementation per way to speak it.
// An answer of the server that says no is a *Refusal.
type Client interface {
	Enqueue(ctx context.Context, j Job) (Enqueued, error)
	EnqueueBatch(ctx context.Context, jobs []Job, b *Batch) (EnqueuedBatch, error)
	Fetch(ctx context.Context, f Fetch) ([]Lease, error)
	Ack(ctx context.Context, a Ack) error
	// AckBatch returns one outcome per item: nil or a *Refusal.
	AckBatch(ctx context.Context, worker string, acks []Ack) ([]error, error)
	Fail(ctx context.Context, f Fail) (Failed, error)
	Heartbeat(ctx context.Context, h Heartbeat) (map[string]HeartbeatResult, error)
	// Limits enqueues a job to one queue and fetches from another, which is empty, and
	// returns what the answers say of the plan's limits.
	Limits(ctx context.Context, to, from string) (Limits, error)
	// Subscribe returns when the server listens: what happens from then on is told. It
	// lasts as long as ctx; a refusal comes with the first event.
	Subscribe(ctx context.Context, s Subscription) (Events, error)
	Close()
}

// JSON is text that goes out and comes in as it stands; none is not sent.
type JSON string

// MarshalJSON is the text.
func (j JSON) MarshalJSON() ([]byte, error) { return []byte(j), nil }

// UnmarshalJSON keeps the text.
func (j *JSON) UnmarshalJSON(text []byte) error {
	*j = JSON(text)
	return nil
}

// The tags of the types below are those of HTTP/JSON.

// Job is an enqueue with every option there is. Zero values are not sent.
type Job struct {
	Queue              string            `json:"queue"`
	Payload            JSON              `json:"payload,omitempty"`
	Checkpoint         JSON              `json:"checkpoint,omitempty"`
	Priority           string            `json:"priority,omitempty"`
	MaxRetries         *int              `json:"max_retries,omitempty"`
	Backoff            string            `json:"retry_backoff,omitempty"`
	BaseDelay          *time.Duration    `json:"-"` // Whole milliseconds.
	MaxDelay           *time.Duration    `json:"-"`
	ScheduledAt        time.Time         `json:"scheduled_at,omitzero"`
	Delay              *time.Duration    `json:"-"`
	ExpireAfter        *time.Duration    `json:"-"`
	Tags               map[string]string `json:"tags,omitzero"`
	UniqueKey          string            `json:"unique_key,omitempty"`
	UniqueSeconds      *int              `json:"unique_period,omitempty"`
	IdempotencyKey     string            `json:"idempotency_key,omitempty"`
	TraceParent        string            `json:"-"`
	DependsOn          []string          `json:"depends_on,omitzero"`
	OnDependencyFailed string            `json:"on_dependency_failed,omitempty"`
	Chain              *Chain            `json:"-"`
	BatchID            string            `json:"batch_id,omitempty"`
	ParentID           string            `json:"parent_id,omitempty"`
	Agent              *Agent            `json:"agent,omitempty"`
}

// Step is a job that the end of another one calls for.
type Step struct {
	Queue   string `json:"queue"`
	Payload JSON   `json:"payload,omitempty"`
}

// Chain is what follows on a job.
type Chain struct {
	Steps     []Step
	OnFailure *Step
	OnExit    *Step
	GoOn      bool // The step after a dead one runs all the same.
}

// Agent bounds the loop of an agent job.
type Agent struct {
	MaxIterations    int     `json:"max_iterations"`
	MaxCostUSD       float64 `json:"max_cost_usd"`
	IterationTimeout string  `json:"iteration_timeout,omitempty"`
	// Iteration and CostUSD are filled in by a fetch.
	Iteration int     `json:"iteration,omitempty"`
	CostUSD   float64 `json:"total_cost_usd,omitempty"`
}

// Batch makes a batch of the jobs of one call.
type Batch struct {
	CallbackQueue   string `json:"callback_queue,omitempty"`
	CallbackPayload JSON   `json:"callback_payload,omitempty"`
	Open            bool   `json:"open,omitempty"`
}

// Enqueued answers an enqueue.
type Enqueued struct {
	ID       string `json:"job_id"`
	Status   string `json:"status"`          // pending, scheduled, held or duplicate.
	Existing bool   `json:"unique_existing"` // The unique key was held; ID is the holder.
	ChainID  string `json:"chain_id"`        // The chain that begins with the job.
	BatchID  string `json:"batch_id"`        // The batch that it joined.
}

// EnqueuedBatch answers an enqueue of many, in their order.
type EnqueuedBatch struct {
	Jobs    []Enqueued `json:"results"`
	BatchID string     `json:"batch_id"`
}

// Fetch asks for up to Count jobs; more than one is another call on some protocols.
type Fetch struct {
	Queues   []string
	Worker   string
	Hostname string
	Count    int
	Lease    time.Duration // Whole seconds.
	Wait     time.Duration
}

// Lease is one attempt that a worker holds.
type Lease struct {
	ID          string            `json:"job_id"`
	Queue       string            `json:"queue"`
	Payload     JSON              `json:"payload"`
	Attempt     int               `json:"attempt"`
	MaxRetries  int               `json:"max_retries"`
	Seconds     int               `json:"lease_duration"`
	Checkpoint  JSON              `json:"checkpoint"`
	Tags        map[string]string `json:"tags"`
	Token       string            `json:"lease_token"`
	TraceParent string            `json:"traceparent"`
	BatchID     string            `json:"batch_id"`
	ChainID     string            `json:"chain_id"`
	ChainStep   *int              `json:"chain_step"`
	ExpireAt    time.Time         `json:"expire_at"`
	Agent       *Agent            `json:"agent"`
}

// Usage is what a model was used for.
type Usage struct {
	Input    int64   `json:"input_tokens"`
	Output   int64   `json:"output_tokens"`
	CostUSD  float64 `json:"cost_usd"`
	Model    string  `json:"model,omitempty"`
	Provider string  `json:"provider,omitempty"`
	Kind     string  `json:"kind,omitempty"` // total or delta.
}

// Ack completes one attempt.
type Ack struct {
	ID          string `json:"job_id,omitempty"` // In a batch.
	Token       string `json:"lease_token,omitempty"`
	Worker      string `json:"worker_id,omitempty"`
	Result      JSON   `json:"result,omitempty"`
	Checkpoint  JSON   `json:"checkpoint,omitempty"`
	AgentStatus string `json:"agent_status,omitempty"`
	HoldReason  string `json:"hold_reason,omitempty"`
	StepStatus  string `json:"step_status,omitempty"`
	ExitReason  string `json:"exit_reason,omitempty"`
	Usage       *Usage `json:"usage,omitempty"`
}

// Fail ends one attempt without success.
type Fail struct {
	ID        string         `json:"-"`
	Token     string         `json:"lease_token,omitempty"`
	Worker    string         `json:"worker_id,omitempty"`
	Error     string         `json:"error,omitempty"`
	Backtrace string         `json:"backtrace,omitempty"`
	Release   bool           `json:"release,omitempty"`
	Terminal  bool           `json:"terminal,omitempty"`
	Delay     *time.Duration `json:"-"` // Whole milliseconds.
	Usage     *Usage         `json:"usage,omitempty"`
}

// Failed tells what became of the job.
type Failed struct {
	Status    string    `json:"status"`
	NextAt    time.Time `json:"next_attempt_at"`
	Remaining int       `json:"attempts_remaining"`
}

// Heartbeat renews leases and brings news, by job id.
type Heartbeat struct {
	Worker string
	Lease  time.Duration // Whole seconds; 0: that of the fetch.
	Jobs   map[string]JobUpdate
}

// JobUpdate is what a heartbeat stores for one job.
type JobUpdate struct {
	Token      string `json:"lease_token,omitempty"`
	Progress   JSON   `json:"progress,omitempty"`
	Checkpoint JSON   `json:"checkpoint,omitempty"`
	Usage      *Usage `json:"usage,omitempty"`
}

// HeartbeatResult is the answer to a heartbeat for one job.
type HeartbeatResult struct {
	Status         string `json:"status"` // ok, cancel or lost.
	BudgetExceeded bool   `json:"budget_exceeded"`
}

// Limits is what answers say of the limits of a plan. Zero values: nothing.
type Limits struct {
	Quota int64 // Jobs that may be enqueued at once after a pause.
	// Left is whether Quota comes with what is left of it: no more than itself.
	Left bool
	Held string // The limit that holds dispatch.
}

// Subscription says which events are wanted; empty lists want all.
type Subscription struct {
	Queues, Jobs, Types []string
	After               uint64 // 0: what happens next.
}

// Events are told one by one.
type Events interface {
	// Next waits for the next event; what keeps the connection alive is passed over.
	Next() (Event, error)
}

// Event is something that happened. State and From are of its job, after and before.
type Event struct {
	Seq       uint64 `json:"seq"`
	Type      string `json:"type"`
	Job       string `json:"job_id"`
	Queue     string `json:"queue"`
	AtNS      int64  `json:"at_ns"`
	EventData `json:"data"`
}

// EventData is what an event says of its job.
type EventData struct {
	State   string `json:"state"`
	From    string `json:"from"`
	Attempt int    `json:"attempt"`
}

// ErrCannot marks what a protocol has no words for; the table names it.
var ErrCannot = errors.New("this protocol has no words for it")

func cannot(what string) error { return fmt.Errorf("%w: %s", ErrCannot, what) }

// Refusal is an answer that says no.
type Refusal struct {
	Code string // The stable word.
	// Fields are the refused fields, spelled as in HTTP/JSON.
	Fields []string
	Text   string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("refused: %s %v %s", r.Code, r.Fields, r.Text)
}

// AsRefusal returns the refusal in err's chain, or nil.
func AsRefusal(err error) *Refusal {
	var r *Refusal
	errors.As(err, &r)
	return r
}

var (
	itemPrefix = regexp.MustCompile(`^(jobs|enqueues|items|acks)(\[\d+\])?\.`)
	beatPrefix = regexp.MustCompile(`^(jobs|heartbeats)(\.|\[")job_\w+("\])?\.`)
	units      = regexp.MustCompile(`^(retry_base_delay|retry_max_delay|expire_after|delay|wait)_ms`)
)

// plainFields takes off what belongs to a protocol's own spelling: the place in the
// message, "options.", "_json" and units.
func plainFields(fields []string) []string {
	var out []string
	for _, f := range fields {
		f = itemPrefix.ReplaceAllString(beatPrefix.ReplaceAllString(f, ""), "")
		f = strings.TrimPrefix(f, "options.")
		f = units.ReplaceAllString(strings.Replace(f, "_json", "", 1), "$1")
		if f == "lease_duration" {
			f = "lease"
		}
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return out
}

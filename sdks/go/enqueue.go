package corvo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// rpcTimeout ends one try of a call that gets no answer.
const rpcTimeout = 15 * time.Second

// Args are the typed arguments of a job. They travel as JSON. Kind is called on
// the zero value too and must not depend on the fields.
//
// Arguments that wait in a queue with another name than their kind may say so
// with a method Queue() string.
type Args interface {
	Kind() string
}

// KindTag is the tag that carries the kind of a job whose queue has another name.
const KindTag = "corvo.kind"

// Enqueued is a job that is on disk on a quorum.
type Enqueued struct {
	ID     string
	Status EnqueueStatus
	// Duplicate: the unique key was held and ID is the job that holds it.
	Duplicate bool
	// ChainID is the chain that begins with the job, BatchID the batch that it joined;
	// empty without.
	ChainID, BatchID string
}

// EnqueueStatus is what became of an enqueue.
type EnqueueStatus = wire.EnqueueStatus

// Outcomes of an enqueue: the state of the new job, or duplicate.
const (
	EnqueuePending   = wire.EnqueuePending
	EnqueueScheduled = wire.EnqueueScheduled
	EnqueueHeld      = wire.EnqueueHeld
	EnqueueDuplicate = wire.EnqueueDuplicate
)

// EnqueueOption changes one job.
type EnqueueOption func(*JobSpec)

// JobSpec is a job to be enqueued; NewJob and RawJob make one. It keeps its
// idempotency key: enqueueing the same JobSpec again, after an error for example, is
// still one job.
type JobSpec struct {
	queue   string
	kind    string
	payload json.RawMessage
	opts    corvov1.EnqueueOptions
	follow  *follow // nil: nothing comes after the job.
	agent   *corvov1.AgentConfig
	err     error
}

// NewJob describes a job for EnqueueBatch. Trouble with args shows there.
func NewJob(args Args, opts ...EnqueueOption) *JobSpec {
	s := &JobSpec{kind: args.Kind()}
	if q, ok := args.(interface{ Queue() string }); ok {
		s.queue = q.Queue()
	}
	payload, err := json.Marshal(args)
	if err != nil {
		s.err = fmt.Errorf("encode arguments of kind %q: %w", s.kind, err)
	}
	s.payload = payload
	s.apply(opts)
	return s
}

// RawJob describes a job with ready JSON; an empty payload means {}.
func RawJob(queue string, payload json.RawMessage, opts ...EnqueueOption) *JobSpec {
	s := &JobSpec{kind: queue, payload: payload}
	if len(payload) > 0 && !json.Valid(payload) {
		s.err = &Error{Code: CodeInvalid, Message: "the payload is not JSON", Fields: []Field{{Name: "payload", Message: "must be JSON"}}}
	}
	s.apply(opts)
	return s
}

func (s *JobSpec) apply(opts []EnqueueOption) {
	for _, o := range opts {
		o(s)
	}
	s.queue = cmp.Or(s.queue, s.kind)
	if s.queue != s.kind {
		s.tag(KindTag, s.kind)
	}
	s.opts.IdempotencyKey = cmp.Or(s.opts.IdempotencyKey, "go-"+rand.Text())
}

func (s *JobSpec) tag(key, value string) {
	if s.opts.Tags == nil {
		s.opts.Tags = make(map[string]string)
	}
	if _, ok := s.opts.Tags[key]; !ok {
		s.opts.Tags[key] = value
	}
}

// ToQueue puts the job into another queue than the one named after its kind.
func ToQueue(name string) EnqueueOption { return func(s *JobSpec) { s.queue = name } }

// Delay makes the job wait at least d, counted by the server from when it takes the job,
// before it can be fetched.
func Delay(d time.Duration) EnqueueOption {
	return func(s *JobSpec) {
		up := d + time.Millisecond - 1 // Never earlier than asked for.
		s.opts.ScheduledAt, s.opts.DelayMs = nil, new(max(0, up.Milliseconds()))
	}
}

// At makes the job wait until t; a time that has passed means now.
func At(t time.Time) EnqueueOption {
	return func(s *JobSpec) { s.opts.ScheduledAt, s.opts.DelayMs = timestamppb.New(t), nil }
}

// Unique takes a lock in the queue: while the job with this key is alive, and for
// at most period, another enqueue with the key answers this job again. Period 0
// means the server's default of one hour.
func Unique(key string, period time.Duration) EnqueueOption {
	return func(s *JobSpec) {
		s.opts.UniqueKey = key
		if period > 0 {
			seconds := max(1, int64(period.Round(time.Second)/time.Second))
			s.opts.UniquePeriod = &seconds
		}
	}
}

// PriorityLevel orders the jobs of a queue.
type PriorityLevel = wire.Priority

// The priorities, first come first served within each.
const (
	Critical = wire.Critical
	High     = wire.High
	Normal   = wire.Normal
)

// Priority sets the priority; default Normal.
func Priority(p PriorityLevel) EnqueueOption {
	return func(s *JobSpec) { s.opts.Priority = string(p) }
}

// MaxRetries sets the total number of attempts, the first included; default 3, and 0
// means 1.
func MaxRetries(n int) EnqueueOption {
	return func(s *JobSpec) { s.opts.MaxRetries = new(int32(n)) }
}

// BackoffKind is the shape of the pauses between attempts.
type BackoffKind = wire.Backoff

// The shapes of a backoff.
const (
	BackoffNone        = wire.BackoffNone
	BackoffFixed       = wire.BackoffFixed
	BackoffLinear      = wire.BackoffLinear
	BackoffExponential = wire.BackoffExponential
)

// Backoff sets the pauses between attempts; the default is exponential from 5 s to
// 10 min. A zero base or limit keeps the default.
func Backoff(kind BackoffKind, base, limit time.Duration) EnqueueOption {
	return func(s *JobSpec) {
		s.opts.RetryBackoff = string(kind)
		if base > 0 {
			s.opts.RetryBaseDelayMs = new(base.Milliseconds())
		}
		if limit > 0 {
			s.opts.RetryMaxDelayMs = new(limit.Milliseconds())
		}
	}
}

// Tags adds searchable words to the job.
func Tags(tags map[string]string) EnqueueOption {
	return func(s *JobSpec) {
		if s.opts.Tags == nil {
			s.opts.Tags = make(map[string]string, len(tags))
		}
		maps.Copy(s.opts.Tags, tags)
	}
}

// IdempotencyKey makes repeated enqueues with the key one job for 24 hours. Without
// it every call has a key of its own, which covers the client's own retries only.
func IdempotencyKey(key string) EnqueueOption {
	return func(s *JobSpec) { s.opts.IdempotencyKey = key }
}

// Enqueue adds a job with typed arguments to the queue named after its kind. It
// returns when the job is on disk on a quorum.
func (c *Client) Enqueue(ctx context.Context, args Args, opts ...EnqueueOption) (*Enqueued, error) {
	return c.enqueue(ctx, NewJob(args, opts...))
}

// EnqueueRaw adds a job with ready JSON.
func (c *Client) EnqueueRaw(ctx context.Context, queue string, payload json.RawMessage, opts ...EnqueueOption) (*Enqueued, error) {
	return c.enqueue(ctx, RawJob(queue, payload, opts...))
}

func (c *Client) enqueue(ctx context.Context, spec *JobSpec) (*Enqueued, error) {
	msg, err := spec.message()
	if err != nil {
		return nil, err
	}
	reply, err := repeated(ctx, c, corvov1connect.WorkerServiceClient.Enqueue, msg)
	if err != nil {
		return nil, err
	}
	return enqueuedFromProto(reply), nil
}

// repeated makes a call that may be sent again, until it is answered or refused.
func repeated[Req, Res any](
	ctx context.Context, c *Client, call func(corvov1connect.WorkerServiceClient, context.Context, *connect.Request[Req]) (*connect.Response[Res], error), msg *Req,
) (reply *Res, err error) {
	err = c.retries.retry(ctx, true, func() error {
		tryCtx, cancel := context.WithTimeout(ctx, rpcTimeout)
		defer cancel()
		resp, err := call(c.unary(), tryCtx, connect.NewRequest(msg))
		if err != nil {
			if ce := new(connect.Error); errors.As(err, &ce) {
				c.tellQuota(ce.Meta())
			}
			c.noteTransport(err)
			return err
		}
		c.tellQuota(resp.Header())
		reply = resp.Msg
		return nil
	})
	return reply, err
}

// EnqueueBatch adds all jobs in one commit, or none. Results are in the order of
// jobs. The server's limit is 1000 jobs.
func (c *Client) EnqueueBatch(ctx context.Context, jobs []*JobSpec) ([]*Enqueued, error) {
	msg, err := batchMessage(jobs)
	if err != nil {
		return nil, err
	}
	reply, err := c.enqueueBatch(ctx, msg)
	if err != nil {
		return nil, err
	}
	return enqueuedList(reply), nil
}

func enqueuedList(reply *corvov1.EnqueueBatchResponse) []*Enqueued {
	out := make([]*Enqueued, len(reply.GetResults()))
	for i, r := range reply.GetResults() {
		out[i] = enqueuedFromProto(r)
	}
	return out
}

// message is the job as it goes out.
func (s *JobSpec) message() (*corvov1.EnqueueRequest, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.follow != nil {
		chain, err := s.chainMessage()
		if err != nil {
			return nil, err
		}
		s.opts.Chain = chain
	}
	return &corvov1.EnqueueRequest{Queue: s.queue, PayloadJson: string(s.payload), Agent: s.agent, Options: &s.opts}, nil
}

func enqueuedFromProto(r *corvov1.EnqueueResponse) *Enqueued {
	return &Enqueued{
		ID: r.GetJobId(), Status: EnqueueStatus(r.GetStatus()), Duplicate: r.GetUniqueExisting(), ChainID: r.GetChainId(), BatchID: r.GetBatchId(),
	}
}

package corvo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// Job is one attempt of a job, as its handler sees it.
type Job[A any] struct {
	ID    string
	Queue string
	Kind  string
	// Attempt counts from 1; MaxRetries is the total number of attempts.
	Attempt    int
	MaxRetries int
	Tags       map[string]string
	Args       A
	// BatchID and ChainID say what the job belongs to; empty if nothing. ChainStep
	// counts from 0; -1 is the chain's OnExit job, -2 its OnFailure job.
	BatchID, ChainID string
	ChainStep        int
	// Iteration of an agent job counts from 1; 0 if it is none.
	Iteration   int
	TraceParent string
	ExpireAt    time.Time // Zero: never.

	task *task // Nil in a Job that a test made by hand.
}

// Progress tells the server how far the attempt is. v travels as JSON with the next
// lease renewals; only the latest value counts, so it may be called often. The
// error is ErrLeaseLost or ErrCancelled once the attempt is no longer wanted.
func (j *Job[A]) Progress(_ context.Context, v any) error {
	raw, err := j.encode("progress", v, progressBytesMax)
	if err != nil || j.task == nil {
		return err
	}
	return j.task.worker.progress(j.task, raw)
}

// Checkpoint stores v, as JSON, for the next attempt of this job. It returns when
// the server has it, so what follows may rely on it.
func (j *Job[A]) Checkpoint(ctx context.Context, v any) error {
	raw, err := j.encode("checkpoint", v, checkpointBytesMax)
	if err != nil || j.task == nil {
		return err
	}
	return j.task.worker.checkpoint(ctx, j.task, raw)
}

// The protocol's limits. They are checked here because a server can only refuse the
// whole frame in which the leases of other jobs are renewed.
const (
	progressBytesMax   = 64 << 10
	checkpointBytesMax = 256 << 10
)

func (j *Job[A]) encode(what string, v any, limit int) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s of %s: %w", what, j.ID, err)
	}
	if err := checkJSON(what, raw, limit); err != nil {
		return nil, err
	}
	return raw, nil
}

// LoadCheckpoint reads into v what an earlier attempt, or this one, stored last;
// false if there is nothing.
func (j *Job[A]) LoadCheckpoint(v any) (bool, error) {
	if j.task == nil {
		return false, nil
	}
	raw := j.task.worker.lastCheckpoint(j.task)
	if len(raw) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return false, fmt.Errorf("decode checkpoint of %s: %w", j.ID, err)
	}
	return true, nil
}

// releaseError is the outcome "not now, not counted".
type releaseError struct{ reason string }

func (e *releaseError) Error() string { return "released: " + e.reason }

// Release is returned by a handler to give its job back without spending the
// attempt. The job is ready again at once, for any worker.
func Release(reason string) error { return &releaseError{reason: reason} }

// handler is a registered handler with its types erased.
type handler func(ctx context.Context, t *task) (result json.RawMessage, err error)

// Handle registers fn for the kind of A. The arguments are decoded from the job's
// payload. A returned value becomes the job's result; an error fails the attempt,
// and so does a panic, with its stack. It must be called before Run.
func Handle[A Args, R any](w *Worker, fn func(ctx context.Context, job *Job[A]) (R, error)) {
	w.register(zeroArgs[A]().Kind(), func(ctx context.Context, t *task) (json.RawMessage, error) {
		j := newJob[A](t)
		if err := json.Unmarshal(t.payload(), &j.Args); err != nil {
			return nil, fmt.Errorf("decode arguments of kind %q: %w", t.kind, err)
		}
		r, err := fn(ctx, j)
		if err != nil {
			return nil, err
		}
		return encodeResult(r)
	})
}

// AnyKind, given to HandleRaw, takes the jobs whose kind has no handler of its own.
const AnyKind = "*"

// HandleRaw registers fn for a kind, with payload and result as they stand on the
// wire. A nil result means {}.
func HandleRaw(w *Worker, kind string, fn func(ctx context.Context, job *Job[json.RawMessage]) (json.RawMessage, error)) {
	w.register(kind, func(ctx context.Context, t *task) (json.RawMessage, error) {
		j := newJob[json.RawMessage](t)
		j.Args = t.payload()
		r, err := fn(ctx, j)
		if err != nil {
			return nil, err
		}
		if len(r) > 0 && !json.Valid(r) {
			return nil, fmt.Errorf("the result of kind %q is not JSON", t.kind)
		}
		return r, nil
	})
}

func newJob[A any](t *task) *Job[A] {
	j := &Job[A]{
		ID: t.lease.GetJobId(), Queue: t.lease.GetQueue(), Kind: t.kind,
		Attempt: int(t.lease.GetAttempt()), MaxRetries: int(t.lease.GetMaxRetries()), Tags: t.tags, task: t,
		BatchID: t.lease.GetBatchId(), ChainID: t.lease.GetChainId(), ChainStep: int(t.lease.GetChainStep()),
		Iteration: int(t.lease.GetAgent().GetIteration()), TraceParent: t.lease.GetTraceparent(),
	}
	if t.lease.GetExpireAt() != nil {
		j.ExpireAt = t.lease.GetExpireAt().AsTime()
	}
	return j
}

func encodeResult(r any) (json.RawMessage, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	if string(raw) == "null" {
		return nil, nil
	}
	return raw, nil
}

// zeroArgs is a value of A on which Kind can be called, also if A is a pointer.
func zeroArgs[A Args]() A {
	var zero A
	if t := reflect.TypeFor[A](); t.Kind() == reflect.Pointer {
		if v, ok := reflect.New(t.Elem()).Interface().(A); ok {
			return v
		}
	}
	return zero
}

// outcome is what is to be told to the server about an attempt.
type outcome struct {
	kind      outcomeKind
	result    json.RawMessage
	message   string
	backtrace string
	panicked  bool
	terminal  bool                  // Of a failure.
	delay     *time.Duration        // Of a failure; nil: the backoff.
	ack       *corvov1.AckBatchItem // What else an ack says.
}

type outcomeKind uint8

const (
	outcomeNone outcomeKind = iota // Nobody set it; told as a failure, lest it pass for a success.
	outcomeAck
	outcomeFail
	outcomeRelease
)

// invoke runs the handler and turns whatever it does into an outcome.
func (t *task) invoke(h handler, out *outcome) {
	returned := false
	defer func() {
		if returned {
			return
		}
		reason := recover()
		message := fmt.Sprintf("panic: %v", reason)
		if reason == nil {
			message = "the handler ended its goroutine (runtime.Goexit)"
		}
		*out = outcome{kind: outcomeFail, message: message, backtrace: string(debug.Stack()), panicked: true}
	}()
	result, err := h(t.ctx, t)
	*out = t.outcomeOf(result, err) // Calls methods of the handler's error, which may panic too.
	returned = true
}

func (t *task) outcomeOf(result json.RawMessage, err error) outcome {
	if err == nil {
		return outcome{kind: outcomeAck, result: result}
	}
	if out, ok := requestedOutcome(err); ok {
		return out
	}
	var rel *releaseError
	if errors.As(err, &rel) {
		return outcome{kind: outcomeRelease, message: rel.reason}
	}
	// An error after the soft timeout is the shutdown's doing, or that of being cut off from
	// the server for longer than the lease; the job's next worker should have the attempt.
	switch cause := context.Cause(t.ctx); {
	case errors.Is(cause, ErrShutdown):
		return outcome{kind: outcomeRelease, message: "worker shutting down: " + err.Error()}
	case errors.Is(cause, ErrLeaseLost):
		return outcome{kind: outcomeRelease, message: "worker cut off: " + err.Error()}
	}
	return outcome{kind: outcomeFail, message: err.Error()}
}

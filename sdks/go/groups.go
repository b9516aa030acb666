package corvo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// ExpireAfter makes the job dead if it has not finished d after it was enqueued.
func ExpireAfter(d time.Duration) EnqueueOption {
	return func(s *JobSpec) { s.opts.ExpireAfterMs = new(d.Milliseconds()) }
}

// StartFrom is the checkpoint that the first attempt finds.
func StartFrom(checkpoint any) EnqueueOption {
	return func(s *JobSpec) {
		raw, err := json.Marshal(checkpoint)
		if err != nil {
			s.err = fmt.Errorf("encode checkpoint: %w", err)
		}
		s.opts.CheckpointJson = string(raw)
	}
}

// TraceParent hands a W3C trace context on to the worker.
func TraceParent(v string) EnqueueOption { return func(s *JobSpec) { s.opts.Traceparent = v } }

// Parent names the job that this one came out of, for people to see.
func Parent(id string) EnqueueOption { return func(s *JobSpec) { s.opts.ParentId = id } }

// DependencyPolicy says what becomes of a job when one that it depends on does not
// complete.
type DependencyPolicy = wire.DependencyPolicy

// The policies. A job that depends on several needs all of them.
const (
	DependencyFail   = wire.DependencyFail   // Dead; the default.
	DependencyRun    = wire.DependencyRun    // As if it had completed.
	DependencyCancel = wire.DependencyCancel // Cancelled.
)

// DependsOn lets the job run only when the jobs of ids have completed.
func DependsOn(policy DependencyPolicy, ids ...string) EnqueueOption {
	return func(s *JobSpec) {
		s.opts.DependsOn, s.opts.OnDependencyFailed = append(s.opts.DependsOn, ids...), string(policy)
	}
}

// Then makes the job the first step of a chain: each step is enqueued when the one
// before has completed, with that job's result as previous_result in its payload. Of
// the steps only queue and payload count; they inherit the first job's options.
func Then(steps ...*JobSpec) EnqueueOption {
	return func(s *JobSpec) { s.chain().steps = append(s.chain().steps, steps...) }
}

// OnFailure is enqueued when a step of the chain is dead.
func OnFailure(job *JobSpec) EnqueueOption { return func(s *JobSpec) { s.chain().onFailure = job } }

// OnExit is enqueued after the chain's last step, or when a worker returns ExitChain.
func OnExit(job *JobSpec) EnqueueOption { return func(s *JobSpec) { s.chain().onExit = job } }

// follow is what comes after a job.
type follow struct {
	steps             []*JobSpec
	onFailure, onExit *JobSpec
}

func (s *JobSpec) chain() *follow {
	s.follow = cmp.Or(s.follow, new(follow))
	return s.follow
}

// chainMessage is the chain with the job itself as its first step.
func (s *JobSpec) chainMessage() (*corvov1.Chain, error) {
	c := &corvov1.Chain{Steps: []*corvov1.ChainStep{{Queue: s.queue}}}
	for i, step := range s.follow.steps {
		if step.err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, step.err)
		}
		c.Steps = append(c.Steps, step.step())
	}
	for _, h := range []struct {
		job *JobSpec
		to  **corvov1.ChainStep
	}{{s.follow.onFailure, &c.OnFailure}, {s.follow.onExit, &c.OnExit}} {
		if h.job == nil {
			continue
		}
		if h.job.err != nil {
			return nil, h.job.err
		}
		*h.to = h.job.step()
	}
	return c, nil
}

func (s *JobSpec) step() *corvov1.ChainStep {
	return &corvov1.ChainStep{Queue: s.queue, PayloadJson: string(s.payload)}
}

// AgentLimits bound the loop of an agent job; zeros are no limit. A job that reaches
// one is held until somebody approves another iteration.
type AgentLimits struct {
	MaxIterations    int
	MaxCostUSD       float64
	IterationTimeout time.Duration
}

// Agent makes the job a loop: its handler returns Continue for another iteration.
func Agent(limits AgentLimits) EnqueueOption {
	return func(s *JobSpec) {
		s.agent = &corvov1.AgentConfig{MaxIterations: int32(limits.MaxIterations), MaxCostUsd: limits.MaxCostUSD}
		if limits.IterationTimeout > 0 {
			s.agent.IterationTimeout = limits.IterationTimeout.String()
		}
	}
}

// InBatch lets the job join an open batch.
func InBatch(id string) EnqueueOption { return func(s *JobSpec) { s.opts.BatchId = id } }

// Batch is jobs whose common end calls back.
type Batch struct {
	ID   string
	Jobs []*Enqueued
}

// EnqueueWithCallback adds all jobs as one batch, or none. When all of them have
// ended, however they ended, callback is enqueued once, with the counts in its payload:
// batch_id, total, completed, dead, cancelled, deleted. Of callback only queue and
// payload count.
func (c *Client) EnqueueWithCallback(ctx context.Context, callback *JobSpec, jobs []*JobSpec) (*Batch, error) {
	msg, err := batchMessage(jobs)
	if err != nil {
		return nil, err
	}
	if callback.err != nil {
		return nil, fmt.Errorf("callback: %w", callback.err)
	}
	msg.Batch = &corvov1.BatchOptions{CallbackQueue: callback.queue, CallbackPayloadJson: string(callback.payload)}
	reply, err := c.enqueueBatch(ctx, msg)
	if err != nil {
		return nil, err
	}
	return &Batch{ID: reply.GetBatchId(), Jobs: enqueuedList(reply)}, nil
}

func batchMessage(jobs []*JobSpec) (*corvov1.EnqueueBatchRequest, error) {
	msg := &corvov1.EnqueueBatchRequest{Jobs: make([]*corvov1.EnqueueRequest, len(jobs))}
	for i, spec := range jobs {
		job, err := spec.message()
		if err != nil {
			return nil, fmt.Errorf("jobs[%d]: %w", i, err)
		}
		msg.Jobs[i] = job
	}
	return msg, nil
}

func (c *Client) enqueueBatch(ctx context.Context, msg *corvov1.EnqueueBatchRequest) (*corvov1.EnqueueBatchResponse, error) {
	reply, err := repeated(ctx, c, corvov1connect.WorkerServiceClient.EnqueueBatch, msg)
	if err == nil && len(reply.GetResults()) != len(msg.GetJobs()) {
		err = &Error{Code: CodeInternal, Message: fmt.Sprintf("the server answered %d results for %d jobs", len(reply.GetResults()), len(msg.GetJobs()))}
	}
	return reply, err
}

// Hold stops a job until somebody approves or rejects it.
func (c *Client) Hold(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, nil, "jobs", id, "hold")
}

// Approve lets a held job run.
func (c *Client) Approve(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, nil, "jobs", id, "approve")
}

// Reject ends a held job: it is dead.
func (c *Client) Reject(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, nil, "jobs", id, "reject")
}

package messages

import (
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"

	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

// enqueueItem is what EnqueueRequest and LifecycleEnqueueItem have in common.
type enqueueItem interface {
	proto.Message
	GetQueue() string
	GetPayloadJson() string
	GetAgent() *corvov1.AgentConfig
	GetOptions() *corvov1.EnqueueOptions
}

// Enqueue reads one job; path is where it stands in the request. Members that the message does
// not have are refused.
func Enqueue(d *shape.Decoder, path string, m enqueueItem) queue.EnqueueInput {
	shape.RefuseUnknown(d, path, m)
	o := m.GetOptions()
	in := queue.EnqueueInput{
		Queue: m.GetQueue(), Payload: jsonText(d, shape.Join(path, "payload_json"), m.GetPayloadJson()),
		Priority: wire.Priority(o.GetPriority()), RetryBackoff: wire.Backoff(o.GetRetryBackoff()), Tags: o.GetTags(),
		UniqueKey: o.GetUniqueKey(), IdempotencyKey: o.GetIdempotencyKey(),
		TraceParent: o.GetTraceparent(), ParentID: o.GetParentId(), Agent: agentLimits(d, shape.Join(path, "agent"), m.GetAgent()),
	}
	if o == nil {
		return in
	}
	options := shape.Join(path, "options")
	shape.RefuseUnknown(d, options, o)
	in.DependsOn, in.OnDependencyFailed, in.BatchID = o.GetDependsOn(), wire.DependencyPolicy(o.GetOnDependencyFailed()), o.GetBatchId()
	in.Chain = chain(d, shape.Join(options, "chain"), o.GetChain())
	in.Checkpoint = jsonText(d, shape.Join(options, "checkpoint_json"), o.GetCheckpointJson())
	if o.MaxRetries != nil {
		n := int(o.GetMaxRetries())
		in.MaxRetries = &n
	}
	in.RetryBaseDelay = span(d, shape.Join(options, "retry_base_delay_ms"), o.RetryBaseDelayMs, time.Millisecond)
	in.RetryMaxDelay = span(d, shape.Join(options, "retry_max_delay_ms"), o.RetryMaxDelayMs, time.Millisecond)
	in.Delay = span(d, shape.Join(options, "delay_ms"), o.DelayMs, time.Millisecond)
	in.ExpireAfter = span(d, shape.Join(options, "expire_after_ms"), o.ExpireAfterMs, time.Millisecond)
	in.UniquePeriod = span(d, shape.Join(options, "unique_period"), o.UniquePeriod, time.Second)
	if o.GetScheduledAt() != nil {
		if err := o.GetScheduledAt().CheckValid(); err != nil {
			d.Problem(shape.Join(options, "scheduled_at"), "is not a time")
		}
		in.ScheduledAt = o.GetScheduledAt().AsTime()
	}
	return in
}

func chain(d *shape.Decoder, path string, m *corvov1.Chain) *queue.ChainInput {
	if m == nil {
		return nil
	}
	shape.RefuseUnknown(d, path, m)
	in := &queue.ChainInput{
		GoOn: m.GetContinueOnFailure(), OnFailure: step(d, shape.Join(path, "on_failure"), m.GetOnFailure()),
		OnExit: step(d, shape.Join(path, "on_exit"), m.GetOnExit()),
	}
	for i, s := range m.GetSteps() {
		if i == queue.ChainStepsMax+1 {
			break // One too many is enough to be refused.
		}
		in.Steps = append(in.Steps, *step(d, fmt.Sprintf("%s.steps[%d]", path, i), s))
	}
	return in
}

// Batch reads the options of a batch; nil is none.
func Batch(d *shape.Decoder, m *corvov1.BatchOptions) *wire.BatchOptions {
	if m == nil {
		return nil
	}
	shape.RefuseUnknown(d, "batch", m)
	return &wire.BatchOptions{
		CallbackQueue: m.GetCallbackQueue(), Open: m.GetOpen(),
		CallbackPayload: jsonText(d, "batch.callback_payload_json", m.GetCallbackPayloadJson()),
	}
}

func step(d *shape.Decoder, path string, m *corvov1.ChainStep) *wire.ChainStep {
	if m == nil {
		return nil
	}
	shape.RefuseUnknown(d, path, m)
	return &wire.ChainStep{Queue: m.GetQueue(), Payload: jsonText(d, shape.Join(path, "payload_json"), m.GetPayloadJson())}
}

func agentLimits(d *shape.Decoder, path string, m *corvov1.AgentConfig) *queue.AgentLimits {
	if m == nil {
		return nil
	}
	shape.RefuseUnknown(d, path, m)
	a := &queue.AgentLimits{MaxIterations: int(m.GetMaxIterations()), MaxCost: dollarsFrom(d, shape.Join(path, "max_cost_usd"), m.GetMaxCostUsd())}
	if text := m.GetIterationTimeout(); text != "" {
		span, msg := shape.ParseDuration(text)
		if msg != "" {
			d.Problem(shape.Join(path, "iteration_timeout"), "%s", msg)
		}
		a.IterationTimeout = span
	}
	return a
}

// EnqueueResponse is the answer to one job.
func EnqueueResponse(r *queue.EnqueueResult) *corvov1.EnqueueResponse {
	return &corvov1.EnqueueResponse{
		JobId: r.JobID, Status: string(r.Status), UniqueExisting: r.UniqueExisting, ChainId: r.ChainID, BatchId: r.BatchID,
	}
}

// EnqueueResponses are the answers to several.
func EnqueueResponses(rs []queue.EnqueueResult) []*corvov1.EnqueueResponse {
	out := make([]*corvov1.EnqueueResponse, len(rs))
	for i := range rs {
		out[i] = EnqueueResponse(&rs[i])
	}
	return out
}

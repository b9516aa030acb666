package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// enqueueItem is what EnqueueRequest and LifecycleEnqueueItem have in common.
type enqueueItem interface {
	proto.Message
	GetQueue() string
	GetPayloadJson() string
	GetAgent() *corvov1.AgentConfig
	GetOptions() *corvov1.EnqueueOptions
}

func enqueueFromProto(d *shape.Decoder, path string, m enqueueItem) queue.EnqueueInput {
	shape.RefuseUnknown(d, path, m)
	o := m.GetOptions()
	in := queue.EnqueueInput{
		Queue: m.GetQueue(), Payload: jsonFromProto(d, shape.Join(path, "payload_json"), m.GetPayloadJson()),
		Priority: wire.Priority(o.GetPriority()), RetryBackoff: wire.Backoff(o.GetRetryBackoff()), Tags: o.GetTags(),
		UniqueKey: o.GetUniqueKey(), IdempotencyKey: o.GetIdempotencyKey(),
		TraceParent: o.GetTraceparent(), ParentID: o.GetParentId(), Agent: agentFromProto(d, shape.Join(path, "agent"), m.GetAgent()),
	}
	if o == nil {
		return in
	}
	options := shape.Join(path, "options")
	shape.RefuseUnknown(d, options, o)
	in.DependsOn, in.OnDependencyFailed, in.BatchID = o.GetDependsOn(), wire.DependencyPolicy(o.GetOnDependencyFailed()), o.GetBatchId()
	in.Chain = chainFromProto(d, shape.Join(options, "chain"), o.GetChain())
	in.Checkpoint = jsonFromProto(d, shape.Join(options, "checkpoint_json"), o.GetCheckpointJson())
	if o.MaxRetries != nil {
		n := int(o.GetMaxRetries())
		in.MaxRetries = &n
	}
	in.RetryBaseDelay = spanFromProto(d, shape.Join(options, "retry_base_delay_ms"), o.RetryBaseDelayMs, time.Millisecond)
	in.RetryMaxDelay = spanFromProto(d, shape.Join(options, "retry_max_delay_ms"), o.RetryMaxDelayMs, time.Millisecond)
	in.Delay = spanFromProto(d, shape.Join(options, "delay_ms"), o.DelayMs, time.Millisecond)
	in.ExpireAfter = spanFromProto(d, shape.Join(options, "expire_after_ms"), o.ExpireAfterMs, time.Millisecond)
	in.UniquePeriod = spanFromProto(d, shape.Join(options, "unique_period"), o.UniquePeriod, time.Second)
	if o.GetScheduledAt() != nil {
		if err := o.GetScheduledAt().CheckValid(); err != nil {
			d.Problem(shape.Join(options, "scheduled_at"), "is not a time")
		}
		in.ScheduledAt = o.GetScheduledAt().AsTime()
	}
	return in
}

func chainFromProto(d *shape.Decoder, path string, m *corvov1.Chain) *queue.ChainInput {
	if m == nil {
		return nil
	}
	shape.RefuseUnknown(d, path, m)
	in := &queue.ChainInput{
		GoOn: m.GetContinueOnFailure(), OnFailure: stepFromProto(d, shape.Join(path, "on_failure"), m.GetOnFailure()),
		OnExit: stepFromProto(d, shape.Join(path, "on_exit"), m.GetOnExit()),
	}
	for i, s := range m.GetSteps() {
		if i == queue.ChainStepsMax+1 {
			break // One too many is enough to be refused.
		}
		in.Steps = append(in.Steps, *stepFromProto(d, fmt.Sprintf("%s.steps[%d]", path, i), s))
	}
	return in
}

func batchFromProto(d *shape.Decoder, m *corvov1.BatchOptions) *queue.BatchOptions {
	if m == nil {
		return nil
	}
	shape.RefuseUnknown(d, "batch", m)
	return &queue.BatchOptions{
		CallbackQueue: m.GetCallbackQueue(), Open: m.GetOpen(),
		CallbackPayload: jsonFromProto(d, "batch.callback_payload_json", m.GetCallbackPayloadJson()),
	}
}

func stepFromProto(d *shape.Decoder, path string, m *corvov1.ChainStep) *queue.StepInput {
	if m == nil {
		return nil
	}
	shape.RefuseUnknown(d, path, m)
	return &queue.StepInput{Queue: m.GetQueue(), Payload: jsonFromProto(d, shape.Join(path, "payload_json"), m.GetPayloadJson())}
}

// spanFromProto reads a number of units; what does not fit a Duration is refused,
// because wrapped around it would mean something else.
func spanFromProto(d *shape.Decoder, path string, n *int64, unit time.Duration) *time.Duration {
	if n == nil {
		return nil
	}
	if *n < 0 || *n > math.MaxInt64/int64(unit) {
		d.Problem(path, "is out of range")
		return nil
	}
	span := time.Duration(*n) * unit
	return &span
}

// millis keeps a wait in the range of a Duration; limits are checked later.
func millis(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(max(n, 0), most)) * time.Millisecond
}

// jsonFromProto checks a JSON text as strictly as a JSON body; empty is none.
func jsonFromProto(d *shape.Decoder, path, text string) json.RawMessage {
	if text == "" {
		return nil
	}
	raw := json.RawMessage(text)
	if err := shape.Check(raw); err != nil {
		d.Problem(path, "%s", err)
	}
	return raw
}

func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func enqueueToProto(r *queue.EnqueueResult) *corvov1.EnqueueResponse {
	return &corvov1.EnqueueResponse{
		JobId: r.JobID, Status: string(r.Status), UniqueExisting: r.UniqueExisting, ChainId: r.ChainID, BatchId: r.BatchID,
	}
}

func enqueuesToProto(rs []queue.EnqueueResult) []*corvov1.EnqueueResponse {
	out := make([]*corvov1.EnqueueResponse, len(rs))
	for i := range rs {
		out[i] = enqueueToProto(&rs[i])
	}
	return out
}

// optionNames are the members that stand under "options" in proto and at the top
// in JSON, with their proto spelling.
var optionNames = map[string]string{
	"priority": "priority", "max_retries": "max_retries", "retry_backoff": "retry_backoff",
	"retry_base_delay": "retry_base_delay_ms", "retry_max_delay": "retry_max_delay_ms",
	"scheduled_at": "scheduled_at", "delay": "delay_ms", "expire_after": "expire_after_ms", "tags": "tags", "unique_key": "unique_key",
	"unique_period": "unique_period", "idempotency_key": "idempotency_key", "traceparent": "traceparent",
	"parent_id": "parent_id", "checkpoint": "checkpoint_json",
	"chain": "chain", "depends_on": "depends_on", "on_dependency_failed": "on_dependency_failed", "batch_id": "batch_id",
}

// otherNames are members of a fetch or a fail whose proto spelling differs.
var otherNames = map[string]string{"wait": "wait_ms", "lease": "lease_duration", "delay": "delay_ms"}

var jsonNames = []string{"callback_payload", "payload", "checkpoint", "result", "progress"}

// protoPaths respells the fields of a refusal as they are called in proto.
func protoPaths(err error) error { return respell(err, protoPath) }

func respell(err error, spell func(string) string) error {
	f := fault.As(err)
	if f == nil || len(f.Fields) == 0 {
		return err
	}
	out := *f
	out.Fields = slices.Clone(f.Fields)
	for i := range out.Fields {
		out.Fields[i].Path = spell(out.Fields[i].Path)
	}
	return &out
}

// protoPath spells a path of a request or of an item in one of its lists.
func protoPath(path string) string { return protoPathOf(path, false) }

// enqueuePath spells a path of a single enqueue, whose members have no prefix that
// tells them from those of an ack.
func enqueuePath(path string) string { return protoPathOf(path, true) }

func protoPathOf(path string, enqueue bool) string {
	prefix, last := "", path
	if strings.HasPrefix(path, "batch.") || strings.HasPrefix(path, "jobs[") || strings.HasPrefix(path, "enqueues[") || strings.HasPrefix(path, "acks[") {
		if i := strings.IndexByte(path, '.'); i >= 0 {
			prefix, last = path[:i+1], path[i+1:]
		}
	}
	end := strings.IndexAny(last, ".[")
	if end < 0 {
		end = len(last)
	}
	name, rest := last[:end], last[end:]
	enqueue = enqueue || strings.HasPrefix(prefix, "jobs[") || strings.HasPrefix(prefix, "enqueues[")
	if p, ok := optionNames[name]; ok && enqueue {
		return prefix + "options." + p + rest
	}
	if p, ok := otherNames[name]; ok && prefix == "" {
		return p + rest
	}
	if slices.Contains(jsonNames, name) {
		return prefix + name + "_json" + rest
	}
	return path
}

func tagsToProto(tags map[string]string) string {
	if len(tags) == 0 {
		return ""
	}
	b, err := json.Marshal(tags)
	if err != nil {
		return "" // Strings always marshal.
	}
	return string(b)
}

func grantToProto(g *wire.FetchedJob) *corvov1.FetchBatchJob {
	return &corvov1.FetchBatchJob{
		JobId: g.JobID, Queue: g.Queue, PayloadJson: string(g.Payload),
		Attempt: int32(g.Attempt), MaxRetries: int32(g.MaxRetries), LeaseDuration: int32(g.LeaseDuration),
		CheckpointJson: string(g.Checkpoint), TagsJson: tagsToProto(g.Tags), LeaseToken: g.LeaseToken,
		Traceparent: g.TraceParent, ExpireAt: timeToProto(g.ExpireAt), Agent: agentToProto(g.Agent),
		BatchId: g.BatchID, ChainId: g.ChainID, ChainStep: chainStepToProto(g.ChainStep),
	}
}

func chainStepToProto(step *int) *int32 {
	if step == nil {
		return nil
	}
	return new(int32(*step))
}

func grantsToProto(grants []wire.FetchedJob) []*corvov1.FetchBatchJob {
	if len(grants) == 0 {
		return nil
	}
	out := make([]*corvov1.FetchBatchJob, len(grants))
	for i := range grants {
		out[i] = grantToProto(&grants[i])
	}
	return out
}

func foundToProto(g *wire.FetchedJob) *corvov1.FetchResponse {
	j := grantToProto(g)
	return &corvov1.FetchResponse{
		Found: true, JobId: j.GetJobId(), Queue: j.GetQueue(), PayloadJson: j.GetPayloadJson(),
		Attempt: j.GetAttempt(), MaxRetries: j.GetMaxRetries(), LeaseDuration: j.GetLeaseDuration(),
		CheckpointJson: j.GetCheckpointJson(), TagsJson: j.GetTagsJson(), LeaseToken: j.GetLeaseToken(),
		Traceparent: j.GetTraceparent(), ExpireAt: j.GetExpireAt(), Agent: j.GetAgent(),
		BatchId: j.GetBatchId(), ChainId: j.GetChainId(), ChainStep: j.ChainStep,
	}
}

// ackItem is what AckRequest and AckBatchItem have in common.
type ackItem interface {
	GetLeaseToken() string
	GetResultJson() string
	GetCheckpointJson() string
	GetUsage() *corvov1.UsageReport
	GetAgentStatus() string
	GetHoldReason() string
	GetStepStatus() string
	GetExitReason() string
}

func ackFromProto(d *shape.Decoder, id job.ID, m ackItem, workerID string) queue.AckInput {
	return queue.AckInput{
		JobID: id, Token: m.GetLeaseToken(), WorkerID: workerID,
		Result:     jsonFromProto(d, "result_json", m.GetResultJson()),
		Checkpoint: jsonFromProto(d, "checkpoint_json", m.GetCheckpointJson()),
		Usage:      usageFromProto(d, "usage", m.GetUsage()),

		AgentStatus: wire.AgentStatus(m.GetAgentStatus()), HoldReason: m.GetHoldReason(),
		StepStatus: wire.StepStatus(m.GetStepStatus()), ExitReason: m.GetExitReason(),
	}
}

// acksFromProto: an item that is wrong in itself gets its own outcome and does not
// stop the others.
func acksFromProto(list []*corvov1.AckBatchItem, workerID string) *items[queue.AckInput] {
	acks := newItems[queue.AckInput](len(list))
	for i, m := range list {
		id, ok := acks.id(i, m.GetJobId())
		if !ok {
			continue
		}
		var d shape.Decoder
		in := ackFromProto(&d, id, m, workerID)
		if err := d.Err(); err != nil {
			acks.errs[i] = err
			continue
		}
		acks.add(i, in)
	}
	return acks
}

func (c *call) outcomesToProto(list []*corvov1.AckBatchItem, errs []error) ([]*corvov1.ItemOutcome, int32) {
	out := make([]*corvov1.ItemOutcome, len(errs))
	var acked int32
	for i, err := range errs {
		out[i] = &corvov1.ItemOutcome{JobId: list[i].GetJobId()}
		if err == nil {
			acked++
			continue
		}
		out[i].Code, out[i].Error = c.wordAndText(err)
	}
	return out, acked
}

// wordAndText is an item's error as the wire shows it.
func (c *call) wordAndText(err error) (word, text string) {
	f := shown(c.r.Context(), c.s.log, protoPaths(err))
	return wordOf(f), f.Error()
}

func failsFromProto(list []*corvov1.LifecycleFailItem, workerID string) *items[queue.FailInput] {
	fails := newItems[queue.FailInput](len(list))
	for i, m := range list {
		id, ok := fails.id(i, m.GetJobId())
		if !ok {
			continue
		}
		var d shape.Decoder
		in := failFromProto(&d, id, m, m.DelayMs)
		in.WorkerID = workerID
		if err := d.Err(); err != nil {
			fails.errs[i] = err
			continue
		}
		fails.add(i, in)
	}
	return fails
}

// failItem is what FailRequest and LifecycleFailItem have in common.
type failItem interface {
	GetLeaseToken() string
	GetError() string
	GetBacktrace() string
	GetRelease() bool
	GetTerminal() bool
	GetUsage() *corvov1.UsageReport
}

func failFromProto(d *shape.Decoder, id job.ID, m failItem, delayMS *int64) queue.FailInput {
	return queue.FailInput{
		JobID: id, Token: m.GetLeaseToken(), Error: m.GetError(), Backtrace: m.GetBacktrace(),
		Release: m.GetRelease(), Terminal: m.GetTerminal(), Delay: spanFromProto(d, "delay_ms", delayMS, time.Millisecond),
		Usage: usageFromProto(d, "usage", m.GetUsage()),
	}
}

// heartbeats keeps the ids as they were sent beside the inputs.
type heartbeats struct {
	in    []queue.HeartbeatInput
	names []string                                 // names[i] is in[i]'s id as sent.
	lost  map[string]*corvov1.HeartbeatJobResponse // Of ids that can not exist.
	list  string                                   // How the message calls the heartbeats.
	wrong shape.Decoder                            // What of their news could not be read.
}

func heartbeatsFromProto(list string, m map[string]*corvov1.HeartbeatJobUpdate, workerID string, leaseSeconds int32) heartbeats {
	hb := heartbeats{list: list}
	for name, u := range m {
		id, err := job.ParseID(name)
		if err != nil {
			if hb.lost == nil {
				hb.lost = make(map[string]*corvov1.HeartbeatJobResponse)
			}
			word, _ := heartbeatWord(queue.HeartbeatLost, u.GetLeaseToken())
			hb.lost[name] = &corvov1.HeartbeatJobResponse{Status: word}
			continue
		}
		at := fmt.Sprintf("%s[%q]", hb.list, name)
		in := queue.HeartbeatInput{JobID: id, Token: u.GetLeaseToken(), WorkerID: workerID, Lease: time.Duration(leaseSeconds) * time.Second}
		var own shape.Decoder
		news := in
		news.Progress = jsonFromProto(&own, shape.Join(at, "progress_json"), u.GetProgressJson())
		news.Checkpoint = jsonFromProto(&own, shape.Join(at, "checkpoint_json"), u.GetCheckpointJson())
		news.Usage = usageFromProto(&own, shape.Join(at, "usage"), u.GetUsage())
		if len(own.Problems) == 0 {
			in = news // Else it has none, but the worker is alive.
		}
		hb.wrong.Also("", own.Problems, shape.AsIs)
		hb.in = append(hb.in, in)
		hb.names = append(hb.names, name)
	}
	return hb
}

// err joins err, of the use case, with what is wrong with the encoding.
func (hb *heartbeats) err(err error) error {
	return hb.wrong.AndAlso(err, func(path string) string {
		id, member, ok := strings.Cut(strings.TrimPrefix(path, "jobs."), ".")
		if !ok {
			return protoPath(path) // Of all jobs.
		}
		return fmt.Sprintf("%s[%q].%s", hb.list, id, protoPath(member))
	})
}

func (hb heartbeats) toProto(statuses []queue.HeartbeatStatus) map[string]*corvov1.HeartbeatJobResponse {
	if len(hb.in)+len(hb.lost) == 0 {
		return nil
	}
	out := make(map[string]*corvov1.HeartbeatJobResponse, len(hb.in)+len(hb.lost))
	maps.Copy(out, hb.lost)
	for i, st := range statuses {
		word, over := heartbeatWord(st, hb.in[i].Token)
		out[hb.names[i]] = &corvov1.HeartbeatJobResponse{Status: word, BudgetExceeded: over}
	}
	return out
}

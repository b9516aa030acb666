package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

// overRPC speaks unary RPC: Connect, or gRPC with the option for it.
type overRPC struct {
	http   *http.Client
	client corvov1connect.WorkerServiceClient
}

func newRPC(target Target, opts ...connect.ClientOption) *overRPC {
	c := target.http2()
	return &overRPC{http: c, client: corvov1connect.NewWorkerServiceClient(c, target.URL, opts...)}
}

// http2 is a client for HTTP/2 with and without TLS, as gRPC needs it.
func (t Target) http2() *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true)
	return &http.Client{Transport: identified{t, &http.Transport{Protocols: &protocols}}}
}

// identified adds the credential to every call.
type identified struct {
	target Target
	next   *http.Transport
}

func (i identified) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	i.target.identify(r.Header)
	return i.next.RoundTrip(r)
}

func (i identified) CloseIdleConnections() { i.next.CloseIdleConnections() }

func (c *overRPC) Close() { c.http.CloseIdleConnections() }

// metaCode is where a refusal has its stable word.
const metaCode = "Corvo-Error-Code"

func refusedOverRPC(err error) error {
	var ce *connect.Error
	if err == nil || !errors.As(err, &ce) || ce.Meta().Get(metaCode) == "" {
		return err
	}
	r := &Refusal{Code: ce.Meta().Get(metaCode), Text: ce.Message()}
	for _, d := range ce.Details() {
		v, err := d.Value()
		if err != nil {
			return fmt.Errorf("detail of %w: %w", ce, err)
		}
		if f, ok := v.(*corvov1.FieldViolation); ok {
			r.Fields = append(r.Fields, f.GetField())
		}
	}
	r.Fields = plainFields(r.Fields)
	return r
}

func optionsToProto(j *Job) *corvov1.EnqueueOptions {
	o := &corvov1.EnqueueOptions{
		Priority: j.Priority, RetryBackoff: j.Backoff, RetryBaseDelayMs: millis(j.BaseDelay), RetryMaxDelayMs: millis(j.MaxDelay),
		ExpireAfterMs: millis(j.ExpireAfter), Tags: j.Tags, UniqueKey: j.UniqueKey, IdempotencyKey: j.IdempotencyKey,
		CheckpointJson: string(j.Checkpoint), Traceparent: j.TraceParent, DependsOn: j.DependsOn, OnDependencyFailed: j.OnDependencyFailed,
		BatchId: j.BatchID, ParentId: j.ParentID,
	}
	if j.MaxRetries != nil {
		o.MaxRetries = new(int32(*j.MaxRetries))
	}
	if j.UniqueSeconds != nil {
		o.UniquePeriod = new(int64(*j.UniqueSeconds))
	}
	if j.Delay != nil {
		o.DelayMs = new(j.Delay.Milliseconds())
	}
	if !j.ScheduledAt.IsZero() {
		o.ScheduledAt = timestamppb.New(j.ScheduledAt)
	}
	if c := j.Chain; c != nil {
		o.Chain = &corvov1.Chain{OnFailure: stepToProto(c.OnFailure), OnExit: stepToProto(c.OnExit), ContinueOnFailure: c.GoOn}
		for i := range c.Steps {
			o.Chain.Steps = append(o.Chain.Steps, stepToProto(&c.Steps[i]))
		}
	}
	return o
}

func stepToProto(s *Step) *corvov1.ChainStep {
	if s == nil {
		return nil
	}
	return &corvov1.ChainStep{Queue: s.Queue, PayloadJson: string(s.Payload)}
}

func millis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.Milliseconds())
}

func agentToProto(a *Agent) *corvov1.AgentConfig {
	if a == nil {
		return nil
	}
	return &corvov1.AgentConfig{MaxIterations: int32(a.MaxIterations), MaxCostUsd: a.MaxCostUSD, IterationTimeout: a.IterationTimeout}
}

func jobToProto(j *Job) *corvov1.EnqueueRequest {
	return &corvov1.EnqueueRequest{Queue: j.Queue, PayloadJson: string(j.Payload), Agent: agentToProto(j.Agent), Options: optionsToProto(j)}
}

func usageToProto(u *Usage) *corvov1.UsageReport {
	if u == nil {
		return nil
	}
	return &corvov1.UsageReport{InputTokens: u.Input, OutputTokens: u.Output, CostUsd: u.CostUSD, Model: u.Model, Provider: u.Provider, Kind: u.Kind}
}

func enqueuedFromProto(m *corvov1.EnqueueResponse) Enqueued {
	return Enqueued{m.GetJobId(), m.GetStatus(), m.GetUniqueExisting(), m.GetChainId(), m.GetBatchId()}
}

// unary makes a call. The getters of the answer that it has not got are empty.
func unary[Req, Res any](ctx context.Context, call func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) (*Res, error) {
	res, err := call(ctx, connect.NewRequest(req))
	if err != nil {
		return nil, refusedOverRPC(err)
	}
	return res.Msg, nil
}

// Limits implements Client.
func (c *overRPC) Limits(ctx context.Context, to, from string) (Limits, error) {
	enqueued, err := c.client.Enqueue(ctx, connect.NewRequest(&corvov1.EnqueueRequest{Queue: to}))
	if err != nil {
		return Limits{}, refusedOverRPC(err)
	}
	fetched, err := c.client.Fetch(ctx, connect.NewRequest(&corvov1.FetchRequest{Queues: []string{from}, WaitMs: new(int64(0))}))
	if err != nil {
		return Limits{}, refusedOverRPC(err)
	}
	l := limitsFrom(enqueued.Header(), fetched.Header())
	if l.Held != fetched.Msg.GetHeld().GetLimit() {
		return Limits{}, fmt.Errorf("held by %q in the header and %q in the message", l.Held, fetched.Msg.GetHeld().GetLimit())
	}
	return l, nil
}

func (c *overRPC) Enqueue(ctx context.Context, j Job) (Enqueued, error) {
	m, err := unary(ctx, c.client.Enqueue, jobToProto(&j))
	return enqueuedFromProto(m), err
}

func (c *overRPC) EnqueueBatch(ctx context.Context, jobs []Job, b *Batch) (EnqueuedBatch, error) {
	in := &corvov1.EnqueueBatchRequest{}
	for i := range jobs {
		in.Jobs = append(in.Jobs, jobToProto(&jobs[i]))
	}
	if b != nil {
		in.Batch = &corvov1.BatchOptions{CallbackQueue: b.CallbackQueue, CallbackPayloadJson: string(b.CallbackPayload), Open: b.Open}
	}
	m, err := unary(ctx, c.client.EnqueueBatch, in)
	out := EnqueuedBatch{BatchID: m.GetBatchId()}
	for _, r := range m.GetResults() {
		out.Jobs = append(out.Jobs, enqueuedFromProto(r))
	}
	return out, err
}

// like fills a message with the fields of another that have the same names: what the
// protocol says twice differs in its numbers alone.
func like[M proto.Message](to M, from proto.Message) M {
	into := to.ProtoReflect()
	from.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if same := into.Descriptor().Fields().ByName(f.Name()); same != nil {
			into.Set(same, v)
		}
		return true
	})
	return to
}

func leaseFromProto(m *corvov1.FetchBatchJob) (Lease, error) {
	l := Lease{
		ID: m.GetJobId(), Queue: m.GetQueue(), Payload: JSON(m.GetPayloadJson()), Attempt: int(m.GetAttempt()), MaxRetries: int(m.GetMaxRetries()),
		Seconds: int(m.GetLeaseDuration()), Checkpoint: JSON(m.GetCheckpointJson()), Token: m.GetLeaseToken(), TraceParent: m.GetTraceparent(),
		BatchID: m.GetBatchId(), ChainID: m.GetChainId(),
	}
	if m.ChainStep != nil {
		l.ChainStep = new(int(*m.ChainStep))
	}
	if m.GetExpireAt() != nil {
		l.ExpireAt = m.GetExpireAt().AsTime()
	}
	if a := m.GetAgent(); a != nil {
		l.Agent = &Agent{int(a.GetMaxIterations()), a.GetMaxCostUsd(), a.GetIterationTimeout(), int(a.GetIteration()), a.GetTotalCostUsd()}
	}
	if m.GetTagsJson() == "" {
		return l, nil
	}
	if err := json.Unmarshal([]byte(m.GetTagsJson()), &l.Tags); err != nil {
		return l, fmt.Errorf("tags of %s: %w", l.ID, err)
	}
	return l, nil
}

func leasesFromProto(list []*corvov1.FetchBatchJob) ([]Lease, error) {
	var leases []Lease
	for _, m := range list {
		l, err := leaseFromProto(m)
		if err != nil {
			return nil, err
		}
		leases = append(leases, l)
	}
	return leases, nil
}

func (c *overRPC) Fetch(ctx context.Context, f Fetch) ([]Lease, error) {
	in := &corvov1.FetchRequest{
		Queues: f.Queues, WorkerId: f.Worker, Hostname: f.Hostname, LeaseDuration: int32(f.Lease / time.Second), WaitMs: new(f.Wait.Milliseconds()),
	}
	if f.Count > 1 {
		m, err := unary(ctx, c.client.FetchBatch, like(&corvov1.FetchBatchRequest{Count: int32(f.Count)}, in))
		if err != nil {
			return nil, err
		}
		return leasesFromProto(m.GetJobs())
	}
	m, err := unary(ctx, c.client.Fetch, in)
	if err != nil || !m.GetFound() {
		return nil, err
	}
	l, err := leaseFromProto(like(&corvov1.FetchBatchJob{}, m))
	return []Lease{l}, err
}

func (c *overRPC) Ack(ctx context.Context, a Ack) error {
	_, err := unary(ctx, c.client.Ack, like(&corvov1.AckRequest{WorkerId: a.Worker}, acksToProto([]Ack{a})[0]))
	return err
}

func acksToProto(acks []Ack) []*corvov1.AckBatchItem {
	var items []*corvov1.AckBatchItem
	for _, a := range acks {
		items = append(items, &corvov1.AckBatchItem{
			JobId: a.ID, LeaseToken: a.Token, ResultJson: string(a.Result), CheckpointJson: string(a.Checkpoint), Usage: usageToProto(a.Usage),
			AgentStatus: a.AgentStatus, HoldReason: a.HoldReason, StepStatus: a.StepStatus, ExitReason: a.ExitReason,
		})
	}
	return items
}

func outcomesFromProto(list []*corvov1.ItemOutcome) []error {
	errs := make([]error, len(list))
	for i, o := range list {
		errs[i] = itemError(o.GetCode(), o.GetError())
	}
	return errs
}

func (c *overRPC) AckBatch(ctx context.Context, worker string, acks []Ack) ([]error, error) {
	m, err := unary(ctx, c.client.AckBatch, &corvov1.AckBatchRequest{WorkerId: worker, Items: acksToProto(acks)})
	return outcomesFromProto(m.GetOutcomes()), err
}

func failToProto(f *Fail) *corvov1.FailRequest {
	return &corvov1.FailRequest{
		JobId: f.ID, LeaseToken: f.Token, WorkerId: f.Worker, Error: f.Error, Backtrace: f.Backtrace, Release: f.Release, Terminal: f.Terminal,
		DelayMs: millis(f.Delay), Usage: usageToProto(f.Usage),
	}
}

func failedFromProto(m *corvov1.FailResponse) Failed {
	f := Failed{Status: m.GetStatus(), Remaining: int(m.GetAttemptsRemaining())}
	if next := m.GetNextAttemptAt(); next != nil {
		f.NextAt = next.AsTime()
	}
	return f
}

func (c *overRPC) Fail(ctx context.Context, f Fail) (Failed, error) {
	m, err := unary(ctx, c.client.Fail, failToProto(&f))
	return failedFromProto(m), err
}

func updatesToProto(jobs map[string]JobUpdate) map[string]*corvov1.HeartbeatJobUpdate {
	out := make(map[string]*corvov1.HeartbeatJobUpdate, len(jobs))
	for id, n := range jobs {
		out[id] = &corvov1.HeartbeatJobUpdate{LeaseToken: n.Token, ProgressJson: string(n.Progress), CheckpointJson: string(n.Checkpoint), Usage: usageToProto(n.Usage)}
	}
	return out
}

func resultsFromProto(m map[string]*corvov1.HeartbeatJobResponse) map[string]HeartbeatResult {
	out := make(map[string]HeartbeatResult, len(m))
	for id, b := range m {
		out[id] = HeartbeatResult{b.GetStatus(), b.GetBudgetExceeded()}
	}
	return out
}

func (c *overRPC) Heartbeat(ctx context.Context, h Heartbeat) (map[string]HeartbeatResult, error) {
	m, err := unary(ctx, c.client.Heartbeat, &corvov1.HeartbeatRequest{
		WorkerId: h.Worker, LeaseDuration: int32(h.Lease / time.Second), Jobs: updatesToProto(h.Jobs),
	})
	return resultsFromProto(m.GetJobs()), err
}

package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

type workerClient = corvov1connect.WorkerServiceClient

// dialects are the ways generations of clients speak to the one port. Streams
// need HTTP/2.
var dialects = []struct {
	name    string
	http2   bool
	options []connect.ClientOption
}{
	{name: "connect proto on HTTP/1.1"},
	{name: "connect JSON on HTTP/1.1", options: []connect.ClientOption{connect.WithProtoJSON()}},
	{name: "connect proto on h2c", http2: true},
	{name: "connect JSON on h2c", http2: true, options: []connect.ClientOption{connect.WithProtoJSON()}},
	{name: "gRPC", http2: true, options: []connect.ClientOption{connect.WithGRPC()}},
	{name: "gRPC with gzip", http2: true, options: []connect.ClientOption{connect.WithGRPC(), connect.WithSendGzip()}},
	{name: "gRPC-Web on HTTP/1.1", options: []connect.ClientOption{connect.WithGRPCWeb()}},
}

func (b *bench) client(h2 bool, opts ...connect.ClientOption) workerClient {
	c := b.h1
	if h2 {
		c = b.h2
	}
	return corvov1connect.NewWorkerServiceClient(c, b.url, opts...)
}

func TestRPC_EveryMethodInEveryDialect(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			walkRPC(t, b.client(d.http2, d.options...))
		})
	}
}

func walkRPC(t *testing.T, c workerClient) {
	t.Helper()
	ctx := t.Context()
	enq := must(c.Enqueue(ctx, connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q", PayloadJson: `{"a":1}`})))(t)
	if enq.GetJobId() == "" || enq.GetStatus() != "pending" {
		t.Errorf("enqueue = %v", enq)
	}
	batch := must(c.EnqueueBatch(ctx, connect.NewRequest(&corvov1.EnqueueBatchRequest{Jobs: []*corvov1.EnqueueRequest{
		{Queue: "q"}, {Queue: "q", Options: &corvov1.EnqueueOptions{Tags: map[string]string{"k": "v"}, MaxRetries: proto.Int32(5)}},
	}})))(t)
	if len(batch.GetResults()) != 2 {
		t.Errorf("batch = %v", batch)
	}
	one := must(c.Fetch(ctx, connect.NewRequest(&corvov1.FetchRequest{Queues: []string{"q"}, WorkerId: "w", LeaseDuration: 30})))(t)
	if !one.GetFound() || one.GetPayloadJson() != `{"a":1}` || one.GetLeaseDuration() != 30 || one.GetLeaseToken() == "" {
		t.Errorf("fetch = %v", one)
	}
	rest := must(c.FetchBatch(ctx, connect.NewRequest(&corvov1.FetchBatchRequest{Queues: []string{"q"}, Count: 9, LeaseDuration: 30})))(t)
	if len(rest.GetJobs()) != 2 || rest.GetJobs()[1].GetTagsJson() != `{"k":"v"}` || rest.GetJobs()[0].GetPayloadJson() != "{}" {
		t.Errorf("fetch batch = %v", rest)
	}
	beat := must(c.Heartbeat(ctx, connect.NewRequest(&corvov1.HeartbeatRequest{Jobs: map[string]*corvov1.HeartbeatJobUpdate{
		one.GetJobId(): {ProgressJson: `7`}, jobNumber(9).String(): {}, "nonsense": {LeaseToken: "shown"},
	}})))(t)
	if beat.GetJobs()[one.GetJobId()].GetStatus() != "ok" || beat.GetJobs()["nonsense"].GetStatus() != "lost" || beat.GetJobs()[jobNumber(9).String()].GetStatus() != "cancel" || len(beat.GetJobs()) != 3 {
		t.Errorf("heartbeat = %v", beat)
	}
	must(c.Ack(ctx, connect.NewRequest(&corvov1.AckRequest{JobId: one.GetJobId(), LeaseToken: one.GetLeaseToken()})))(t)
	fail := must(c.Fail(ctx, connect.NewRequest(&corvov1.FailRequest{JobId: rest.GetJobs()[0].GetJobId(), Error: "x"})))(t)
	if fail.GetStatus() != "retrying" || fail.GetNextAttemptAt() == nil || fail.GetAttemptsRemaining() != 2 {
		t.Errorf("fail = %v", fail)
	}
	acked := must(c.AckBatch(ctx, connect.NewRequest(&corvov1.AckBatchRequest{Items: []*corvov1.AckBatchItem{
		{JobId: one.GetJobId()}, {JobId: rest.GetJobs()[1].GetJobId()}, {JobId: "nonsense"},
	}})))(t)
	if acked.GetAcked() != 1 || len(acked.GetOutcomes()) != 3 || acked.GetOutcomes()[0].GetCode() != "NOT_ACTIVE" ||
		acked.GetOutcomes()[1].GetCode() != "" || acked.GetOutcomes()[2].GetCode() != "NOT_FOUND" {
		t.Errorf("ack batch = %v", acked)
	}
	nothing := must(c.Fetch(ctx, connect.NewRequest(&corvov1.FetchRequest{Queues: []string{"q"}, WaitMs: proto.Int64(0)})))(t)
	if nothing.GetFound() {
		t.Errorf("fetch of nothing = %v", nothing)
	}
	info := must(c.GetServerInfo(ctx, connect.NewRequest(&corvov1.GetServerInfoRequest{})))(t)
	if info.GetServerVersion() != "1.2.3" || info.GetApiVersion() != APIVersion {
		t.Errorf("info = %v", info)
	}
}

func must[T any](resp *connect.Response[T], err error) func(*testing.T) *T {
	return func(t *testing.T) *T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return resp.Msg
	}
}

// What Python's grpcio and Rust's tonic do: another implementation of gRPC.
func TestRPC_ForeignGRPCClient(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	conn, err := grpc.NewClient(strings.TrimPrefix(b.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var enq corvov1.EnqueueResponse
	err = conn.Invoke(t.Context(), corvov1connect.WorkerServiceEnqueueProcedure, &corvov1.EnqueueRequest{Queue: "q"}, &enq)
	if err != nil || enq.GetJobId() == "" {
		t.Fatalf("enqueue: %v %v", &enq, err)
	}
	err = conn.Invoke(t.Context(), corvov1connect.WorkerServiceAckProcedure, &corvov1.AckRequest{JobId: "x"}, &corvov1.AckResponse{})
	if status.Code(err) != codes.NotFound {
		t.Errorf("ack of nothing: %v", err)
	}
	err = conn.Invoke(t.Context(), "/corvo.v1.WorkerService/Nothing", &corvov1.AckRequest{}, &corvov1.AckResponse{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("unknown method: %v", err)
	}

	desc := &grpc.StreamDesc{StreamName: "StreamLifecycle", ServerStreams: true, ClientStreams: true}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := conn.NewStream(ctx, desc, corvov1connect.WorkerServiceStreamLifecycleProcedure)
	if err != nil {
		t.Fatal(err)
	}
	// tonic waits for the headers before it sends its first frame.
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	var out corvov1.LifecycleStreamResponse
	if err := stream.SendMsg(&corvov1.LifecycleStreamRequest{RequestId: 5, Queues: []string{"q"}, FetchCount: 3}); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&out); err != nil || out.GetRequestId() != 5 || len(out.GetJobs()) != 1 {
		t.Fatalf("frame: %v %v", &out, err)
	}
}

func TestRPC_RefusalsCarryCodeWordAndFields(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			_, err := b.client(d.http2, d.options...).Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{
				Queue: "/", PayloadJson: `{"a":1,"a":2}`, Agent: &corvov1.AgentConfig{IterationTimeout: "soon"},
				Options: &corvov1.EnqueueOptions{RetryBaseDelayMs: proto.Int64(-1), RetryMaxDelayMs: proto.Int64(1 << 62)},
			}))
			want := []string{"payload_json", "agent.iteration_timeout", "options.retry_base_delay_ms", "options.retry_max_delay_ms", "queue"}
			checkViolations(t, err, want)
			_, err = b.client(d.http2, d.options...).EnqueueBatch(t.Context(), connect.NewRequest(&corvov1.EnqueueBatchRequest{
				Jobs: []*corvov1.EnqueueRequest{{Queue: "q"}, {Queue: "/", Options: &corvov1.EnqueueOptions{Priority: "urgent"}}},
			}))
			checkViolations(t, err, []string{"jobs[1].queue", "jobs[1].options.priority"})
			if calls := b.jobs.commands(); calls != 0 {
				t.Errorf("refused requests did %d things", calls)
			}
		})
	}
}

func checkViolations(t *testing.T, err error, want []string) {
	t.Helper()
	ce := new(connect.Error)
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !asConnect(err, &ce) {
		t.Fatalf("error = %v", err)
	}
	if ce.Meta().Get(metaCode) != "VALIDATION_ERROR" || ce.Meta().Get(headerRequestID) == "" {
		t.Errorf("metadata = %v", ce.Meta())
	}
	var got []string
	for _, d := range ce.Details() {
		v, verr := d.Value()
		if f, ok := v.(*corvov1.FieldViolation); ok && verr == nil {
			got = append(got, f.GetField())
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("violations %v, want %v", got, want)
	}
}

func TestRPC_ErrorTable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		code fault.Code
		want connect.Code
	}{
		{fault.Internal, connect.CodeInternal}, {fault.Invalid, connect.CodeInvalidArgument}, {fault.NotFound, connect.CodeNotFound},
		{fault.Conflict, connect.CodeFailedPrecondition}, {fault.Unauthorized, connect.CodeUnauthenticated},
		{fault.Forbidden, connect.CodePermissionDenied}, {fault.Exhausted, connect.CodeResourceExhausted},
		{fault.TooLarge, connect.CodeInvalidArgument}, {fault.NotLeader, connect.CodeUnavailable},
		{fault.Unavailable, connect.CodeUnavailable}, {fault.UnknownOutcome, connect.CodeUnavailable},
	} {
		err := rpcError(t.Context(), quiet(), fault.New(row.code, "", "x"))
		if connect.CodeOf(err) != row.want {
			t.Errorf("%v: %v, want %v", row.code, err, row.want)
		}
		if row.code == fault.Exhausted && !strings.Contains(err.Error(), "retry_after_ms=1000") {
			t.Errorf("overload says %q", err)
		}
	}
}

func TestRPC_FetchEndsBeforeTheClientsDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	resp, err := b.client(true).Fetch(ctx, connect.NewRequest(&corvov1.FetchRequest{Queues: []string{"q"}, LeaseDuration: 30}))
	if err != nil || resp.Msg.GetFound() {
		t.Fatalf("%v %v, want an empty answer before the deadline", resp, err)
	}
}

func TestRPC_TooLargeIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	_, err := b.client(true).Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{
		Queue: "q", PayloadJson: `"` + strings.Repeat("x", RequestBytesMax) + `"`,
	}))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("error = %v", err)
	}
	// A bomb: compressed it is small.
	bomb := b.client(true, connect.WithSendGzip())
	_, err = bomb.Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{
		Queue: "q", PayloadJson: `"` + strings.Repeat("x", 64<<20) + `"`,
	}))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("bomb: error = %v", err)
	}
}

func TestRPC_WrongMediaTypeAndMethod(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	path := corvov1connect.WorkerServiceEnqueueProcedure
	if a := b.post(path, "x", "Content-Type", "text/plain"); a.status != http.StatusUnsupportedMediaType {
		t.Errorf("text/plain: %d", a.status)
	}
	b.do("GET", path, "").want(t, 405)
}

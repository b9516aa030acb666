package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/messages"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// workers is corvo.v1.WorkerService. The route has authenticated the caller and
// found the leader before any method runs; both stand in the call of the context.
type workers struct{ s *Server }

var _ corvov1connect.WorkerServiceHandler = (*workers)(nil)

// workerService mounts all methods in every dialect. Requests may be compressed;
// answers are not: gzip halves the rate of job streams.
func (s *Server) workerService() http.Handler {
	_, h := corvov1connect.NewWorkerServiceHandler(&workers{s: s},
		connect.WithReadMaxBytes(RequestBytesMax),
		connect.WithCompressMinBytes(math.MaxInt),
		shape.Codecs(),
	)
	return h
}

// mountReflection lets generic gRPC tools list the service; it reveals nothing
// that is not published.
func (s *Server) mountReflection() {
	reflector := grpcreflect.NewStaticReflector(corvov1connect.WorkerServiceName)
	s.mux.Handle(grpcreflect.NewHandlerV1(reflector))
	s.mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector))
}

// serveRPC hands the call to connect. Unary calls get a time for the body and
// Server-Timing; a stream must keep the writer it came with.
func (c *call) serveRPC(workers http.Handler) {
	if c.route.stream {
		workers.ServeHTTP(c.w, c.r)
		return
	}
	if c.raw != nil { // It was carried elsewhere and came back.
		c.r.Body = io.NopCloser(bytes.NewReader(c.raw))
	}
	late := c.startBodyTimeout()
	defer late.Stop()
	c.r.Body = timedBody{ReadCloser: c.r.Body, late: late}
	if c.route.events {
		workers.ServeHTTP(c.w, c.r)
		return
	}
	workers.ServeHTTP(&timingWriter{ResponseWriter: c.w, c: c}, c.r)
}

// timingWriter adds Server-Timing to an answer.
type timingWriter struct {
	http.ResponseWriter
	c     *call
	wrote bool
}

func (t *timingWriter) WriteHeader(status int) {
	if !t.wrote {
		t.wrote = true
		stamp(t.c.r.Context(), t.Header())
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *timingWriter) Write(b []byte) (int, error) {
	if !t.wrote {
		t.WriteHeader(http.StatusOK)
	}
	return t.ResponseWriter.Write(b)
}

// Flush is asserted by connect, which does not know ResponseController.
func (t *timingWriter) Flush() {
	if !t.wrote {
		t.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(t.ResponseWriter).Flush() // The next write tells.
}

func (t *timingWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// answerRPC words a method's outcome.
func answerRPC[T any](ctx context.Context, s *Server, msg *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, rpcError(ctx, s.log, err)
	}
	return connect.NewResponse(msg), nil
}

func (h *workers) Enqueue(ctx context.Context, req *connect.Request[corvov1.EnqueueRequest]) (*connect.Response[corvov1.EnqueueResponse], error) {
	msg, err := h.enqueue(callOf(ctx), req)
	return answerRPC(ctx, h.s, msg, err)
}

func (h *workers) enqueue(c *call, req *connect.Request[corvov1.EnqueueRequest]) (*corvov1.EnqueueResponse, error) {
	var d shape.Decoder
	in := messages.Enqueue(&d, "", req.Msg)
	c.stampEnqueue(&d, "", &in, req.Header().Get(headerIdempotencyKey))
	if len(d.Problems) > 0 {
		d.Also("", in.Check(c.who.Caller, c.s.now()), messages.EnqueuePath)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	res, err := c.place.Local.Enqueue(c.r.Context(), c.who.Caller, in)
	c.sayQuota()
	if err != nil {
		return nil, messages.Respell(err, messages.EnqueuePath)
	}
	return messages.EnqueueResponse(&res), nil
}

func (h *workers) EnqueueBatch(ctx context.Context, req *connect.Request[corvov1.EnqueueBatchRequest]) (*connect.Response[corvov1.EnqueueBatchResponse], error) {
	msg, err := h.enqueueBatch(callOf(ctx), req)
	return answerRPC(ctx, h.s, msg, err)
}

func (h *workers) enqueueBatch(c *call, req *connect.Request[corvov1.EnqueueBatchRequest]) (*corvov1.EnqueueBatchResponse, error) {
	var d shape.Decoder
	if n := len(req.Msg.GetJobs()); n > queue.BatchMax {
		d.Problem("jobs", "has %d items; at most %d are allowed", n, queue.BatchMax)
		return nil, d.Err()
	}
	in := make([]queue.EnqueueInput, len(req.Msg.GetJobs()))
	for i, j := range req.Msg.GetJobs() {
		in[i] = messages.Enqueue(&d, fmt.Sprintf("jobs[%d]", i), j)
	}
	shape.RefuseUnknown(&d, "", req.Msg)
	options := messages.Batch(&d, req.Msg.GetBatch())
	c.stampAll(&d, in, req.Header().Get(headerIdempotencyKey), messages.Path)
	if err := d.Err(); err != nil {
		return nil, err
	}
	batch, results, err := c.enqueueAll(in, options)
	c.sayQuota()
	if err != nil {
		return nil, messages.Paths(err)
	}
	return &corvov1.EnqueueBatchResponse{Results: messages.EnqueueResponses(results), BatchId: batch}, nil
}

func (h *workers) Fetch(ctx context.Context, req *connect.Request[corvov1.FetchRequest]) (*connect.Response[corvov1.FetchResponse], error) {
	c, m := callOf(ctx), req.Msg
	in := fetchFromProto(m.GetQueues(), m.GetWorkerId(), m.GetHostname(), m.GetLeaseDuration(), m.WaitMs)
	in.Count = 1
	grants, err := c.rpcPoll(ctx, in)
	if len(grants) > 0 {
		return answerRPC(ctx, h.s, messages.Found(&grants[0]), err)
	}
	return answerRPC(ctx, h.s, &corvov1.FetchResponse{Held: c.held()}, err)
}

func (h *workers) FetchBatch(ctx context.Context, req *connect.Request[corvov1.FetchBatchRequest]) (*connect.Response[corvov1.FetchBatchResponse], error) {
	c, m := callOf(ctx), req.Msg
	in := fetchFromProto(m.GetQueues(), m.GetWorkerId(), m.GetHostname(), m.GetLeaseDuration(), m.WaitMs)
	in.Count = max(1, int(m.GetCount()))
	grants, err := c.rpcPoll(ctx, in)
	msg := &corvov1.FetchBatchResponse{Jobs: messages.Jobs(grants)}
	if len(grants) == 0 {
		msg.Held = c.held()
	}
	return answerRPC(ctx, h.s, msg, err)
}

// held is why a fetch found nothing, if dispatch is held.
func (c *call) held() *corvov1.DispatchHeld {
	return messages.Held(c.place.Local.DispatchHeld(c.who.Caller.Namespace))
}

// deadlineMargin is left of an RPC's deadline for the answer to travel.
const deadlineMargin = time.Second

// rpcPoll is longPoll under the RPC's own deadline: the wait ends before it does,
// so that the client reads an empty answer and not a timeout.
func (c *call) rpcPoll(ctx context.Context, in queue.FetchInput) ([]wire.FetchedJob, error) {
	if deadline, ok := ctx.Deadline(); ok {
		left := deadline.Sub(c.s.now())
		in.Wait = max(0, min(in.Wait, left-min(left/2, deadlineMargin)))
	}
	c.r = c.r.WithContext(ctx)
	return c.longPoll(in)
}

func (h *workers) Ack(ctx context.Context, req *connect.Request[corvov1.AckRequest]) (*connect.Response[corvov1.AckResponse], error) {
	err := h.ack(ctx, callOf(ctx), req.Msg)
	return answerRPC(ctx, h.s, &corvov1.AckResponse{}, err)
}

func (h *workers) ack(ctx context.Context, c *call, m *corvov1.AckRequest) error {
	var d shape.Decoder
	id, notID := job.ParseID(m.GetJobId())
	in := messages.Ack(&d, id, m, m.GetWorkerId())
	if err := d.Err(); err != nil {
		return err
	}
	if notID != nil {
		return shape.ErrNoJob()
	}
	errs, err := c.place.Local.Ack(ctx, c.who.Caller, []queue.AckInput{in})
	if err != nil {
		return messages.Paths(err)
	}
	return messages.Paths(errs[0])
}

func (h *workers) AckBatch(ctx context.Context, req *connect.Request[corvov1.AckBatchRequest]) (*connect.Response[corvov1.AckBatchResponse], error) {
	c := callOf(ctx)
	msg := &corvov1.AckBatchResponse{}
	var d shape.Decoder
	if n := len(req.Msg.GetItems()); n > queue.AckBatchMax {
		d.Problem("items", "has %d items; at most %d are allowed", n, queue.AckBatchMax)
		return answerRPC(ctx, h.s, msg, d.Err())
	}
	acks := messages.Acks(req.Msg.GetItems(), req.Msg.GetWorkerId())
	errs, err := c.place.Local.Ack(ctx, c.who.Caller, acks.In)
	if err == nil {
		acks.Settle(errs)
		msg.Outcomes, msg.Acked = messages.Outcomes(req.Msg.GetItems(), acks.Errs, c.wordAndText)
	}
	return answerRPC(ctx, h.s, msg, err)
}

func (h *workers) Fail(ctx context.Context, req *connect.Request[corvov1.FailRequest]) (*connect.Response[corvov1.FailResponse], error) {
	msg, err := h.fail(ctx, callOf(ctx), req.Msg)
	return answerRPC(ctx, h.s, msg, err)
}

func (h *workers) fail(ctx context.Context, c *call, m *corvov1.FailRequest) (*corvov1.FailResponse, error) {
	id, err := job.ParseID(m.GetJobId())
	if err != nil {
		return nil, shape.ErrNoJob()
	}
	var d shape.Decoder
	in := messages.Fail(&d, id, m, m.DelayMs)
	in.WorkerID = m.GetWorkerId()
	if err := d.Err(); err != nil {
		return nil, err
	}
	out, err := c.place.Local.Fail(ctx, c.who.Caller, []queue.FailInput{in})
	if err != nil {
		return nil, err
	}
	if out[0].Err != nil {
		return nil, messages.Paths(out[0].Err)
	}
	return &corvov1.FailResponse{
		Status: string(out[0].Status), NextAttemptAt: messages.Time(out[0].NextAttemptAt),
		AttemptsRemaining: int32(out[0].AttemptsRemaining),
	}, nil
}

func (h *workers) Heartbeat(ctx context.Context, req *connect.Request[corvov1.HeartbeatRequest]) (*connect.Response[corvov1.HeartbeatResponse], error) {
	msg, err := h.heartbeat(ctx, callOf(ctx), req.Msg)
	return answerRPC(ctx, h.s, msg, err)
}

func (h *workers) heartbeat(ctx context.Context, c *call, m *corvov1.HeartbeatRequest) (*corvov1.HeartbeatResponse, error) {
	if n := len(m.GetJobs()); n > queue.AckBatchMax {
		var d shape.Decoder
		d.Problem("jobs", "has %d members; at most %d are allowed", n, queue.AckBatchMax)
		return nil, d.Err()
	}
	hb := messages.ReadHeartbeats("jobs", m.GetJobs(), m.GetWorkerId(), m.GetLeaseDuration())
	statuses, err := c.place.Local.Heartbeat(ctx, c.who.Caller, hb.In)
	if err := hb.Err(err); err != nil {
		return nil, err
	}
	return &corvov1.HeartbeatResponse{Jobs: hb.Response(statuses)}, nil
}

func (h *workers) GetServerInfo(context.Context, *connect.Request[corvov1.GetServerInfoRequest]) (*connect.Response[corvov1.GetServerInfoResponse], error) {
	return connect.NewResponse(&corvov1.GetServerInfoResponse{
		ServerVersion: h.s.opts.Version, ApiVersion: APIVersion,
	}), nil
}

// fetchFromProto: without wait_ms the lease is the wait too, as old clients mean it.
func fetchFromProto(queues []string, workerID, hostname string, leaseSeconds int32, waitMS *int64) queue.FetchInput {
	in := queue.FetchInput{
		Queues: queues, WorkerID: workerID, Hostname: hostname,
		Lease: time.Duration(leaseSeconds) * time.Second,
	}
	switch {
	case waitMS != nil:
		in.Wait = messages.Millis(*waitMS)
	case leaseSeconds > 0:
		in.Wait = early(min(in.Lease, queue.WaitMax))
	default:
		in.Wait = early(queue.WaitDefault)
	}
	return in
}

package standin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

type service struct {
	corvov1connect.UnimplementedWorkerServiceHandler
	queue *Queue
}

func (s *service) enqueueOne(queue, payload string) string {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	r := &record{queue: queue, payload: payload}
	s.queue.add(r)
	return r.id
}

func (s *service) Enqueue(_ context.Context, r *connect.Request[corvov1.EnqueueRequest]) (*connect.Response[corvov1.EnqueueResponse], error) {
	return connect.NewResponse(&corvov1.EnqueueResponse{JobId: s.enqueueOne(r.Msg.GetQueue(), r.Msg.GetPayloadJson()), Status: "pending"}), nil
}

func (s *service) EnqueueBatch(_ context.Context, r *connect.Request[corvov1.EnqueueBatchRequest]) (*connect.Response[corvov1.EnqueueBatchResponse], error) {
	out := &corvov1.EnqueueBatchResponse{}
	for _, j := range r.Msg.GetJobs() {
		out.Results = append(out.Results, &corvov1.EnqueueResponse{JobId: s.enqueueOne(j.GetQueue(), j.GetPayloadJson()), Status: "pending"})
	}
	return connect.NewResponse(out), nil
}

func (s *service) grants(ctx context.Context, queues []string, n int, worker string, wait int64) []*corvov1.FetchBatchJob {
	var out []*corvov1.FetchBatchJob
	for _, r := range s.queue.fetch(queues, n, worker, time.Duration(wait)*time.Millisecond, ctx.Done()) {
		job := &corvov1.FetchBatchJob{JobId: r.id, Queue: r.queue, PayloadJson: r.payload, Attempt: int32(r.attempt),
			MaxRetries: int32(r.maxRetries), LeaseDuration: 60, LeaseToken: r.token}
		if r.tags != nil {
			tags, err := json.Marshal(r.tags)
			if err == nil {
				job.TagsJson = string(tags)
			}
		}
		out = append(out, job)
	}
	return out
}

func (s *service) Fetch(ctx context.Context, r *connect.Request[corvov1.FetchRequest]) (*connect.Response[corvov1.FetchResponse], error) {
	got := s.grants(ctx, r.Msg.GetQueues(), 1, r.Msg.GetWorkerId(), r.Msg.GetWaitMs())
	if len(got) == 0 {
		return connect.NewResponse(&corvov1.FetchResponse{}), nil
	}
	j := got[0]
	return connect.NewResponse(&corvov1.FetchResponse{Found: true, JobId: j.GetJobId(), Queue: j.GetQueue(), PayloadJson: j.GetPayloadJson(),
		Attempt: j.GetAttempt(), MaxRetries: j.GetMaxRetries(), LeaseDuration: 60, LeaseToken: j.GetLeaseToken()}), nil
}

func (s *service) FetchBatch(ctx context.Context, r *connect.Request[corvov1.FetchBatchRequest]) (*connect.Response[corvov1.FetchBatchResponse], error) {
	got := s.grants(ctx, r.Msg.GetQueues(), int(r.Msg.GetCount()), r.Msg.GetWorkerId(), r.Msg.GetWaitMs())
	return connect.NewResponse(&corvov1.FetchBatchResponse{Jobs: got}), nil
}

func (s *service) Ack(_ context.Context, r *connect.Request[corvov1.AckRequest]) (*connect.Response[corvov1.AckResponse], error) {
	if code := s.queue.ack(r.Msg.GetJobId(), r.Msg.GetLeaseToken(), r.Msg.GetResultJson()); code != "" {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New(code))
	}
	return connect.NewResponse(&corvov1.AckResponse{}), nil
}

func (s *service) AckBatch(_ context.Context, r *connect.Request[corvov1.AckBatchRequest]) (*connect.Response[corvov1.AckBatchResponse], error) {
	out := &corvov1.AckBatchResponse{Outcomes: s.acks(r.Msg.GetItems())}
	for _, o := range out.Outcomes {
		if o.GetCode() == "" {
			out.Acked++
		}
	}
	return connect.NewResponse(out), nil
}

func (s *service) acks(items []*corvov1.AckBatchItem) []*corvov1.ItemOutcome {
	var out []*corvov1.ItemOutcome
	for _, a := range items {
		out = append(out, &corvov1.ItemOutcome{JobId: a.GetJobId(), Code: s.queue.ack(a.GetJobId(), a.GetLeaseToken(), a.GetResultJson())})
	}
	return out
}

func (s *service) Fail(_ context.Context, r *connect.Request[corvov1.FailRequest]) (*connect.Response[corvov1.FailResponse], error) {
	job, code := s.queue.fail(r.Msg.GetJobId(), r.Msg.GetLeaseToken(), r.Msg.GetError(), r.Msg.GetRelease())
	if code != "" {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New(code))
	}
	return connect.NewResponse(&corvov1.FailResponse{Status: job.state}), nil
}

func (s *service) Heartbeat(_ context.Context, r *connect.Request[corvov1.HeartbeatRequest]) (*connect.Response[corvov1.HeartbeatResponse], error) {
	return connect.NewResponse(&corvov1.HeartbeatResponse{Jobs: s.heartbeats(r.Msg.GetJobs())}), nil
}

func (s *service) heartbeats(jobs map[string]*corvov1.HeartbeatJobUpdate) map[string]*corvov1.HeartbeatJobResponse {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	out := make(map[string]*corvov1.HeartbeatJobResponse, len(jobs))
	for id, u := range jobs {
		out[id] = &corvov1.HeartbeatJobResponse{Status: "ok"}
		if _, code := s.queue.holder(id, u.GetLeaseToken()); code != "" {
			out[id].Status = "lost"
		}
	}
	return out
}

// StreamLifecycle answers pipelined frames: at once, except a fetch that waits,
// which is answered when it has something.
func (s *service) StreamLifecycle(ctx context.Context, stream *connect.BidiStream[corvov1.LifecycleStreamRequest, corvov1.LifecycleStreamResponse]) error {
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.Mutex
	var parked sync.WaitGroup
	defer parked.Wait()
	defer cancel()
	parks := make(map[uint64]context.CancelFunc)
	send := func(r *corvov1.LifecycleStreamResponse) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(r)
	}
	for {
		frame, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, id := range frame.GetCancels() {
			if stop := parks[id]; stop != nil {
				stop()
			}
		}
		if s.moved() {
			return send(&corvov1.LifecycleStreamResponse{RequestId: frame.GetRequestId(), Error: "NOT_LEADER"})
		}
		reply := s.frame(frame)
		if frame.GetFetchCount() > 0 && frame.GetWaitMs() > 0 {
			parkedCtx, stop := context.WithCancel(ctx)
			parks[frame.GetRequestId()] = stop
			parked.Go(func() {
				defer stop()
				reply.Jobs = s.grants(parkedCtx, frame.GetQueues(), int(frame.GetFetchCount()), frame.GetWorkerId(), frame.GetWaitMs())
				_ = send(reply) // A stream that ended has nobody to tell.
			})
			continue
		}
		reply.Jobs = s.grants(ctx, frame.GetQueues(), int(frame.GetFetchCount()), frame.GetWorkerId(), 0)
		if err := send(reply); err != nil {
			return err
		}
	}
}

func (s *service) moved() bool {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.faults.Moves--
	return s.queue.faults.Moves >= 0
}

// frame does everything of a frame but the fetch.
func (s *service) frame(frame *corvov1.LifecycleStreamRequest) *corvov1.LifecycleStreamResponse {
	reply := &corvov1.LifecycleStreamResponse{RequestId: frame.GetRequestId(), AckOutcomes: s.acks(frame.GetAcks()), Heartbeats: s.heartbeats(frame.GetHeartbeats())}
	for _, o := range reply.AckOutcomes {
		if o.GetCode() == "" {
			reply.Acked++
		}
	}
	for _, f := range frame.GetFails() {
		o := &corvov1.LifecycleFailOutcome{JobId: f.GetJobId()}
		if job, code := s.queue.fail(f.GetJobId(), f.GetLeaseToken(), f.GetError(), f.GetRelease()); code != "" {
			o.Code = code
		} else {
			o.Status = job.state
		}
		reply.FailOutcomes = append(reply.FailOutcomes, o)
	}
	for _, e := range frame.GetEnqueues() {
		id := s.enqueueOne(e.GetQueue(), e.GetPayloadJson())
		reply.EnqueuedJobIds = append(reply.EnqueuedJobIds, id)
		reply.EnqueueResults = append(reply.EnqueueResults, &corvov1.EnqueueResponse{JobId: id, Status: "pending"})
	}
	return reply
}

package peertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// checkpointBytesMax is smaller than the real limit, so that the SDK's own check
// does not hide the server's.
const checkpointBytesMax = 64 << 10

var errCut = errors.New("cut")

// StreamLifecycle serves one stream, lock-step or pipelined.
func (s *Server) StreamLifecycle(ctx context.Context, conn *connect.BidiStream[request, response]) error {
	if s.opts.NoStreams {
		return connect.NewError(connect.CodeUnimplemented, errors.New("no streams here"))
	}
	if err := s.refusal(); err != nil {
		return err
	}
	if s.take(&s.faults.RefuseStreams) {
		return connect.NewError(connect.CodeUnavailable, errors.New("no leader"))
	}
	if s.take(&s.faults.CutStreams) {
		panic(errAbort)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st := &streamState{ctx: ctx, cancel: cancel, conn: conn, parked: make(map[uint64]context.CancelFunc)}
	if s.take(&s.faults.NotLeader) {
		st.send(&response{Error: "NOT_LEADER", LeaderAddr: "http://192.0.2.1:1"})
		return nil
	}
	s.mu.Lock()
	s.opened++
	s.streams[st] = struct{}{}
	s.touch()
	s.mu.Unlock()
	defer func() {
		st.close()
		s.mu.Lock()
		delete(s.streams, st)
		s.touch()
		s.mu.Unlock()
	}()
	failed := make(chan error, 1)
	go func() { failed <- s.receive(ctx, st) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		// Like a process that died: no trailers, and whatever was in flight is gone.
		panic(errAbort)
	}
}

func (s *Server) receive(ctx context.Context, st *streamState) error {
	for first := true; ; first = false {
		f, err := st.conn.Receive()
		if err != nil {
			return nil // The client is done, or gone.
		}
		s.mu.Lock()
		if first {
			st.piped = f.GetPipelined()
		}
		s.frames = append(s.frames, f)
		fetchCtx := ctx
		if st.piped && f.GetFetchCount() > 0 && f.GetWaitMs() > 0 {
			// Known before the next frame is read, which may take it back.
			var c context.CancelFunc
			fetchCtx, c = context.WithCancel(ctx)
			st.parked[f.GetRequestId()] = c
		}
		for _, id := range f.GetCancels() {
			if c := st.parked[id]; c != nil {
				c()
			}
		}
		s.touch()
		s.mu.Unlock()
		if !st.piped {
			if err := s.serve(ctx, fetchCtx, st, f); err != nil {
				return err
			}
			continue
		}
		go func() {
			if err := s.serve(ctx, fetchCtx, st, f); err != nil {
				st.cancel()
			}
		}()
	}
}

// serve answers one frame.
func (s *Server) serve(ctx, fetchCtx context.Context, st *streamState, f *request) error {
	reply := &response{RequestId: f.GetRequestId()}
	settles := len(f.GetAcks())+len(f.GetFails()) > 0
	if settles {
		if over, err := s.settleFrame(ctx, st, f, reply); over || err != nil {
			return err
		}
	} else {
		s.settlements(f, reply)
	}
	s.mu.Lock()
	split := s.faults.Split
	s.mu.Unlock()
	if split && settles && f.GetFetchCount() > 0 {
		st.send(reply)
		reply = &response{RequestId: f.GetRequestId()}
	}
	s.fetchFrame(fetchCtx, st, f, reply)
	st.send(reply)
	return nil
}

// settleFrame does the settlements of a frame, with all that can go wrong; over says
// that the frame is answered.
func (s *Server) settleFrame(ctx context.Context, st *streamState, f *request, reply *response) (over bool, err error) {
	s.settling(1)
	defer s.settling(-1) // Before the reply: after it the client may send the next.
	s.mu.Lock()
	hold := s.faults.HoldSettle
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return false, errCut
		}
	}
	switch {
	case s.take(&s.faults.Overload):
		reply.Error = "OVERLOADED: ack"
		st.send(reply)
		return true, nil
	case s.take(&s.faults.RefuseSettle):
		reply.Error = "ack: the shard has no leader"
		st.send(reply)
		return true, nil
	case s.take(&s.faults.CutBefore):
		return false, errCut
	}
	s.settlements(f, reply)
	if s.take(&s.faults.CutAfter) {
		return false, errCut
	}
	return false, nil
}

func (s *Server) settling(d int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inSettle += d
	s.maxInSettle = max(s.maxInSettle, s.inSettle)
}

func (s *Server) settlements(f *request, reply *response) {
	for _, a := range f.GetAcks() {
		o := s.ack(a)
		if o.GetCode() == "" {
			reply.Acked++
		}
		reply.AckOutcomes = append(reply.AckOutcomes, o)
	}
	for _, x := range f.GetFails() {
		reply.FailOutcomes = append(reply.FailOutcomes, s.fail(x))
	}
	for id, u := range f.GetHeartbeats() {
		if reply.Heartbeats == nil {
			reply.Heartbeats = make(map[string]*corvov1.HeartbeatJobResponse)
		}
		if len(u.GetCheckpointJson()) > checkpointBytesMax {
			// The news are refused, but the worker is alive: its lease is renewed.
			reply.Error = "heartbeat: the request has invalid fields"
			reply.Violations = append(reply.Violations, &corvov1.FieldViolation{Field: fmt.Sprintf("heartbeats[%q].checkpoint_json", id), Message: "too long"})
			u = &corvov1.HeartbeatJobUpdate{LeaseToken: u.GetLeaseToken()}
		}
		reply.Heartbeats[id] = s.beat(id, u)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range f.GetEnqueues() {
		r := s.enqueue(e.GetQueue(), e.GetPayloadJson(), e.GetOptions())
		reply.EnqueuedJobIds = append(reply.EnqueuedJobIds, r.GetJobId())
		reply.EnqueueResults = append(reply.EnqueueResults, r)
	}
}

func (s *Server) fetchFrame(ctx context.Context, st *streamState, f *request, reply *response) {
	if f.GetFetchCount() == 0 {
		return
	}
	if s.take(&s.faults.RefuseFetch) {
		reply.Error, reply.Code, reply.RetryAfterMs = "OVERLOADED: fetch: too many", "RATE_LIMITED", 1000
		return
	}
	wait := time.Duration(f.GetWaitMs()) * time.Millisecond
	if !st.piped {
		wait = 0
	}
	s.mu.Lock()
	if st.drained {
		wait = 0
	}
	s.mu.Unlock()
	for _, q := range f.GetQueues() {
		if q[0] == '-' {
			reply.Error = "fetch: the request has invalid fields; queues[0]: is not a queue name"
			reply.Violations = []*corvov1.FieldViolation{{Field: "queues[0]", Message: "is not a queue name"}}
			return
		}
	}
	reply.Jobs = s.waitJobs(ctx, f.GetQueues(), f.GetWorkerId(), f.GetLeaseDuration(), int(f.GetFetchCount()), wait)
	if len(reply.Jobs) == 0 {
		reply.Held = s.held()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := st.parked[f.GetRequestId()]; c != nil {
		c()
		delete(st.parked, f.GetRequestId())
	}
}

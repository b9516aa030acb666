package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/streams"
)

// Subscribe tells the events of GET /api/v1/events to clients that speak RPC. The
// route has counted the stream.
func (h *workers) Subscribe(ctx context.Context, req *connect.Request[corvov1.SubscribeRequest], to *connect.ServerStream[corvov1.SubscribeEvent]) error {
	c, m := callOf(ctx), req.Msg
	c.r = c.r.WithContext(ctx)
	in := queue.EventFilter{Queues: m.GetQueues(), JobIDs: m.GetJobIds(), Types: m.GetTypes()}
	if m.GetLastEventId() > 0 {
		in.After = &m.LastEventId
	}
	reader, err := c.s.events(c.place.Views, c.who.Caller, in)
	if err != nil {
		return rpcError(ctx, h.s.log, err)
	}
	defer reader.Close()
	s := newSubscriber(c.w, to)
	defer s.slow.Stop()
	if err := to.Send(nil); err != nil { // The client sees that it is connected.
		return err
	}
	err = c.follow(reader, s, in)
	if reason := whyEnded(ctx, err); reason != nil {
		return rpcError(ctx, h.s.log, reason)
	}
	return err
}

// subscriber is a listener at an RPC.
type subscriber struct {
	to   *connect.ServerStream[corvov1.SubscribeEvent]
	slow *streams.Timeout // Runs while the client is waited for.
	last time.Time
}

func newSubscriber(w http.ResponseWriter, to *connect.ServerStream[corvov1.SubscribeEvent]) *subscriber {
	rc := http.NewResponseController(w)
	return &subscriber{to: to, slow: streams.NewTimeout(func() { streams.CutWrites(rc) }), last: time.Now()}
}

func (s *subscriber) tell(e *wire.Event) error {
	out := &corvov1.SubscribeEvent{Seq: e.Seq, Type: string(e.Type), JobId: e.JobID, Queue: e.Queue, AtNs: uint64(e.AtNS)}
	if e.Data != nil {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return fmt.Errorf("encode event %d: %w", e.Seq, err)
		}
		out.DataJson = string(data)
	}
	return s.send(out)
}

// alive sends an event without a number, which clients pass over.
func (s *subscriber) alive(place uint64) error {
	return s.send(&corvov1.SubscribeEvent{LastEventId: place})
}

func (s *subscriber) heard() time.Time { return s.last }

func (s *subscriber) send(e *corvov1.SubscribeEvent) error {
	s.slow.Start(slowReader)
	defer s.slow.Stop()
	if err := s.to.Send(e); err != nil {
		return err
	}
	s.last = time.Now()
	return nil
}

package server

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

type subscription = connect.ServerStreamForClient[corvov1.SubscribeEvent]

// subscribe opens a subscription that ends with the test.
func (b *bench) subscribe(c workerClient, m *corvov1.SubscribeRequest, header ...string) *subscription {
	b.Helper()
	req := connect.NewRequest(m)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header().Set(header[i], header[i+1])
	}
	s, err := c.Subscribe(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func heard(t *testing.T, s *subscription) *corvov1.SubscribeEvent {
	t.Helper()
	if !s.Receive() {
		t.Fatalf("the subscription ended: %v", s.Err())
	}
	return s.Msg()
}

// begins hears what a stream that begins now says first: where to resume.
func begins(t *testing.T, s *subscription) {
	t.Helper()
	if e := heard(t, s); e.GetSeq() != 0 || e.GetLastEventId() != 40 {
		t.Errorf("it begins with %v", e)
	}
}

func TestSubscribe_TellsWhatServerSentEventsTellInEveryDialect(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newScripted()
			b := newBench(t, benchOptions{router: newRouter(Placement{Local: here}), events: s})
			id := jobNumber(1)
			at := time.Unix(0, 1_700_000_000_000_000_001)
			s.next <- told{events: []wire.Event{
				{Seq: 8, Type: "started", AtNS: at.UnixNano(), JobID: id.String(), Queue: "a", Data: &wire.EventData{State: "active", From: "pending", Attempt: 2}},
				{Seq: 9, Type: "queue.paused", AtNS: at.UnixNano(), Queue: "a"},
			}}
			sub := b.subscribe(b.client(d.http2, d.options...), &corvov1.SubscribeRequest{
				Queues: []string{"a", "b"}, Types: []string{"started"}, JobIds: []string{id.String()}, LastEventId: 7,
			})
			e := heard(t, sub)
			if e.GetSeq() != 8 || e.GetType() != "started" || e.GetJobId() != id.String() || e.GetQueue() != "a" ||
				e.GetAtNs() != uint64(at.UnixNano()) || e.GetDataJson() != `{"state":"active","from":"pending","attempt":2}` {
				t.Errorf("heard %v", e)
			}
			if e := heard(t, sub); e.GetSeq() != 9 || e.GetJobId() != "" || e.GetDataJson() != "" {
				t.Errorf("heard %v", e)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if in := s.in; strings.Join(in.Queues, " ") != "a b" || len(in.Types) != 1 || len(in.JobIDs) != 1 || in.After == nil || *in.After != 7 {
				t.Errorf("asked for %+v", in)
			}
		})
	}
}

func TestSubscribe_BeginsNowTellsGapsAndWhyItEnds(t *testing.T) {
	t.Parallel()
	s := newScripted()
	b := newBench(t, benchOptions{router: newRouter(Placement{Local: here}), events: s})
	s.next <- told{err: queue.ErrEventsLost}
	s.next <- told{events: []wire.Event{{Seq: 41, Type: "dead"}}}
	s.next <- told{err: fault.New(fault.NotLeader, "", "moved")}
	sub := b.subscribe(b.client(true), &corvov1.SubscribeRequest{})
	begins(t, sub)
	if e := heard(t, sub); e.GetSeq() != 40 || e.GetType() != "gap" || !strings.Contains(e.GetDataJson(), "no longer kept") {
		t.Errorf("heard %v", e)
	}
	if e := heard(t, sub); e.GetSeq() != 41 {
		t.Errorf("heard %v", e)
	}
	if sub.Receive() || connect.CodeOf(sub.Err()) != connect.CodeUnavailable || !strings.Contains(sub.Err().Error(), "another node serves") {
		t.Errorf("ended with %v", sub.Err())
	}
	eventually.True(t, patience, "its reader is gone", func() bool { return s.readers() == 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in.After != nil {
		t.Errorf("began behind %d", *s.in.After)
	}
}

func TestSubscribe_SilenceIsAnEventWithoutANumber(t *testing.T) {
	t.Parallel()
	if keepaliveEvery != 15*time.Second {
		t.Errorf("kept alive every %s, the contract says 15 s", keepaliveEvery)
	}
	s := newScripted()
	b := newBench(t, benchOptions{Options: Options{KeepaliveEvery: time.Millisecond}, router: newRouter(Placement{Local: here}), events: s})
	sub := b.subscribe(b.client(true), &corvov1.SubscribeRequest{})
	for i, place := range []uint64{40, 0, 0} {
		e := heard(t, sub)
		if e.GetSeq() != 0 || e.GetType() != "" || e.GetAtNs() != 0 {
			t.Errorf("heard %v", e)
		}
		if e.GetLastEventId() != place {
			t.Errorf("keepalive %d says to resume after %d, want %d", i, e.GetLastEventId(), place)
		}
	}
}

func TestSubscribe_IsCountedAndDrainedLikeOtherStreams(t *testing.T) {
	t.Parallel()
	s := newScripted()
	b := newBench(t, benchOptions{Options: Options{StreamsMax: 2}, router: newRouter(Placement{Local: here}), events: s})
	first, _ := b.subscribe(b.client(true), &corvov1.SubscribeRequest{}), b.listen("/api/v1/events")
	eventually.True(t, patience, "two are open", func() bool { return s.readers() == 2 })
	third := b.subscribe(b.client(true), &corvov1.SubscribeRequest{})
	if third.Receive() || connect.CodeOf(third.Err()) != connect.CodeResourceExhausted {
		t.Errorf("the third: %v", third.Err())
	}
	b.drains()
	begins(t, first)
	if first.Receive() || connect.CodeOf(first.Err()) != connect.CodeUnavailable || !strings.Contains(first.Err().Error(), "shutting down") {
		t.Errorf("ended with %v", first.Err())
	}
	late := b.subscribe(b.client(true), &corvov1.SubscribeRequest{})
	if late.Receive() || connect.CodeOf(late.Err()) != connect.CodeUnavailable {
		t.Errorf("after the drain: %v", late.Err())
	}
}

func TestSubscribe_IsCarriedToTheLeader(t *testing.T) {
	t.Parallel()
	leader, follower := pair(t)
	s := newScripted()
	leader.router.set(Placement{Local: here})
	leader.srv.events = s.open
	header := headersFor(t, signed(nsA, "viewer"), corvov1connect.WorkerServiceSubscribeProcedure)
	s.next <- told{events: []wire.Event{{Seq: 1, Type: "started"}}}
	sub := follower.subscribe(follower.client(true), &corvov1.SubscribeRequest{}, header...)
	begins(t, sub)
	if e := heard(t, sub); e.GetSeq() != 1 {
		t.Errorf("heard %v", e)
	}
	s.mu.Lock()
	if s.caller.Namespace != nsA {
		t.Errorf("asked for %s", s.caller.Namespace)
	}
	s.mu.Unlock()
	follower.drains()
	if sub.Receive() {
		t.Errorf("heard %v after the drain", sub.Msg())
	}
	eventually.True(t, patience, "the leader's reader is gone", func() bool { return s.readers() == 0 })
}

package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/nap"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

var stepNS = job.Namespace{9}

// stepper is a term whose loop the test runs by hand, entry by entry, over real
// raft and real stores: what shares an entry is the test's decision, not luck.
type stepper struct {
	*term
	tb     testing.TB
	group  *group.Group
	stores *grouptest.Stores
	jobs   uint64
}

func step(tb testing.TB, o Options) *stepper {
	tb.Helper()
	return stepBy(tb, o, nil)
}

// stepBy is step with a clock of the test.
func stepBy(tb testing.TB, o Options, clock group.Clock) *stepper {
	tb.Helper()
	return stepOver(tb, o, grouptest.Setup{Group: group.Options{Clock: clock}})
}

// stepOver is step over a replica that the test asks for.
func stepOver(tb testing.TB, o Options, setup grouptest.Setup) *stepper {
	tb.Helper()
	stores := grouptest.Open(tb, grouptest.InMemory())
	setup.Group.Alone = true
	g := stores.Replica(tb, testShardID, setup)
	g.Lead(func(ctx context.Context, ready func()) {
		ready()
		<-ctx.Done()
	})
	tb.Cleanup(func() {
		if err := errors.Join(g.Shutdown(), stores.Close()); err != nil {
			tb.Error(err)
		}
	})
	eventually.True(tb, patience, "the group leads", g.Leading)
	o.Logger = slog.New(slog.DiscardHandler)
	o.Fatal = func(err error) { panic(err) }
	s := &stepper{tb: tb, group: g.Group, stores: stores}
	o.Nap = nap.Sleep
	s.term = newTerm(&Shard{group: g.Group, store: g.Store, opts: o, logger: o.Logger})
	s.due.reset()
	s.leases.reset()
	return s
}

// nextTerm begins another term of leadership over the same state.
func (s *stepper) nextTerm() {
	s.term = newTerm(s.shard)
	s.due.reset()
	s.leases.reset()
}

// submit puts a request where the next step finds it.
func (s *stepper) submit(r Request) *request {
	q := newRequest(r)
	if !s.inbox.put(q) {
		s.tb.Fatalf("no room in the inbox: %d requests, %d bytes", s.inbox.requests.Used(), s.inbox.bytes.Used())
	}
	return q
}

// step runs one entry over everything submitted.
func (s *stepper) step() {
	s.tb.Helper()
	if !s.round(s.inbox.take()) {
		s.tb.Fatal("the term ended")
	}
}

// do is submit, one step, and the answer.
func (s *stepper) do(r Request) Reply {
	s.tb.Helper()
	q := s.submit(r)
	s.step()
	return s.answered(q)
}

func (s *stepper) answered(q *request) Reply {
	s.tb.Helper()
	select {
	case rep := <-q.done:
		if rep.Err != nil {
			s.tb.Fatal(rep.Err)
		}
		return rep
	default:
		s.tb.Fatal("not answered")
		return Reply{}
	}
}

func (s *stepper) waiting(q *request) {
	s.tb.Helper()
	select {
	case rep := <-q.done:
		s.tb.Fatalf("answered with %+v, should wait", rep)
	default:
	}
}

// newJob is the command for a new job of queue "q".
func (s *stepper) newJob() *command.Enqueue {
	s.jobs++
	c := &command.Enqueue{NS: stepNS, Queue: "q", Payload: []byte(`{}`), Priority: job.Normal, Retry: command.DefaultRetry()}
	binary.BigEndian.PutUint64(c.ID[:], s.jobs)
	return c
}

func (s *stepper) enqueue() job.ID {
	s.tb.Helper()
	c := s.newJob()
	s.do(Request{After: []command.Command{c}})
	return c.ID
}

func fetchReq(count int, lease time.Duration, wait bool) Request {
	return Request{Fetch: &Fetch{NS: stepNS, Queues: []string{"q"}, Count: count, Worker: "w", Lease: lease, Wait: wait}}
}

// fetch takes one ready job.
func (s *stepper) fetch(lease time.Duration) state.Grant {
	s.tb.Helper()
	rep := s.do(fetchReq(1, lease, false))
	if len(rep.Grants) != 1 {
		s.tb.Fatalf("%d grants, want 1", len(rep.Grants))
	}
	return rep.Grants[0]
}

func (s *stepper) head(id job.ID) records.Head {
	s.tb.Helper()
	h, err := stateread.ReadHead(s.shard.store, stepNS, id)
	if err != nil {
		s.tb.Fatal(err)
	}
	return h
}

func holder(g state.Grant) command.Holder {
	return command.Holder{Token: command.Token{Attempt: g.Attempt, Epoch: g.Epoch}}
}

func settle(c ...command.Command) Request { return Request{Settle: c} }

func renew(g state.Grant) Request {
	return Request{Renew: []Renewal{{NS: stepNS, ID: g.ID, By: holder(g)}}}
}

// until steps until the time has come.
func (s *stepper) until(at int64) {
	eventually.True(s.tb, patience, "the time comes", func() bool {
		now := s.group.Now()
		return min(now.Lease, now.Calendar) > at
	})
	s.step()
}

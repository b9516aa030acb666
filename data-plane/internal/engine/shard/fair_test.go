package shard

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// frameOf is a frame of enqueues in a namespace.
func (s *stepper) frameOf(ns job.Namespace, n int) Request {
	var r Request
	for range n {
		c := s.newJob()
		c.NS = ns
		r.After = append(r.After, c)
	}
	return r
}

func isAnswered(q *request) bool { return len(q.done) > 0 }

var (
	floodNS = job.Namespace{0xf}
	quietNS = job.Namespace{0x1}
)

// manyEntries are more frames of 64 than fit into two entries.
const manyEntries = 2*entryCmdsMax/64 + 1

func TestInbox_ANeighbourDoesNotWaitForAFlood(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	var flood []*request
	for range manyEntries {
		flood = append(flood, s.submit(s.frameOf(floodNS, 64)))
	}
	s.step()
	quiet := s.submit(s.frameOf(quietNS, 1))
	s.step()
	if !isAnswered(quiet) {
		t.Error("the neighbour's call is not in the next entry")
	}
	if isAnswered(flood[len(flood)-1]) {
		t.Fatal("the flood fits into two entries; the test proves nothing")
	}
	for s.inbox.len() > 0 {
		s.step()
	}
	for i, q := range flood {
		if !isAnswered(q) {
			t.Fatalf("frame %d of the flood was not done", i)
		}
	}
}

func TestInbox_NamespacesGetTheirWeightInAnEntry(t *testing.T) {
	t.Parallel()
	heavy := job.Namespace{3}
	s := step(t, Options{Weight: func(ns job.Namespace) int64 {
		if ns == heavy {
			return 3
		}
		return 1
	}})
	of := map[job.Namespace][]*request{}
	for range manyEntries {
		for _, ns := range []job.Namespace{floodNS, heavy} {
			of[ns] = append(of[ns], s.submit(s.frameOf(ns, 64)))
		}
	}
	s.step()
	done := map[job.Namespace]int{}
	for ns, list := range of {
		for _, q := range list {
			if isAnswered(q) {
				done[ns]++
			}
		}
	}
	if ratio := float64(done[heavy]) / float64(done[floodNS]); ratio < 2.5 || ratio > 3.5 {
		t.Errorf("%d frames of weight 3 beside %d of weight 1", done[heavy], done[floodNS])
	}
}

func TestInbox_InsideANamespaceTheOrderStays(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	var list []*request
	for range manyEntries {
		list = append(list, s.submit(s.frameOf(floodNS, 64)))
		s.submit(s.frameOf(quietNS, 64))
	}
	s.step()
	behind := false
	for i, q := range list {
		switch {
		case !isAnswered(q):
			behind = true
		case behind:
			t.Fatalf("frame %d was done before an earlier one", i)
		}
	}
}

func TestInbox_AFullOneTakesTheNeighboursCall(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.shard.term.Store(s.term)
	for s.inbox.put(newRequest(s.frameOf(floodNS, 1))) {
	}
	_, err := s.shard.Do(t.Context(), s.frameOf(floodNS, 1))
	if f := fault.As(err); f == nil || f.Reason != "OVERLOADED" || f.RetryAfter <= 0 {
		t.Fatalf("the flood's next call: %v", err)
	}
	quiet := s.submit(s.frameOf(quietNS, 1))
	s.step()
	if !isAnswered(quiet) {
		t.Error("the neighbour's call waits behind the flood")
	}
}

func TestPark_OneNamespaceDoesNotTakeAllPlaces(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.parking.Take(floodNS, parkedMax)
	quiet := s.submit(Request{Fetch: &Fetch{NS: quietNS, Queues: []string{"q"}, Count: 1, Worker: "w", Lease: time.Minute, Wait: true}})
	flood := s.submit(Request{Fetch: &Fetch{NS: floodNS, Queues: []string{"q"}, Count: 1, Worker: "w", Lease: time.Minute, Wait: true}})
	s.step()
	s.waiting(quiet)
	rep := <-flood.done
	if f := fault.As(rep.Err); f == nil || f.Reason != "OVERLOADED" {
		t.Errorf("the flood parked more than there is room for: %v", rep.Err)
	}
}

// TestCompany_EntriesAreBoundedInTimeOnlyWhileOthersAreThere: one caller alone fills them.
func TestCompany_EntriesAreBoundedInTimeOnlyWhileOthersAreThere(t *testing.T) {
	t.Parallel()
	var c company
	now := time.Unix(0, 0)
	for range 100 {
		c.meet(floodNS, now)
		c.applied(1000, 5*time.Millisecond)
	}
	if got := c.room(now); got != entryCmdsMax {
		t.Errorf("alone, an entry has room for %d", got)
	}
	c.meet(quietNS, now)
	if got, want := c.room(now), int64(entryTime/(5*time.Microsecond)); got < want*9/10 || got > want*11/10 {
		t.Errorf("in company, an entry has room for %d, want about %d", got, want)
	}
	if got := c.room(now.Add(companyFor + 1)); got != entryCmdsMax {
		t.Errorf("alone again, an entry has room for %d", got)
	}
}

func TestInbox_RetryAfterIsTheTimeOfTheLine(t *testing.T) {
	t.Parallel()
	b := newInbox(nil)
	for range 1000 {
		b.left(10, 10*time.Millisecond) // A thousand a second.
	}
	for range 500 {
		b.put(newRequest(Request{Settle: []command.Command{&command.Ack{NS: floodNS}}}))
	}
	if got := b.retryAfter(floodNS); got < 450*time.Millisecond || got > 550*time.Millisecond {
		t.Errorf("500 requests at a thousand a second: %s", got)
	}
	if got := b.retryAfter(quietNS); got != overloadRetry {
		t.Errorf("nothing in line: %s", got)
	}
}

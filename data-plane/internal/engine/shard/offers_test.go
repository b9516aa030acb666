package shard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
)

// backlog parks fetches for a paused queue that then gets jobs. Once it is resumed, all are to be
// served.
func (s *stepper) backlog(fetch Request, fetches, jobs int) (parked []*request) {
	s.tb.Helper()
	s.do(Request{After: []command.Command{&command.Pause{NS: stepNS, Queue: "q", Paused: true}}})
	for range fetches {
		parked = append(parked, s.submit(fetch))
	}
	for s.inbox.len() > 0 {
		s.step()
	}
	for range jobs / 64 {
		s.do(s.frameOf(stepNS, 64))
	}
	s.waiting(parked[0])
	return parked
}

func (s *stepper) resume() *request {
	return s.submit(Request{After: []command.Command{&command.Pause{NS: stepNS, Queue: "q"}}})
}

// Offers name the queues that their fetches asked for. Many with many long names must not make
// an entry that is too large, whose end all the shard's callers would be told of.
func TestOffers_ManyThatNameManyQueuesLeaveRoomForNeighbours(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	fetch := fetchReq(1, time.Hour, true)
	for i := range 63 {
		fetch.Fetch.Queues = append(fetch.Fetch.Queues, fmt.Sprint(strings.Repeat("x", 126), i))
	}
	parked := s.backlog(fetch, offersMax, offersMax)
	wait := fetchReq(1, time.Hour, true)
	wait.Fetch.NS = quietNS
	other := s.submit(wait)
	s.step()

	s.resume()
	s.step()
	quiet := s.submit(s.frameOf(quietNS, 1))
	s.step()
	s.answered(quiet)
	s.step()
	if g := s.answered(other); len(g.Grants) != 1 {
		t.Fatalf("a neighbour's fetch was answered %+v", g)
	}
	for n := 0; s.table.Hot(); n++ {
		if n > offersMax {
			t.Fatal("they are not all served")
		}
		s.step()
	}
	for _, q := range parked {
		if g := s.answered(q); len(g.Grants) != 1 {
			t.Fatalf("one was granted %d jobs", len(g.Grants))
		}
	}
}

// What those who wait are granted is applied in an entry like everything else.
func TestOffers_ManyLargeOnesTakeSeveralEntries(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	const fetches = 2*entryCmdsMax/512 + 1
	parked := s.backlog(fetchReq(512, time.Hour, true), fetches, 512*fetches)
	s.resume()
	s.step()
	for s.table.Hot() {
		s.step()
	}
	perEntry := map[uint64]int{}
	for _, q := range parked {
		g := s.answered(q)
		perEntry[g.Index] += len(g.Grants)
	}
	for index, n := range perEntry {
		if n == 0 || n > entryCmdsMax {
			t.Errorf("entry %d leases %d jobs", index, n)
		}
	}
}

// Who comes to wait while others still do is served after them.
func TestOffers_ANewcomerWaitsBehindWhoWaited(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	const fetches = 2*entryCmdsMax/512 + 1
	parked := s.backlog(fetchReq(512, time.Hour, true), fetches, 512*fetches)
	s.resume()
	s.step()
	late := s.submit(fetchReq(512, time.Hour, true))
	for s.table.Hot() {
		s.step()
	}
	last := s.answered(parked[len(parked)-1])
	if isAnswered(late) {
		if g := s.answered(late); g.Index < last.Index {
			t.Fatalf("a newcomer was served by entry %d, the last who waited by %d", g.Index, last.Index)
		}
	}
}

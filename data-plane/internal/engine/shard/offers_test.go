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

// serveAll runs entries until everybody who can be served was.
func (s *stepper) serveAll() {
	s.tb.Helper()
	for n := 0; s.table.Hot(); n++ {
		if n > offersMax {
			s.tb.Fatal("they are not all served")
		}
		s.step()
	}
}

// wordy is a fetch that names as many queues of as long names as it may.
func wordy() Request {
	fetch := fetchReq(1, time.Hour, true)
	for i := range 63 {
		fetch.Fetch.Queues = append(fetch.Fetch.Queues, fmt.Sprint(strings.Repeat("x", 126), i))
	}
	return fetch
}

// Offers name the queues that their fetches asked for: many of them are many bytes. Who comes to
// wait meanwhile is served after those who have waited.
func TestOffers_ManyThatNameManyQueuesTakeSeveralEntries(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	parked := s.backlog(wordy(), offersMax, offersMax+64)
	resumed := s.resume()
	s.step()
	s.answered(resumed)
	late := s.submit(fetchReq(1, time.Hour, true))
	s.serveAll()
	var last uint64
	for _, q := range parked {
		last = max(last, s.answered(q).Index)
	}
	if g := s.answered(late); g.Index < last {
		t.Fatalf("a newcomer was served by entry %d, the last who waited by %d", g.Index, last)
	}
}

// An entry that is too large ends badly for all the shard's callers.
func TestOffers_ManyThatNameManyQueuesLeaveRoomForNeighbours(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	parked := s.backlog(wordy(), offersMax, offersMax)
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
	s.serveAll()
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
	s.serveAll()
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

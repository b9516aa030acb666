package shard

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
)

// A job given back in an entry stands before one that is enqueued later in the
// same entry; whoever waits gets it first (INV-8).
func TestPromise_AJobGivenBackEarlierInTheEntryGoesFirst(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	first := s.enqueue()
	g := s.fetch(time.Minute)
	waiter := s.submit(fetchReq(1, time.Minute, true))
	s.step()
	s.waiting(waiter)

	late := s.newJob()
	back := s.submit(Request{Settle: []command.Command{&command.Fail{NS: stepNS, ID: first, By: holder(g), Release: true}}})
	add := s.submit(Request{After: []command.Command{late}})
	s.step()
	s.answered(back)
	s.answered(add)
	s.step() // The loop does this by itself: somebody waits and jobs are ready.
	if got := s.answered(waiter).Grants; len(got) != 1 || got[0].ID != first {
		t.Fatalf("granted %+v, want the job that was given back, %s", got, first)
	}
}

// Nothing of the entry can be ready before the new job: the grant rides with it.
func TestPromise_ASettlementThatMakesNothingReadyDoesNotDelayTheGrant(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.enqueue()
	g := s.fetch(time.Minute)
	waiter := s.submit(fetchReq(1, time.Minute, true))
	s.step()
	late := s.newJob()
	s.submit(Request{Settle: []command.Command{&command.Ack{NS: stepNS, ID: g.ID, By: holder(g)}}})
	s.submit(Request{After: []command.Command{late}})
	s.step()
	if got := s.answered(waiter).Grants; len(got) != 1 || got[0].ID != late.ID {
		t.Fatalf("granted %+v, want %s in the entry that enqueues it", got, late.ID)
	}
}

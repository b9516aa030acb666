package shard

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
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

// What follows on a job that an entry ends stands before what is enqueued later in the
// entry, however the job ends.
func TestPromise_WhatFollowsEarlierInTheEntryGoesFirst(t *testing.T) {
	t.Parallel()
	onFailure := func(c *command.Enqueue) *command.Enqueue {
		c.Chain = &command.Chain{
			ID: job.ChainID{1}, Steps: []command.Step{{Queue: "q"}, {Queue: "q"}}, OnFailure: &command.Step{Queue: "q", Payload: []byte(`{}`)},
		}
		return c
	}
	for name, end := range map[string]func(s *stepper) Request{
		"a rejected job's chain": func(s *stepper) Request {
			c := onFailure(s.newJob())
			s.do(Request{After: []command.Command{c}, Settle: nil})
			s.do(Request{Settle: []command.Command{&command.Hold{NS: stepNS, ID: c.ID}}})
			return Request{Settle: []command.Command{&command.Decide{NS: stepNS, ID: c.ID}}}
		},
		"the callback of a batch that is sealed without jobs": func(s *stepper) Request {
			id := job.BatchID{1}
			return Request{After: []command.Command{
				&command.MakeBatch{NS: stepNS, ID: id, Callback: &command.Step{Queue: "q", Payload: []byte(`{}`)}}, &command.SealBatch{NS: stepNS, ID: id},
			}}
		},
		"the chain of a job whose dependency is dead": func(s *stepper) Request {
			dead := s.newJob()
			s.do(Request{After: []command.Command{dead}})
			s.do(Request{Settle: []command.Command{&command.Cancel{NS: stepNS, ID: dead.ID}}})
			c := onFailure(s.newJob())
			c.DependsOn = []job.ID{dead.ID}
			return Request{After: []command.Command{c}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := step(t, Options{})
			ends := end(s)
			waiter := s.submit(fetchReq(1, time.Minute, true))
			s.step()
			s.waiting(waiter)
			late := s.newJob()
			first, second := s.submit(ends), s.submit(Request{After: []command.Command{late}})
			s.step()
			s.answered(first)
			s.answered(second)
			s.step()
			if got := s.answered(waiter).Grants; len(got) != 1 || got[0].ID == late.ID {
				t.Fatalf("granted %+v, want what follows and not %s", got, late.ID)
			}
		})
	}
}

// Whoever comes to wait after an enqueue of the same entry gets that job, and not one that
// is enqueued after it came (INV-8).
func TestPromise_AJobEnqueuedBeforeTheFetchCameGoesFirst(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	early, urgent, late := s.newJob(), s.newJob(), s.newJob()
	urgent.Priority = job.Critical
	s.submit(Request{After: []command.Command{early}})
	s.submit(Request{After: []command.Command{urgent}})
	waiter := s.submit(fetchReq(2, time.Minute, true))
	s.submit(Request{After: []command.Command{late}})
	s.step()
	got := s.answered(waiter).Grants
	if len(got) != 2 || got[0].ID != urgent.ID || got[1].ID != early.ID {
		t.Fatalf("granted %+v, want %s and %s", got, urgent.ID, early.ID)
	}
}

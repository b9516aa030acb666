package shard

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
)

// plan is what a cell's state says of stepNS.
type plan struct{ until atomic.Int64 }

func (p *plan) held() func(job.Namespace) int64 {
	at := p.until.Load()
	return func(ns job.Namespace) int64 {
		if ns == stepNS {
			return at
		}
		return 0
	}
}

func TestPlanHold_NoAttemptBeginsButEverythingElseGoesOn(t *testing.T) {
	t.Parallel()
	p := &plan{}
	s := step(t, Options{Held: p.held})
	first := s.enqueue()
	g := s.fetch(time.Hour)
	waits := s.submit(fetchReq(1, time.Hour, true))
	s.step()
	p.until.Store(math.MaxInt64)
	s.shard.moved.Store(true)

	second := s.enqueue() // Not promised to the one that waits.
	s.waiting(waits)
	if rep := s.do(fetchReq(5, time.Hour, false)); len(rep.Grants) != 0 || rep.Index != 0 {
		t.Fatalf("a fetch got %+v", rep)
	}
	if rep := s.do(renew(g)); !rep.Renewals[0].Held {
		t.Fatal("a lease was lost")
	}
	both := fetchReq(1, time.Hour, false)
	both.Settle = []command.Command{&command.Ack{NS: stepNS, ID: g.ID, By: holder(g)}}
	if rep := s.do(both); len(rep.Grants) != 0 || s.head(first).State != job.Completed {
		t.Fatalf("an ack that fetches: %+v, the job is %s", rep, s.head(first).State)
	}
	if s.table.Hot() {
		t.Fatal("the loop would never rest")
	}
	stranger := s.newJob()
	stranger.NS = job.Namespace{1}
	fetch := fetchReq(1, time.Hour, false)
	fetch.Fetch.NS = stranger.NS
	s.do(Request{After: []command.Command{stranger}})
	if rep := s.do(fetch); len(rep.Grants) != 1 {
		t.Fatal("a neighbour got nothing")
	}

	s.nextTerm() // Another leader knows it from the start.
	waits = s.submit(fetchReq(1, time.Hour, true))
	s.step()
	s.waiting(waits)
	p.until.Store(0)
	s.shard.moved.Store(true)
	s.step()
	s.step()
	if rep := s.answered(waits); len(rep.Grants) != 1 || rep.Grants[0].ID != second {
		t.Fatalf("lifted: %+v, want %s", rep, second)
	}
}

func TestPlanHold_WhoWaitsIsWokenWhenItIsLiftedAndWhenItEndsByItself(t *testing.T) {
	t.Parallel()
	p := &plan{}
	p.until.Store(math.MaxInt64)
	r := startWith(t, memDisks(), "log", raftlog.Options{}, Options{Held: p.held})
	defer r.stop(t)
	for _, end := range []func(){
		func() { p.until.Store(0) },
		func() { p.until.Store(time.Now().Add(50 * time.Millisecond).UnixNano()) },
	} {
		p.until.Store(math.MaxInt64)
		r.HoldsMoved()
		got := make(chan Reply, 1)
		go func() { got <- r.must(t, fetchReq(1, time.Hour, true)) }()
		job := (&stepper{tb: t, jobs: uint64(time.Now().UnixNano())}).newJob()
		r.must(t, Request{After: []command.Command{job}})
		select {
		case rep := <-got:
			t.Fatalf("held: %+v", rep)
		default:
		}
		end()
		r.HoldsMoved()
		if rep := <-got; len(rep.Grants) != 1 || rep.Grants[0].ID != job.ID {
			t.Fatalf("lifted: %+v", rep)
		}
	}
}

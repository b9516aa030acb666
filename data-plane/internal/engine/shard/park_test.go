package shard

import (
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Law 7: what brings no news is not written.
func TestLog_EmptyFetchesParkedFetchesRenewalsAndIdleTimeWriteNothing(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.enqueue()
	g := s.fetch(time.Hour)
	from, last := s.group.AppliedIndex(), s.group.Status().LastIndex
	for range 50 {
		if rep := s.do(fetchReq(5, time.Hour, false)); len(rep.Grants) != 0 || rep.Index != 0 {
			t.Fatalf("empty fetch: %+v", rep)
		}
		if rep := s.do(renew(g)); !rep.Renewals[0].Held || rep.Index != 0 {
			t.Fatalf("renewal: %+v", rep)
		}
		q := s.submit(fetchReq(1, time.Hour, true))
		s.step()
		s.waiting(q)
		s.unpark(q)
		s.due.next, s.leases.next = 0, 0 // The timers look.
		s.step()
	}
	if a, l := s.group.AppliedIndex(), s.group.Status().LastIndex; a != from || l != last {
		t.Fatalf("log went from %d/%d to %d/%d", from, last, a, l)
	}
	if n := s.shard.stats.Parked.Load(); n != 0 {
		t.Fatalf("%d parked, want 0", n)
	}
}

func TestPark_TheGrantRidesInTheEntryOfTheEnqueue(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	f := s.submit(fetchReq(1, time.Hour, true))
	s.step()
	s.waiting(f)
	from := s.group.Status().LastIndex
	c := s.newJob()
	e := s.do(Request{After: []command.Command{c}})
	g := s.answered(f)
	if len(g.Grants) != 1 || g.Grants[0].ID != c.ID {
		t.Fatalf("grants %+v", g.Grants)
	}
	if e.Index != g.Index || e.Index != from+1 {
		t.Fatalf("enqueued at %d, granted at %d, applied %d -> %d", e.Index, g.Index, from, s.group.AppliedIndex())
	}
}

func TestRequest_AckAndFetchShareAnEntry(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	first, second := s.enqueue(), s.enqueue()
	g := s.fetch(time.Hour)
	from := s.group.AppliedIndex()
	r := fetchReq(1, time.Hour, false)
	r.Settle = []command.Command{&command.Ack{NS: stepNS, ID: g.ID, By: holder(g)}}
	rep := s.do(r)
	if g.ID != first || len(rep.Grants) != 1 || rep.Grants[0].ID != second || s.group.AppliedIndex() != from+1 {
		t.Fatalf("reply %+v at %d, applied %d -> %d", rep, rep.Index, from, s.group.AppliedIndex())
	}
	// What a request gives back is behind what was ready before.
	third := s.enqueue()
	r = fetchReq(1, time.Hour, false)
	r.Settle = []command.Command{&command.Fail{NS: stepNS, ID: second, By: holder(rep.Grants[0]), Release: true}}
	if rep = s.do(r); len(rep.Grants) != 1 || rep.Grants[0].ID != third {
		t.Fatalf("grants %+v, want %s", rep.Grants, third)
	}
	if got := s.fetch(time.Hour).ID; got != second {
		t.Fatalf("then %s, want the released %s", got, second)
	}
}

func TestPark_OneJobGoesToExactlyOneInOrderOfArrival(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	a, b := s.submit(fetchReq(1, time.Hour, true)), s.submit(fetchReq(1, time.Hour, true))
	s.step()
	first := s.enqueue()
	if rep := s.answered(a); len(rep.Grants) != 1 || rep.Grants[0].ID != first {
		t.Fatalf("first: %+v", rep)
	}
	s.waiting(b)
	second := s.enqueue()
	if rep := s.answered(b); len(rep.Grants) != 1 || rep.Grants[0].ID != second {
		t.Fatalf("second: %+v", rep)
	}
}

func TestPark_AJobThatWasReadyBeforeGoesFirst(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.shard.holdOff.Store(true)
	f := s.submit(fetchReq(1, time.Hour, true))
	s.step()
	older := s.enqueue()
	s.waiting(f)
	s.shard.holdOff.Store(false)
	s.enqueue()
	if rep := s.answered(f); len(rep.Grants) != 1 || rep.Grants[0].ID != older {
		t.Fatalf("granted %+v, want the older %s", rep.Grants, older)
	}
}

func TestPark_GivingUpIsAnsweredWhereverTheRequestStands(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	// Parked.
	parked := s.submit(fetchReq(1, time.Hour, true))
	s.step()
	s.unpark(parked)
	if rep := s.answered(parked); len(rep.Grants) != 0 {
		t.Fatalf("parked: %+v", rep)
	}
	// Before the loop met it.
	early := s.submit(fetchReq(1, time.Hour, true))
	s.unpark(early)
	s.step()
	if rep := s.answered(early); len(rep.Grants) != 0 {
		t.Fatalf("early: %+v", rep)
	}
	// Before the loop met it, and there is a job: the grant comes back to be released.
	id := s.enqueue()
	granted := s.submit(fetchReq(1, time.Hour, true))
	s.unpark(granted)
	s.step()
	if rep := s.answered(granted); len(rep.Grants) != 1 || rep.Grants[0].ID != id {
		t.Fatalf("granted: %+v", rep)
	}
	// After it was answered: the answer stands.
	s.unpark(granted)
	s.waiting(granted)
	// Before the loop met it, and the job it was to get is cancelled by the same entry.
	id = s.enqueue()
	s.submit(settle(&command.Cancel{NS: stepNS, ID: id}))
	skipped := s.submit(fetchReq(1, time.Hour, true))
	s.unpark(skipped)
	s.step()
	if rep := s.answered(skipped); len(rep.Grants) != 0 {
		t.Fatalf("skipped: %+v", rep)
	}
	if n := len(s.parked); n != 0 {
		t.Fatalf("%d still parked", n)
	}
}

func TestPark_AFetchWhoseJobWasTakenFromItGoesOnWaiting(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	id := s.enqueue()
	s.submit(settle(&command.Cancel{NS: stepNS, ID: id}))
	f := s.submit(fetchReq(1, time.Hour, true))
	s.step()
	s.waiting(f)
	next := s.enqueue()
	if rep := s.answered(f); len(rep.Grants) != 1 || rep.Grants[0].ID != next {
		t.Fatalf("grants %+v", rep.Grants)
	}
	// A parked one keeps its place as well.
	a, b := s.submit(fetchReq(1, time.Hour, true)), s.submit(fetchReq(1, time.Hour, true))
	s.step()
	c := s.newJob()
	s.submit(settle(&command.Pause{NS: stepNS, Queue: "q", Paused: true}))
	s.submit(Request{After: []command.Command{c}})
	s.step()
	s.waiting(a)
	s.waiting(b)
	s.do(settle(&command.Pause{NS: stepNS, Queue: "q", Paused: false}))
	s.step()
	if rep := s.answered(a); len(rep.Grants) != 1 || rep.Grants[0].ID != c.ID {
		t.Fatalf("after the pause: %+v", rep)
	}
	s.waiting(b)
}

func TestHoldOff_NoNewLeases_SettlementsGoOn_ResumingServesWhoWaits(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.enqueue()
	g := s.fetch(time.Hour)
	s.shard.holdOff.Store(true)
	id := s.enqueue()
	if rep := s.do(fetchReq(1, time.Hour, false)); len(rep.Grants) != 0 {
		t.Fatalf("granted during the hold-off: %+v", rep.Grants)
	}
	f := s.submit(fetchReq(1, time.Hour, true))
	s.step()
	s.waiting(f)
	if rep := s.do(settle(&command.Ack{NS: stepNS, ID: g.ID, By: holder(g)})); rep.Settled[0].State != job.Completed {
		t.Fatalf("settlement: %+v", rep.Settled[0])
	}
	if rep := s.do(renew(g)); rep.Renewals[0].Held {
		t.Fatal("renewed a completed job")
	}
	s.shard.holdOff.Store(false)
	s.step() // What the nudge brings about.
	if rep := s.answered(f); len(rep.Grants) != 1 || rep.Grants[0].ID != id {
		t.Fatalf("after the hold-off: %+v", rep)
	}
}

// What ends the hold-off doesn't wait for an entry to be built. In that entry who comes would be
// served before those who wait.
func TestHoldOff_ThatEndsWhileAnEntryIsBuiltLetsNobodyOvertake(t *testing.T) {
	t.Parallel()
	var end func()
	s := step(t, Options{Held: func() func(job.Namespace) int64 {
		return func(job.Namespace) int64 { // Asked when a queue is met for the first time.
			if end != nil {
				end()
			}
			return 0
		}
	}})
	s.shard.holdOff.Store(true)
	first := s.enqueue()
	f := s.submit(fetchReq(1, time.Hour, true))
	s.step()
	s.waiting(f)
	end = func() { s.shard.holdOff.Store(false) }
	elsewhere := fetchReq(1, time.Hour, true)
	elsewhere.Fetch.Queues = []string{"nobody asked for it before"}
	s.submit(elsewhere)
	s.submit(fetchReq(1, time.Hour, true))
	s.submit(Request{After: []command.Command{s.newJob()}})
	s.step()
	if s.shard.holdOff.Load() {
		t.Fatal("the hold-off did not end")
	}
	s.step()
	if rep := s.answered(f); len(rep.Grants) != 1 || rep.Grants[0].ID != first {
		t.Fatalf("granted %+v, first in line was %s", rep.Grants, first)
	}
}

// Every replica refuses an entry with more commands than the codec knows and
// stops: the proposer must never write one, however many wait.
func TestEntry_NeverHasMoreCommandsThanAReplicaReads(t *testing.T) {
	t.Parallel()
	const workers = command.CommandsMax + 100
	s := step(t, Options{})
	var waiting []*request
	park := func() {
		waiting = waiting[:0]
		for i := range workers {
			waiting = append(waiting, s.submit(fetchReq(1, time.Hour, true)))
			if i%4096 == 4095 {
				s.step()
			}
		}
		for s.inbox.len() > 0 {
			s.step()
		}
	}
	enqueueAll := func() {
		for left := workers; left > 0; {
			for range 9 { // More than the entry takes by itself.
				var r Request
				for range min(1000, left) {
					r.After = append(r.After, s.newJob())
				}
				left -= len(r.After)
				s.submit(r)
			}
			s.step()
		}
		for s.inbox.len() > 0 {
			s.step()
		}
		for s.table.Hot() {
			s.step()
		}
	}
	all := func(what string) {
		seen := map[job.ID]bool{}
		for _, q := range waiting {
			rep := s.answered(q)
			if len(rep.Grants) != 1 || seen[rep.Grants[0].ID] {
				t.Fatalf("%s: grants %+v", what, rep.Grants)
			}
			seen[rep.Grants[0].ID] = true
		}
	}
	park()
	enqueueAll()
	all("promised")

	s.shard.holdOff.Store(true)
	park()
	for left := workers; left > 0; left -= 1000 {
		var r Request
		for range min(1000, left) {
			r.After = append(r.After, s.newJob())
		}
		s.do(r)
	}
	s.shard.holdOff.Store(false)
	s.step()
	for s.table.Hot() {
		s.step()
	}
	all("matched after a hold-off")
}

func TestPark_CountAboveOneGetsWhatTheEntryBrings(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	a, b := s.submit(fetchReq(3, time.Hour, true)), s.submit(fetchReq(3, time.Hour, true))
	s.step()
	var r Request
	var ids []job.ID
	for range 5 {
		c := s.newJob()
		ids, r.After = append(ids, c.ID), append(r.After, c)
	}
	s.do(r)
	var got []job.ID
	for _, q := range []*request{a, b} {
		for _, g := range s.answered(q).Grants {
			got = append(got, g.ID)
		}
	}
	if !slices.Equal(got, ids) {
		t.Fatalf("got %v, want %v", got, ids)
	}
}

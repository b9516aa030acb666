package shard

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
)

const shortLease = 50 * time.Millisecond

func TestLease_RunsOutAndCountsAsACrash_TheThirdIsDeath(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	id := s.enqueue()
	for crash := uint32(1); crash <= state.CrashLimit; crash++ {
		g := s.fetch(shortLease)
		h := s.head(id)
		if g.ID != id || h.State != job.Active {
			t.Fatalf("grant %+v, head %+v", g, h)
		}
		s.until(h.Due)
		h = s.head(id)
		want := job.Pending
		if crash == state.CrashLimit {
			want = job.Dead
		}
		if h.State != want || h.Crashes != crash {
			t.Fatalf("after crash %d the job is %s with %d crashes, want %s", crash, h.State, h.Crashes, want)
		}
	}
	if h := s.head(id); h.Reason != records.DeadCrashes {
		t.Fatalf("dead because of %q", h.Reason)
	}
}

func TestLease_RenewalInMemoryKeepsItAndIsLoggedOncePerLease(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	id := s.enqueue()
	const lease = 200 * time.Millisecond
	g := s.fetch(lease)
	from, began := s.group.AppliedIndex(), s.group.Now().Lease
	for s.group.Now().Lease < began+5*int64(lease) {
		if rep := s.do(renew(g)); len(rep.Renewals) != 1 || !rep.Renewals[0].Held {
			t.Fatalf("renewal: %+v", rep)
		}
		time.Sleep(5 * time.Millisecond) // A worker's pace; nothing depends on it.
	}
	if h := s.head(id); h.State != job.Active || h.Epoch != g.Epoch {
		t.Fatalf("the renewed lease is gone: %+v", h)
	}
	if n := s.group.AppliedIndex() - from; n < 3 || n > 7 {
		t.Fatalf("%d entries for 5 lease lengths, want about one per length", n)
	}
	s.until(s.head(id).Due + int64(lease))
	s.step()
	if h := s.head(id); h.State != job.Pending {
		t.Fatalf("nobody renews any more, yet the job is %s until %d, now %d", h.State, h.Due, s.group.Now().Lease)
	}
}

// A worker that lost its lease long ago must not shorten the lease of its successor.
func TestLease_ARefusedSettlementLeavesTheHoldersRenewal(t *testing.T) {
	t.Parallel()
	for name, stale := range map[string]func(by command.Holder, id job.ID) command.Command{
		"ack":  func(by command.Holder, id job.ID) command.Command { return &command.Ack{NS: stepNS, ID: id, By: by} },
		"fail": func(by command.Holder, id job.ID) command.Command { return &command.Fail{NS: stepNS, ID: id, By: by} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := step(t, Options{})
			id := s.enqueue()
			first := s.fetch(shortLease)
			s.until(s.head(id).Due)
			second := s.fetch(shortLease)
			due := s.head(id).Due
			long := renew(second)
			long.Renew[0].Lease = time.Hour
			if rep := s.do(long); !rep.Renewals[0].Held {
				t.Fatal("the holder's renewal was refused")
			}
			if rep := s.do(settle(stale(holder(first), id))); rep.Settled[0].Refusal != state.LeaseLost {
				t.Fatalf("the stale settlement: %+v", rep.Settled[0])
			}
			s.until(due)
			if h := s.head(id); h.State != job.Active || h.Epoch != second.Epoch {
				t.Fatalf("the holder was told it has an hour; the job is %s after %s", h.State, shortLease)
			}
		})
	}
}

// The worker is told "ok" and the same entry takes its job away: both can not be.
func TestLease_ARenewalInTheEntryThatWouldEndItSavesIt(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	id := s.enqueue()
	g := s.fetch(shortLease)
	due := s.head(id).Due
	eventually.True(t, patience, "the lease is over", func() bool { return s.group.Now().Lease > due })
	rep := s.do(renew(g))
	h := s.head(id)
	if held := h.State == job.Active && h.Epoch == g.Epoch; held != rep.Renewals[0].Held {
		t.Fatalf("the worker was told held=%v; the job is %s", rep.Renewals[0].Held, h.State)
	}
	if !rep.Renewals[0].Held {
		t.Fatal("a renewal that came before the lease was ended was refused")
	}
}

func TestLease_ANewLeaderGivesAFreshFullLease(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	id := s.enqueue()
	const lease = 150 * time.Millisecond
	g := s.fetch(lease)
	old := s.head(id).Due
	eventually.True(t, patience, "the lease is over", func() bool { return s.group.Now().Lease > old })
	s.nextTerm()
	began := s.began
	s.step()
	h := s.head(id)
	if h.State != job.Active || h.Epoch != g.Epoch || h.Due != began+int64(lease) {
		t.Fatalf("job is %s until %d; want active until %d", h.State, h.Due, began+int64(lease))
	}
	s.until(h.Due)
	if h := s.head(id); h.State != job.Pending || h.Crashes != 1 {
		t.Fatalf("after the fresh lease the job is %s with %d crashes", h.State, h.Crashes)
	}
	// A lease of this term gets no second life.
	s.fetch(shortLease)
	s.until(s.head(id).Due)
	if h := s.head(id); h.State != job.Pending || h.Crashes != 2 {
		t.Fatalf("a lease of this term: job is %s with %d crashes", h.State, h.Crashes)
	}
}

// An ack said again is accepted also when the agent's next iteration runs already: the
// lease of that one is none of its business (INV-4).
func TestLease_ARepeatedAckForgetsNoRenewalOfTheNextHolder(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	c := s.newJob()
	c.Agent = &command.AgentLimits{MaxIterations: 5}
	s.do(Request{After: []command.Command{c}})
	first := s.fetch(time.Minute)
	ack := Request{Settle: []command.Command{&command.Ack{
		NS: stepNS, ID: first.ID, By: holder(first), Agent: command.AgentContinue,
	}}}
	s.do(ack)
	second := s.fetch(time.Minute)
	s.do(renew(second))
	if res := s.do(ack).Settled[0]; res.Refusal != state.Accepted {
		t.Fatalf("the repetition: %+v", res)
	}
	if _, kept := s.renewals[second.ID]; !kept {
		t.Fatal("the renewal of the second iteration's lease is forgotten")
	}
}

// The worker was told that it has an hour. A new leader knows only what the log says.
func TestLease_ARenewalForLongerThanTheFetchOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	id := s.enqueue()
	g := s.fetch(shortLease)
	long := renew(g)
	long.Renew[0].Lease = time.Hour
	if rep := s.do(long); !rep.Renewals[0].Held {
		t.Fatal("the holder's renewal was refused")
	}
	s.nextTerm()
	s.step()
	s.until(s.began + 2*int64(shortLease))
	s.step()
	if h := s.head(id); h.State != job.Active || h.Epoch != g.Epoch {
		t.Fatalf("the holder has an hour; after a change of leader the job is %s after %s", h.State, shortLease)
	}
}

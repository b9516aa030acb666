package shard

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// leaderless is a shard that has lost its lead, and nobody else leads.
func leaderless(t *testing.T, wait time.Duration) (*rig, *peer) {
	t.Helper()
	r, other := pairedWith(t, Options{LeaderWait: wait})
	other.deafen()
	eventually.True(t, patience, "the lead is lost", func() bool { return r.term.Load() == nil && !r.Group().Leading() })
	return r, other
}

// held makes the calls and returns their errors once all of them wait for a leader.
func (r *rig) held(t *testing.T, calls ...func() error) <-chan error {
	t.Helper()
	answers := make(chan error, len(calls))
	before := r.stats.Held.Load()
	for _, call := range calls {
		go func() { answers <- call() }()
	}
	eventually.True(t, patience, "the calls are held", func() bool { return r.stats.Held.Load() == before+int64(len(calls)) })
	return answers
}

func answerOf(t *testing.T, answers <-chan error) error {
	t.Helper()
	select {
	case err := <-answers:
		return err
	case <-time.After(patience):
		t.Fatal("a held call hangs")
		return nil
	}
}

func (r *rig) adding(ctx context.Context, c *command.Enqueue) func() error {
	return func() error {
		_, err := r.Do(ctx, Request{After: []command.Command{c}})
		return err
	}
}

func TestHeld_CallIsDoneWhenThisReplicaLeadsAgain(t *testing.T) {
	t.Parallel()
	r, other := leaderless(t, time.Hour)
	s := &stepper{tb: t}
	c := s.newJob()
	reads := 0
	answers := r.held(t, r.adding(t.Context(), c), func() error {
		n, err := Read(t.Context(), r.Shard, func(*statedb.Group) (int, error) { reads++; return reads, nil })
		if n != reads {
			t.Errorf("the answer is that of reading %d of %d", n, reads)
		}
		return err
	})
	other.listen()
	for range cap(answers) {
		if err := answerOf(t, answers); err != nil {
			t.Error(err)
		}
	}
	if _, err := stateread.ReadHead(r.store, stepNS, c.ID); err != nil {
		t.Errorf("the job: %v", err)
	}
}

// Nothing was done, so no outcome is unknown, whatever ends the waiting.
func TestHeld_EndsWithItsLimitItsCallerOrTheNode(t *testing.T) {
	t.Parallel()
	r, _ := leaderless(t, time.Hour)
	s := &stepper{tb: t}
	ctx, cancel := context.WithCancel(t.Context())
	added := r.held(t, r.adding(ctx, s.newJob()))
	fetched := r.held(t, func() error {
		_, err := r.Do(ctx, fetchReq(1, time.Hour, true))
		return err
	})
	cancel()
	if err := answerOf(t, added); fault.CodeOf(err) != fault.NotLeader {
		t.Errorf("a caller that left: %v", err)
	}
	if err := answerOf(t, fetched); !errors.Is(err, context.Canceled) {
		t.Errorf("a fetch whose wait is over: %v", err)
	}
	r.opts.LeaderWait = time.Millisecond
	if err := r.adding(t.Context(), s.newJob())(); fault.CodeOf(err) != fault.NotLeader {
		t.Errorf("past its limit: %v", err)
	}
	r.opts.LeaderWait = time.Hour
	left := r.held(t, r.adding(t.Context(), s.newJob()))
	r.Leave()
	if err := answerOf(t, left); fault.CodeOf(err) != fault.NotLeader {
		t.Errorf("a node that goes: %v", err)
	}
}

// Its caller carries the call to the other.
func TestHeld_EndsWhenAnotherLeads(t *testing.T) {
	t.Parallel()
	r, other := leaderless(t, time.Hour)
	s := &stepper{tb: t}
	answers := r.held(t, r.adding(t.Context(), s.newJob()))
	lead := raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n2"), Addr: []byte("n2")}, Term: 1 << 20,
	}
	if err := other.AppendEntries("n1", "n1", &lead, &raft.AppendEntriesResponse{}); err != nil {
		t.Fatal(err)
	}
	if err := answerOf(t, answers); fault.CodeOf(err) != fault.NotLeader {
		t.Errorf("told %v", err)
	}
	if err := r.adding(t.Context(), s.newJob())(); fault.CodeOf(err) != fault.NotLeader {
		t.Errorf("a later call is told %v", err)
	}
}

// A leader that hands over takes no entries for a while. The calls wait until it does
// again or has handed over, and none is refused.
func TestHeld_CallsOutliveATransferThatFails(t *testing.T) {
	t.Parallel()
	r, _ := pairedWith(t, Options{LeaderWait: time.Hour})
	s := &stepper{tb: t}
	over := make(chan error, 1)
	go func() { over <- r.Group().Transfer("n2") }()
	done := make(chan error, 1)
	for {
		go func() { done <- r.adding(t.Context(), s.newJob())() }()
		if err := answerOf(t, done); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-over:
			if err == nil {
				t.Fatal("the yesman took the leadership")
			}
			return
		default:
		}
	}
}

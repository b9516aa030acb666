package transport

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// Raft calls a pipeline every so often for as long as nothing is written. Heartbeats say that the
// leader is there; what is left to say is how much is committed.
func TestPipeline_IsSilentWhileThereIsNothingNewToSay(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	fitness := health.New(quiet())
	sender, receiver := n.listen(t, Options{NodeID: "n1", Health: fitness, Heartbeat: time.Hour}).Group(testGroup), n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
	var took []uint64 // Commit indexes.
	takeAppends(t, receiver, func(req *raft.AppendEntriesRequest) (*raft.AppendEntriesResponse, error) {
		took = append(took, req.LeaderCommitIndex)
		return &raft.AppendEntriesResponse{Success: true}, nil
	})
	p := openPipeline(t, sender)
	const last = 101
	one := entries(last, 1)
	for _, s := range []struct {
		what    string
		entries []*raft.Log
		prev    uint64
		commit  uint64
		sent    int // Messages so far.
	}{
		{what: "the first one asks whether the logs agree", prev: last - 1, sent: 1},
		{what: "nothing", prev: last - 1, sent: 1},
		{what: "an entry, and more is committed than it shows", entries: one, prev: last - 1, commit: last + 9, sent: 2},
		{what: "that again", prev: last, commit: last + 9, sent: 3},
		{what: "a newer commit index", prev: last + 10, commit: last + 10, sent: 4},
		{what: "the same", prev: last + 10, commit: last + 10, sent: 4},
		{what: "an entry", entries: entries(last+11, 1), prev: last + 10, commit: last + 10, sent: 5},
		{what: "the entry is committed", prev: last + 11, commit: last + 11, sent: 6},
	} {
		f, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 3, PrevLogEntry: s.prev, Entries: s.entries, LeaderCommitIndex: s.commit}, new(raft.AppendEntriesResponse))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Error(); err != nil {
			t.Fatal(err)
		}
		if len(took) != s.sent {
			t.Errorf("%s: %d messages, want %d", s.what, len(took), s.sent)
		}
	}
	fitness.Set(health.DiskStalled, "")
	if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 3, PrevLogEntry: last + 11, LeaderCommitIndex: last + 11}, new(raft.AppendEntriesResponse)); !errors.Is(err, errUnfit) {
		t.Errorf("a node that must be silent goes on: %v", err)
	}
}

// A transfer of leadership calls the pipeline until the follower has everything: in a tight loop, if
// nothing in it waits.
func TestPipeline_WhatIsLeftOutWaitsForTheLastAnswer(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	sender, receiver := n.listen(t, Options{NodeID: "n1", Heartbeat: time.Hour}).Group(testGroup), n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
	var taken atomic.Bool
	takeAppends(t, receiver, func(*raft.AppendEntriesRequest) (*raft.AppendEntriesResponse, error) {
		taken.Store(true)
		return &raft.AppendEntriesResponse{Success: true}, nil
	})
	p, err := sender.AppendEntriesPipeline("n2", "n2")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 2 { // The first one is sent and not waited for.
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 9}, new(raft.AppendEntriesResponse)); err != nil {
			t.Fatal(err)
		}
	}
	if !taken.Load() {
		t.Error("a call that sends nothing returned before the last answer")
	}
}

// A follower that was started again has forgotten how much is committed, and has another connection.
func TestPipeline_AFollowerThatWasStartedAgainEndsIt(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	sender, receiver := n.listen(t, Options{NodeID: "n1", Heartbeat: 10 * time.Millisecond}).Group(testGroup), n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
	takeAppends(t, receiver, func(*raft.AppendEntriesRequest) (*raft.AppendEntriesResponse, error) {
		return &raft.AppendEntriesResponse{Success: true}, nil
	})
	p, err := sender.AppendEntriesPipeline("n2", "n2")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	say := func() error {
		_, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 9, LeaderCommitIndex: 9}, new(raft.AppendEntriesResponse))
		return err
	}
	for range 2 { // The second one has the answer to the first.
		if err := say(); err != nil {
			t.Fatal(err)
		}
	}
	n.cut(link{"n1", "n2"})
	eventually.True(t, patience, "the end of the pipeline", func() bool { return say() != nil })
}

// Raft's reader of answers ends with the first refusal. The library's pipeline then
// holds the second next append for ever, and with it the replication to that node.
func TestPipeline_ARefusalEndsItInsteadOfHoldingTheSender(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	sender, receiver := n.listen(t, Options{NodeID: "n1"}).Group(testGroup), n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
	takeAppends(t, receiver, func(req *raft.AppendEntriesRequest) (*raft.AppendEntriesResponse, error) {
		return &raft.AppendEntriesResponse{Success: req.PrevLogEntry < 101}, nil
	})
	p := openPipeline(t, sender)
	ended := make(chan error, 1)
	go func() {
		// As one append of four parts.
		_, err := p.AppendEntries(&raft.AppendEntriesRequest{
			Term: 3, PrevLogEntry: 100, PrevLogTerm: 2, Entries: entries(101, MessageBytesMax, MessageBytesMax, MessageBytesMax, MessageBytesMax),
		}, new(raft.AppendEntriesResponse))
		for i := range uint64(4) { // As what follows.
			if err == nil {
				_, err = p.AppendEntries(&raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 104 + i, PrevLogTerm: 2, Entries: entries(105+i, 1)}, new(raft.AppendEntriesResponse))
			}
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, errRejected) {
			t.Errorf("the pipeline ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the sender is held")
	}
}

// A commit is told once, behind the entries that it names, and only if no others follow them.
func TestPipeline_ACommitIsToldAtOnce(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	sender, receiver := n.listen(t, Options{NodeID: "n1", Heartbeat: time.Hour}).Group(testGroup), n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
	took := make(chan *raft.AppendEntriesRequest, 10)
	takeAppends(t, receiver, func(req *raft.AppendEntriesRequest) (*raft.AppendEntriesResponse, error) {
		took <- req
		return &raft.AppendEntriesResponse{Success: true}, nil
	})
	p := openPipeline(t, sender)
	send := func(first uint64, sizes ...int) {
		t.Helper()
		req := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: first - 1, PrevLogTerm: 2, Entries: entries(first, sizes...), LeaderCommitIndex: first - 1}
		if _, err := p.AppendEntries(req, new(raft.AppendEntriesResponse)); err != nil {
			t.Fatal(err)
		}
		if got := <-took; len(got.Entries) != len(sizes) {
			t.Fatalf("%d entries arrived, want %d", len(got.Entries), len(sizes))
		}
	}
	send(101, 1, 1)
	sender.Bind(fakeRaft{term: 3, state: raft.Leader})
	tellsNothing := func(committed uint64) {
		t.Helper()
		last := lastOf(p)
		sender.TellCommitted(committed)
		sender.pipelines.tells.Wait()
		if told := lastOf(p); told != last {
			t.Errorf("told %+v for %d", told.Request(), committed)
		}
	}
	tellsNothing(101) // Not the last: 102 is on its way, and tells with it.
	tellsNothing(103) // Not sent yet.
	// What another leader committed, or this one in a later term, may be another entry than was sent.
	for _, r := range []fakeRaft{{term: 4, state: raft.Follower}, {term: 4, state: raft.Leader}, {term: 3, state: raft.Follower}} {
		sender.Bind(r)
		tellsNothing(102)
	}
	sender.Bind(fakeRaft{term: 3, state: raft.Leader})
	sender.TellCommitted(102)
	got := <-took
	if got.Term != 3 || len(got.Entries) > 0 || got.PrevLogEntry != 102 || got.PrevLogTerm != entries(102, 1)[0].Term || got.LeaderCommitIndex != 102 {
		t.Errorf("told %+v, want no entries, 102 before them, and all committed", got)
	}
	tellsNothing(102) // It is known.
	send(103, 1)
	sender.TellCommitted(103)
	if got := <-took; got.LeaderCommitIndex != 103 || got.PrevLogEntry != 103 {
		t.Errorf("told %+v, want 103", got)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	tellsNothing(103)
	if err := sender.Close(); err != nil { // Waits for what is being told.
		t.Fatal(err)
	}
	tellsNothing(103)
}

// The library's pipeline takes one request after a rejection, and holds the next one for ever.
func TestPipeline_NothingIsToldAfterARefusal(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	sender, receiver := n.listen(t, Options{NodeID: "n1"}).Group(testGroup), n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
	var asked atomic.Int64
	answer := make(chan struct{})
	takeAppends(t, receiver, func(*raft.AppendEntriesRequest) (*raft.AppendEntriesResponse, error) {
		asked.Add(1)
		<-answer
		return &raft.AppendEntriesResponse{}, nil
	})
	p := openPipeline(t, sender)
	if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 100, PrevLogTerm: 2, Entries: entries(101, 1)}, new(raft.AppendEntriesResponse)); err != nil {
		t.Fatal(err)
	}
	sender.Bind(fakeRaft{term: 3, state: raft.Leader})
	sender.TellCommitted(101)
	close(answer)
	sender.pipelines.tells.Wait()
	if got := asked.Load(); got != 1 {
		t.Errorf("%d requests, want only the one that was rejected", got)
	}
}

// lastOf is the last request that was sent.
func lastOf(p raft.AppendPipeline) *request {
	sent := p.(*pipeline)
	sent.turn.take()
	defer sent.turn.give()
	return sent.before
}

// openPipeline opens one to n2 and reads the answers, as raft does, up to the first rejection.
func openPipeline(t *testing.T, sender *Group) raft.AppendPipeline {
	t.Helper()
	p, err := sender.AppendEntriesPipeline("n2", "n2")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		close(done)
		_ = p.Close()
	})
	go func() {
		for {
			select {
			case f := <-p.Consumer():
				if !f.Response().Success {
					return
				}
			case <-done:
				return
			}
		}
	}()
	return p
}

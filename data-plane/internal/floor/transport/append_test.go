package transport

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// An entry of a few hundred kilobytes, as a full one is under load.
const bigEntry = 300 << 10

func bigData(seed, size int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%07d,", seed), size/8) }

// A follower that was away gets everything in messages of bounded size, and the leader
// reads each entry about once for it.
func TestAppend_AFollowerThatWasAwayGetsBoundedMessages(t *testing.T) {
	t.Parallel()
	for name, appends := range map[string]int{"request by request": 256, "pipeline": MessageEntriesMax - 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipelines := appends < MessageEntriesMax
			n := newNetwork()
			follower := startPrepared(t, n, Options{NodeID: "n3"}, time.Minute, nil, func(m *member) { prepareLog(t, m, false) })
			leader := startPrepared(t, n, Options{NodeID: "n1"}, 200*time.Millisecond, nil, func(m *member) {
				prepareLog(t, m, false)
				m.wire.pipelines = pipelines
			})
			eventually.True(t, patience, "leadership", func() bool { return leader.raft.State() == raft.Leader })
			leader.apply(t, "before")
			eventually.True(t, patience, "the follower", func() bool { return follower.fsm.has("before") })

			to := link{"n1", "n3"}
			if !pipelines {
				n.cut(to)
			} else {
				follower.logs.gate.Lock() // The pipeline stays open, and nothing is answered.
			}
			var last uint64
			for i := range appends {
				size := bigEntry
				if i == appends/2 {
					size = MessageBytesMax + bigEntry // Travels alone.
				}
				f := leader.raft.Apply(bigData(i, size), time.Second)
				if err := f.Error(); err != nil {
					t.Fatal(err)
				}
				last = f.Index()
			}
			reads := leader.logs.reads.Load()
			follower.logs.most.Store(0) // Of what was written before.
			if pipelines {
				follower.logs.gate.Unlock()
			}
			n.heal(to)
			eventually.True(t, patience, "catching up", func() bool { return follower.raft.AppliedIndex() >= last })

			most, reads := follower.logs.most.Load(), leader.logs.reads.Load()-reads
			t.Logf("%d entries of %d KiB: at most %d KiB in a message of several, %d entries read", appends, bigEntry>>10, most>>10, reads)
			if most > MessageBytesMax {
				t.Errorf("a message of several entries had %d bytes", most)
			}
			if reads > 2*int64(appends) {
				t.Errorf("the leader read %d entries to send %d", reads, appends)
			}
			if err := sameLogs(leader, follower, last); err != nil {
				t.Error(err)
			}
		})
	}
}

// A follower that was away for a moment, of which the pipeline still stands, does not get
// one message a tick.
func TestPipeline_AFollowerThatIsBehindCatchesUpWithoutWaitingForTicks(t *testing.T) {
	t.Parallel()
	const (
		tick     = 500 * time.Millisecond
		messages = 64 // More ticks than the test has patience for.
	)
	n := newNetwork()
	follower := startPrepared(t, n, Options{NodeID: "n3"}, time.Minute, nil, func(m *member) { prepareLog(t, m, false) })
	leader := startPrepared(t, n, Options{NodeID: "n1"}, 200*time.Millisecond, nil, func(m *member) {
		prepareLog(t, m, false)
		m.wire.pipelines = true
		m.conf.CommitTimeout = tick
	})
	eventually.True(t, patience, "leadership", func() bool { return leader.raft.State() == raft.Leader })
	leader.apply(t, "before")
	eventually.True(t, patience, "the follower", func() bool { return follower.fsm.has("before") })
	follower.logs.gate.Lock()
	for i := range messages * MessageEntriesMax {
		leader.apply(t, fmt.Sprint(i))
	}
	last := leader.raft.LastIndex()
	follower.logs.gate.Unlock()
	eventually.True(t, patience, "catching up", func() bool { return follower.raft.LastIndex() >= last })
	if err := sameLogs(leader, follower, last); err != nil {
		t.Error(err)
	}
}

func sameLogs(a, b *member, last uint64) error {
	for i := uint64(1); i <= last; i++ {
		var x, y raft.Log
		if err := errors.Join(a.logs.GetLog(i, &x), b.logs.GetLog(i, &y)); err != nil {
			return fmt.Errorf("index %d: %w", i, err)
		}
		if x.Term != y.Term || x.Type != y.Type || !bytes.Equal(x.Data, y.Data) {
			return fmt.Errorf("index %d differs", i)
		}
	}
	return nil
}

// entries makes one entry of each size, from index first on; each has a term of its own.
func entries(first uint64, sizes ...int) (list []*raft.Log) {
	for i, size := range sizes {
		list = append(list, &raft.Log{Index: first + uint64(i), Term: first + uint64(i), Data: make([]byte, size)})
	}
	return list
}

func TestParts_FollowOneAnotherAndEachProvesWhatItCommits(t *testing.T) {
	t.Parallel()
	const half = MessageBytesMax / 2
	for name, c := range map[string]struct {
		sizes []int
		want  []int // Entries of each part.
	}{
		"no entries":             {nil, []int{0}},
		"one small":              {[]int{1}, []int{1}},
		"all fit":                {[]int{1, 2, 3}, []int{3}},
		"one too large":          {[]int{3 * half}, []int{1}},
		"a large one among some": {[]int{1, 1, 3 * half, 1}, []int{2, 1, 1}},
		"two halves do not fit":  {[]int{half, half, 1}, []int{1, 2}}, // With what surrounds each.
		"many empty ones":        {make([]int, 2*MessageBytesMax/entryOverhead), []int{MessageBytesMax / entryOverhead, MessageBytesMax / entryOverhead}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := raft.AppendEntriesRequest{Term: 9, PrevLogEntry: 100, PrevLogTerm: 100, Entries: entries(101, c.sizes...), LeaderCommitIndex: 1 << 40}
			at, list := uint64(100), parts(&req)
			if len(list) != len(c.want) {
				t.Fatalf("%d parts, want %d", len(list), len(c.want))
			}
			for i, part := range list {
				if len(part.Entries) != c.want[i] {
					t.Errorf("part %d has %d entries, want %d", i, len(part.Entries), c.want[i])
				}
				if part.Term != 9 || part.PrevLogEntry != at || part.PrevLogTerm != at {
					t.Errorf("part %d of term %d follows entry %d of term %d, want %d", i, part.Term, part.PrevLogEntry, part.PrevLogTerm, at)
				}
				at += uint64(len(part.Entries))
				if i < len(list)-1 && part.LeaderCommitIndex != at {
					t.Errorf("part %d ends at %d and commits %d", i, at, part.LeaderCommitIndex)
				}
			}
			if at != 100+uint64(len(c.sizes)) || list[len(list)-1].LeaderCommitIndex != 1<<40 {
				t.Errorf("the parts end at %d", at)
			}
		})
	}
}

// takeAppends plays the raft loop of g for appends.
func takeAppends(t testing.TB, g *Group, take func(*raft.AppendEntriesRequest) (*raft.AppendEntriesResponse, error)) {
	t.Helper()
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case rpc := <-g.Consumer():
				rpc.Respond(take(rpc.Command.(*raft.AppendEntriesRequest)))
			case <-done:
				return
			}
		}
	})
	t.Cleanup(func() { close(done); work.Wait() })
}

// Entries that the follower has accepted count, whatever happens to the rest.
func TestAppend_WhatWasTakenBeforeAFaultCounts(t *testing.T) {
	t.Parallel()
	big := []int{MessageBytesMax, MessageBytesMax, MessageBytesMax}
	for name, c := range map[string]struct {
		third   *raft.AppendEntriesResponse
		err     error
		entries int // That raft may count as taken.
		success bool
	}{
		"an error":     {third: new(raft.AppendEntriesResponse), err: errors.New("the disk is full"), entries: 2, success: true},
		"a newer term": {third: &raft.AppendEntriesResponse{Term: 7}},
		"nothing":      {third: &raft.AppendEntriesResponse{Success: true}, entries: 3, success: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork()
			sender, receiver := n.listen(t, Options{NodeID: "n1"}).Group(testGroup), n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
			takeAppends(t, receiver, func(req *raft.AppendEntriesRequest) (*raft.AppendEntriesResponse, error) {
				if req.PrevLogEntry == 102 {
					return c.third, c.err
				}
				return &raft.AppendEntriesResponse{Success: true, LastLog: req.PrevLogEntry + 1}, nil
			})
			req := raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 100, PrevLogTerm: 2, Entries: entries(101, big...)}
			var resp raft.AppendEntriesResponse
			if err := sender.AppendEntries("n2", "n2", &req, &resp); err != nil {
				t.Fatal(err)
			}
			if resp.Success != c.success || resp.Term != c.third.Term {
				t.Errorf("answer %+v", resp)
			}
			if resp.Success && len(req.Entries) != c.entries {
				t.Errorf("%d entries count as taken, want %d", len(req.Entries), c.entries)
			}
		})
	}
}

// A node takes no request that is larger than any that a node of the cell sends: it
// ends the connection before it has read all of it.
func TestReceive_ARequestBeyondTheBoundEndsItsConnection(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	sender := n.listen(t, Options{NodeID: "n1"}).Group(testGroup)
	receiver := n.listen(t, Options{NodeID: "n2", requestBytesMax: 4 << 20}).Group(testGroup)
	var mu sync.Mutex // Guards seen.
	var seen []int
	takeAppends(t, receiver, func(req *raft.AppendEntriesRequest) (*raft.AppendEntriesResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, len(req.Entries))
		return &raft.AppendEntriesResponse{Success: true}, nil
	})
	send := func(sizes ...int) error {
		req := raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 100, PrevLogTerm: 2, Entries: entries(101, sizes...)}
		return sender.NetworkTransport.AppendEntries("n2", "n2", &req, new(raft.AppendEntriesResponse)) // Not in parts.
	}
	for range 3 { // Each is within the bound by itself, on one connection.
		if err := send(1<<20, 2<<20); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(2<<20, 3<<20); err == nil {
		t.Error("a request of 5 MiB was taken")
	}
	if err := send(1); err != nil {
		t.Errorf("after it, on a new connection: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(seen) != "[2 2 2 1]" {
		t.Errorf("raft saw requests of %v entries", seen)
	}
	if m := receiver.mux.Metrics(); m.RequestsTooLarge != 1 {
		t.Errorf("%d counted", m.RequestsTooLarge)
	}
}

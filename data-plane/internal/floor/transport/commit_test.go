package transport

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// A follower commits no further than what a message proves to be its leader's. The
// library's follower commits up to its own last index, so a suffix that it kept from
// another leader would be applied (Raft's figure 2: "min(leaderCommit, index of last
// new entry)").

// Both logs begin with the configuration and three entries of term 1. The follower has
// entries of a leader of term 2 behind them that nobody else has.
const (
	commonEnd = 4
	staleEnd  = 10
)

// prepareLog fills a member's log with the common entries, and with stale ones.
func prepareLog(t testing.TB, m *member, stale bool) {
	t.Helper()
	members := raft.Configuration{Servers: []raft.Server{
		{ID: "n1", Address: "n1", Suffrage: raft.Voter},
		{ID: "n3", Address: "n3", Suffrage: raft.Nonvoter}, // It never stands for election itself.
	}}
	logs := []*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(members)}}
	for i := uint64(2); i <= commonEnd; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: fmt.Appendf(nil, "common %d", i)})
	}
	for i := uint64(commonEnd + 1); stale && i <= staleEnd; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 2, Type: raft.LogCommand, Data: fmt.Appendf(nil, "stale %d", i)})
	}
	if err := m.logs.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
	if err := m.logs.SetUint64([]byte("CurrentTerm"), 2); err != nil {
		t.Fatal(err)
	}
}

// Each message matches the follower's log, knows of a later commit index and ends
// before the stale suffix does.
func TestCommitIndex_AStaleSuffixIsNotCommittedByWhatEndsBeforeIt(t *testing.T) {
	t.Parallel()
	common := func(from, to uint64) (list []*raft.Log) {
		for i := from; i <= to; i++ {
			list = append(list, &raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: fmt.Appendf(nil, "common %d", i)})
		}
		return list
	}
	for name, c := range map[string]struct {
		prev    uint64
		entries []*raft.Log
		commits uint64
	}{
		"no entries":          {prev: commonEnd, commits: commonEnd},
		"entries it has":      {prev: 2, entries: common(3, commonEnd), commits: commonEnd},
		"fewer than it has":   {prev: 1, entries: common(2, 3), commits: 3},
		"nothing yet matched": {prev: 2, commits: 2},
	} {
		for way, send := range map[string]func(*Group, *raft.AppendEntriesRequest) (bool, error){"request": sendRequest, "pipeline": sendPipelined} {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				n := newNetwork()
				leader := n.listen(t, Options{NodeID: "n1"}).Group(testGroup)
				follower := startPrepared(t, n, Options{NodeID: "n3"}, time.Minute, nil, func(m *member) { prepareLog(t, m, true) })
				header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n1"), Addr: []byte("n1")}

				took, err := send(leader, &raft.AppendEntriesRequest{
					RPCHeader: header, Term: 3, PrevLogEntry: c.prev, PrevLogTerm: 1, Entries: c.entries, LeaderCommitIndex: staleEnd,
				})
				if err != nil || !took {
					t.Fatalf("taken %v, %v", took, err)
				}
				if got := follower.raft.CommitIndex(); got != c.commits {
					t.Errorf("committed up to %d by a message that proves %d", got, c.commits)
				}

				own := &raft.Log{Index: commonEnd + 1, Term: 3, Type: raft.LogCommand, Data: []byte("the leader's")}
				took, err = send(leader, &raft.AppendEntriesRequest{
					RPCHeader: header, Term: 3, PrevLogEntry: commonEnd, PrevLogTerm: 1, Entries: []*raft.Log{own}, LeaderCommitIndex: staleEnd,
				})
				if err != nil || !took {
					t.Fatalf("taken %v, %v", took, err)
				}
				eventually.True(t, patience, "the leader's entry", func() bool { return follower.fsm.has("the leader's") })
				for i, data := range follower.fsm.copy() {
					if want := fmt.Sprintf("common %d", i); i <= commonEnd && data != want || i > commonEnd && data != "the leader's" {
						t.Errorf("index %d: %q was applied", i, data)
					}
				}
			})
		}
	}
}

func sendRequest(g *Group, args *raft.AppendEntriesRequest) (bool, error) {
	var resp raft.AppendEntriesResponse
	err := g.AppendEntries("n3", "n3", args, &resp)
	return resp.Success, err
}

func sendPipelined(g *Group, args *raft.AppendEntriesRequest) (bool, error) {
	p, err := g.AppendEntriesPipeline("n3", "n3")
	if err != nil {
		return false, err
	}
	defer p.Close()
	f, err := p.AppendEntries(args, new(raft.AppendEntriesResponse))
	if err != nil {
		return false, err
	}
	err = f.Error()
	return f.Response().Success, err
}

// The library's leader makes such a message itself: it looks at the end of its log,
// then (after up to ten seconds of back-off from a follower that was away) at its
// commit index, and what was committed in between is not in the message. Here the
// pause is held until the leader's first entry is committed.
//
// The second test is the control: without the bound a real leader and a real follower
// diverge by the same steps. Run both after every upgrade of the raft library.

func TestCommitIndex_ALeaderThatCommitsWhileItMakesAMessageDivergesNobody(t *testing.T) {
	t.Parallel()
	if err := commitWhileMakingAMessage(t, false); err != nil {
		t.Error(err)
	}
}

func TestCommitIndex_StockFollowerAppliesItsStaleSuffix(t *testing.T) {
	t.Parallel()
	err := commitWhileMakingAMessage(t, true)
	if err == nil {
		t.Fatal("no divergence: the test above proves nothing")
	}
	t.Log(err)
}

func commitWhileMakingAMessage(t *testing.T, stock bool) error {
	t.Helper()
	n := newNetwork()
	follower := startPrepared(t, n, Options{NodeID: "n3", stockCommits: stock}, time.Minute, nil, func(m *member) { prepareLog(t, m, true) })

	var making atomic.Int32 // Messages that the leader has begun.
	var leader *member
	started := make(chan struct{})
	leader = startPrepared(t, n, Options{NodeID: "n1"}, 200*time.Millisecond, nil, func(m *member) {
		prepareLog(t, m, false)
		m.logs.gate.Lock() // Its first entry as a leader waits for the disk.
		m.wire.encoding = func() {
			<-started
			if leader.raft.State() != raft.Leader {
				return
			}
			making.Add(1)
			eventually.True(t, patience, "a commit of the leader's own term", func() bool { return leader.raft.CommitIndex() > commonEnd })
		}
	})
	close(started)
	// A heartbeat and an append: the append has seen where the log ends.
	eventually.True(t, patience, "two messages in the making", func() bool { return making.Load() >= 2 })
	leader.logs.gate.Unlock()
	leader.apply(t, "after")
	eventually.True(t, patience, "catching up", func() bool { return follower.fsm.has("after") || appliedStale(follower) != nil })
	return errors.Join(appliedStale(follower), divergence(leader, follower))
}

func appliedStale(m *member) error {
	for i, data := range m.fsm.copy() {
		if strings.HasPrefix(data, "stale") {
			return fmt.Errorf("index %d: %s applied %q", i, m.id, data)
		}
	}
	return nil
}

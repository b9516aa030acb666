package transport

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// hashicorp/raft#695, on the production transport: a heartbeat of a newer term
// reaches an old leader beside its main loop, one write is stamped with the new
// term, and its log keeps an entry nobody else has.
//
// The second test is the control: without the filter the same steps do diverge.
// Run both after every upgrade of the raft library. If only the control fails,
// the library may have been fixed.

func TestHeartbeatFilter_OldLeaderNeverStampsTheNewTerm(t *testing.T) {
	t.Parallel()
	for attempt := range 3 {
		if err := isolateLeaderAndWrite(t, false); err != nil {
			t.Fatalf("attempt %d: logs diverged with the filter: %v", attempt+1, err)
		}
	}
}

func TestHeartbeatFilter_StockHandlerDiverges(t *testing.T) {
	t.Parallel()
	const attempts = 8
	for attempt := range attempts {
		if err := isolateLeaderAndWrite(t, true); err != nil {
			t.Logf("attempt %d: %v", attempt+1, err)
			return
		}
	}
	t.Errorf("no divergence in %d attempts: the test above proves nothing", attempts)
}

// isolateLeaderAndWrite plays the scenario once on a fresh cluster and returns
// how the logs differ in the end, nil if they do not.
func isolateLeaderAndWrite(t *testing.T, stock bool) (diverged error) {
	t.Helper()
	t.Run("", func(t *testing.T) {
		n := newNetwork()
		voters := []string{"n1", "n2", "n3"}
		start := func(id string, timeout time.Duration) *member {
			return startMember(t, n, Options{NodeID: id, stockHeartbeats: stock}, timeout, voters)
		}
		// The old leader's lease outlasts the test: it does not step down by itself.
		old := start("n1", time.Minute)
		b, c := start("n2", 200*time.Millisecond), start("n3", 200*time.Millisecond)
		lead(t, old, b, c)
		old.apply(t, "before")

		n.cut(link{"n1", "n2"}, link{"n1", "n3"}, link{"n2", "n1"}, link{"n3", "n1"})
		applyOn(t, "committed by the majority", b, c)
		if old.raft.State() != raft.Leader {
			t.Fatal("the old leader stepped down too early")
		}

		// It hears again, heartbeats first; its own requests stay lost.
		b.wire.set(true)
		c.wire.set(true)
		term := old.raft.CurrentTerm()
		n.heal(link{"n2", "n1"}, link{"n3", "n1"})
		eventually.True(t, patience, "a heartbeat at the old leader", func() bool { return old.raft.CurrentTerm() > term })
		if m := old.wire.mux.Metrics(); !stock && m.HeartbeatsQueued == 0 {
			t.Fatal("the newer heartbeat did not pass the filter")
		}
		lost := old.raft.Apply([]byte("written to the old leader"), time.Second)

		b.wire.set(false)
		c.wire.set(false)
		next := applyOn(t, "after", b, c)
		eventually.True(t, patience, "catching up", func() bool { return old.fsm.has("after") })
		diverged = divergence(old, next)
		if err := lost.Error(); err == nil && diverged == nil {
			t.Error("the old leader confirmed a write that nobody has")
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return diverged
}

// lead makes want the leader.
func lead(t *testing.T, want *member, others ...*member) {
	t.Helper()
	eventually.True(t, patience, "leadership of "+want.id, func() bool {
		if want.raft.State() == raft.Leader {
			return true
		}
		if l := leaderOf(others...); l != nil {
			// It may fail while the cluster settles; the next round tries again.
			_ = l.raft.LeadershipTransferToServer(raft.ServerID(want.id), raft.ServerAddress(want.id)).Error()
		}
		return want.raft.State() == raft.Leader
	})
}

// What the fast path is for, and the filter must keep: followers whose main loop
// waits for the disk still answer heartbeats, and the leader stays.
func TestHeartbeatFilter_BlockedFollowersKeepTheirLeader(t *testing.T) {
	t.Parallel()
	const timeout = time.Second // The lease is half of it, enough for a busy machine.
	n := newNetwork()
	voters := []string{"n1", "n2", "n3"}
	leader := startMember(t, n, Options{NodeID: "n1"}, timeout, voters)
	followers := []*member{
		startMember(t, n, Options{NodeID: "n2"}, timeout, voters),
		startMember(t, n, Options{NodeID: "n3"}, timeout, voters),
	}
	lead(t, leader, followers...)
	leader.apply(t, "before")
	term := leader.raft.CurrentTerm()

	for _, f := range followers {
		f.logs.gate.Lock()
	}
	stuck := leader.raft.Apply([]byte("stuck"), time.Second)
	// Heartbeats are at least a tenth of the timeout apart: a second and more.
	const heartbeats = 12
	for _, f := range followers {
		eventually.True(t, patience, "a blocked write", func() bool { return f.logs.blocked.Load() > 0 })
		start := f.wire.mux.Metrics().HeartbeatsFast
		eventually.True(t, patience, "heartbeats answered beside the blocked loop", func() bool {
			return f.wire.mux.Metrics().HeartbeatsFast >= start+heartbeats || leader.raft.State() != raft.Leader
		})
	}
	if leader.raft.State() != raft.Leader || leader.raft.CurrentTerm() != term {
		t.Errorf("%v in term %d, want leader in term %d", leader.raft.State(), leader.raft.CurrentTerm(), term)
	}
	for _, f := range followers {
		f.logs.gate.Unlock()
	}
	if err := stuck.Error(); err != nil {
		t.Errorf("write after the disks came back: %v", err)
	}
}

// fakeRaft answers the filter's questions.
type fakeRaft struct {
	term    uint64
	state   raft.RaftState
	contact time.Duration // Before now.
	timeout time.Duration
}

func (f fakeRaft) CurrentTerm() uint64    { return f.term }
func (f fakeRaft) State() raft.RaftState  { return f.state }
func (f fakeRaft) LastContact() time.Time { return time.Now().Add(-f.contact) }
func (f fakeRaft) ReloadableConfig() raft.ReloadableConfig {
	return raft.ReloadableConfig{HeartbeatTimeout: f.timeout}
}

func TestHeartbeatFilter_FastPathOnlyWhenNothingCanChange(t *testing.T) {
	t.Parallel()
	follower := fakeRaft{term: 5, state: raft.Follower, contact: time.Second, timeout: time.Hour}
	for name, c := range map[string]struct {
		change func(*fakeRaft)
		fast   bool
	}{
		"follower of the same term":   {func(*fakeRaft) {}, true},
		"newer term":                  {func(f *fakeRaft) { f.term = 4 }, false},
		"older term":                  {func(f *fakeRaft) { f.term = 6 }, false},
		"leader":                      {func(f *fakeRaft) { f.state = raft.Leader }, false},
		"candidate":                   {func(f *fakeRaft) { f.state = raft.Candidate }, false},
		"shut down":                   {func(f *fakeRaft) { f.state = raft.Shutdown }, false},
		"about to stand for election": {func(f *fakeRaft) { f.contact = 40 * time.Minute }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork()
			sender := n.listen(t, Options{NodeID: "n1"}).Group(testGroup)
			receiver := n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
			var fast atomic.Bool
			receiver.SetHeartbeatHandler(func(rpc raft.RPC) {
				fast.Store(true)
				rpc.Respond(&raft.AppendEntriesResponse{}, nil)
			})
			f := follower
			c.change(&f)
			receiver.Bind(f)
			answer(t, receiver)
			beat := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ID: []byte("n1"), Addr: []byte("n1")}, Term: 5}
			if err := sender.AppendEntries("n2", "n2", &beat, new(raft.AppendEntriesResponse)); err != nil {
				t.Fatal(err)
			}
			if fast.Load() != c.fast {
				t.Errorf("fast path taken: %v, want %v", fast.Load(), c.fast)
			}
			beat.Entries = []*raft.Log{{Index: 1, Term: 5}}
			fast.Store(false)
			if err := sender.AppendEntries("n2", "n2", &beat, new(raft.AppendEntriesResponse)); err != nil {
				t.Fatal(err)
			}
			if fast.Load() {
				t.Error("an append took the fast path")
			}
		})
	}
}

func TestHeartbeatFilter_UnboundQueuesEveryHeartbeat(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	sender := n.listen(t, Options{NodeID: "n1"}).Group(testGroup)
	receiver := n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
	receiver.SetHeartbeatHandler(func(rpc raft.RPC) {
		t.Error("fast path taken before Bind")
		rpc.Respond(&raft.AppendEntriesResponse{}, nil)
	})
	answer(t, receiver)
	beat := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ID: []byte("n1"), Addr: []byte("n1")}, Term: 5}
	if err := sender.AppendEntries("n2", "n2", &beat, new(raft.AppendEntriesResponse)); err != nil {
		t.Fatal(err)
	}
}

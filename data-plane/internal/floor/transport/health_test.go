package transport

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

const testTimeout = 200 * time.Millisecond

// trio starts three members, the first of them leading, with the health of each.
func trio(t *testing.T) (members []*member, fitness []*health.Health) {
	t.Helper()
	n := newNetwork()
	voters := []string{"n1", "n2", "n3"}
	for _, id := range voters {
		h := health.New(quiet())
		fitness = append(fitness, h)
		members = append(members, startMember(t, n, Options{NodeID: id, Health: h}, testTimeout, voters))
	}
	lead(t, members[0], members[1], members[2])
	members[0].apply(t, "before")
	return members, fitness
}

// stall blocks the member's log, with a write in it, until the test ends.
func (m *member) stall(t *testing.T) {
	t.Helper()
	m.logs.gate.Lock()
	t.Cleanup(m.logs.gate.Unlock)
	m.raft.Apply([]byte("stuck"), 0)
	eventually.True(t, patience, "a blocked write", func() bool { return m.logs.blocked.Load() > 0 })
}

// beats is how many heartbeats members have answered outside their main loops.
func beats(members ...*member) (n uint64) {
	for _, m := range members {
		n += m.wire.mux.Metrics().HeartbeatsFast
	}
	return n
}

func TestSilence_ALeaderStuckInAWriteIsReplaced(t *testing.T) {
	t.Parallel()
	m, fitness := trio(t)
	m[0].stall(t)
	fitness[0].Set(health.DiskStalled, "")
	applyOn(t, "after", m[1], m[2])
}

// The control of the test above: what a stuck leader does without it.
func TestSilence_WithoutItAStuckLeaderKeepsItsGroup(t *testing.T) {
	t.Parallel()
	m, _ := trio(t)
	m[0].stall(t)
	// A leader sends ten in each timeout, to each follower.
	enough := beats(m[1], m[2]) + 200
	eventually.True(t, patience, "ten timeouts of heartbeats", func() bool { return beats(m[1], m[2]) > enough })
	if leaderOf(m[1], m[2]) != nil {
		t.Error("somebody replaced the leader: silence is not needed any more")
	}
}

func TestSilence_ALeaderThatIsNotStuckStepsDown(t *testing.T) {
	t.Parallel()
	m, fitness := trio(t)
	fitness[0].Set(health.Clock, "")
	applyOn(t, "after", m[1], m[2])
	eventually.True(t, patience, "stepping down", func() bool { return m[0].raft.State() != raft.Leader })
	fitness[0].Clear(health.Clock)
	eventually.True(t, patience, "following again", func() bool { return m[0].fsm.has("after") })
}

func TestUnfit_TakesNoLeadership(t *testing.T) {
	t.Parallel()
	m, fitness := trio(t)
	fitness[1].Set(health.ShuttingDown, "")
	if err := m[0].raft.LeadershipTransferToServer("n2", "n2").Error(); err == nil {
		t.Error("an unfit node took a leadership that it was offered")
	}
	m[0].stall(t)
	fitness[0].Set(health.DiskStalled, "")
	eventually.True(t, patience, "the third to lead", func() bool { return m[2].raft.State() == raft.Leader })
}

func TestDegraded_LeadsWhereNobodyElseCan(t *testing.T) {
	t.Parallel()
	m, fitness := trio(t)
	fitness[1].Set(health.DiskFull, "")
	fitness[2].Set(health.DiskTight, "")
	m[0].stall(t)
	fitness[0].Set(health.DiskStalled, "")
	applyOn(t, "after", m[1], m[2])
}

// The leader has chosen it, because no node is better. It must not yield first: meanwhile
// the old leader is elected again and offers it once more, for as long as that goes on.
func TestDegraded_TakesALeadershipThatIsHandedToIt(t *testing.T) {
	t.Parallel()
	m, fitness := trio(t)
	fitness[0].Set(health.DiskFull, "")
	fitness[1].Set(health.DiskTight, "")
	if err := m[0].raft.LeadershipTransferToServer("n2", "n2").Error(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, yieldFor/2, "n2 to lead", func() bool { return m[1].raft.State() == raft.Leader })
}

package group

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// deafWire never comes back from handing the leadership over, until the test ends.
type deafWire struct {
	wire
	asked, end chan struct{}
}

func (d deafWire) TimeoutNow(raft.ServerID, raft.ServerAddress, *raft.TimeoutNowRequest, *raft.TimeoutNowResponse) error {
	close(d.asked)
	<-d.end
	return nil
}

// The library forgets a transfer only when its call comes back (hashicorp/raft#696).
// A node that lost its lead meanwhile and wins it again is refused its first barrier:
// nothing would ever be proposed that could notice.
func TestTransfer_OneThatNeverEndsIsNoticedByTheNextTerm(t *testing.T) {
	t.Parallel()
	ids := []string{"a", "b", "c"}
	deaf := deafWire{asked: make(chan struct{}), end: make(chan struct{})}
	var all []*replica
	for _, id := range ids {
		s := setup{id: id, disks: memDisks(), bootstrap: ids, peers: all}
		if id == "a" {
			s.wrap = func(w wire) Transport { deaf.wire = w; return deaf }
		}
		all = append(all, mustOpen(t, s))
	}
	t.Cleanup(func() {
		close(deaf.end)
		for _, r := range all[1:] { // The first has stopped for good.
			r.stop(t)
		}
	})
	a := all[0]
	give := func() {
		for _, r := range all[1:] {
			if r.Leading() {
				_ = r.Transfer("a") // Tried again until it works.
			}
		}
	}
	eventually.True(t, patience, "a leads", func() bool { give(); return a.Leading() })
	_ = a.Transfer("b") // Times out; the library goes on waiting for the call.
	<-deaf.asked

	a.wire.DisconnectAll()
	for _, r := range all[1:] {
		r.wire.Disconnect("a")
	}
	eventually.True(t, patience, "another leads", func() bool { return all[1].Leading() || all[2].Leading() })
	eventually.True(t, patience, "a knows", func() bool { return !a.Leading() })
	for _, r := range all[1:] {
		a.wire.Connect(raft.ServerAddress(r.id), r.wire.InmemTransport)
		r.wire.Connect("a", a.wire.InmemTransport)
	}
	eventually.True(t, patience, "a leads again and is refused", func() bool { give(); return a.transferring.Load() != 0 })
	if a.Leading() {
		t.Fatal("a counts as leading although it takes no entries")
	}
	a.transferring.Add(-int64(transferStuck)) // As if it had lasted that long.
	select {
	case <-a.fatal:
	case <-time.After(patience):
		t.Fatal("the node goes on leading a group that takes no entries")
	}
}

// A transfer that proposals met long ago, before others led, has nothing to do with one of now.
func TestTransfer_TwoWithNothingInBetweenAreNotOneThatNeverEnds(t *testing.T) {
	t.Parallel()
	g := &Group{fatal: func(err error) { t.Errorf("the node ends: %v", err) }}
	g.watchTransfer(raft.ErrLeadershipTransferInProgress)
	g.transferring.Add(-int64(time.Hour))
	g.refused.Add(-int64(time.Hour - time.Minute))
	g.watchTransfer(raft.ErrLeadershipTransferInProgress)
	g.watchTransfer(raft.ErrLeadershipTransferInProgress)
}

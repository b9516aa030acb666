package group

import (
	"errors"
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

// slowWire hands the leadership to a node that hangs: the call fails, but late.
type slowWire struct {
	wire
	takes time.Duration
}

func (s slowWire) TimeoutNow(raft.ServerID, raft.ServerAddress, *raft.TimeoutNowRequest, *raft.TimeoutNowResponse) error {
	time.Sleep(s.takes)
	return errors.New("i/o timeout")
}

// ledByFirst is a group of three of which the first, a, leads. give has the others give it the
// leadership again, if it lost it and one of them has it.
func ledByFirst(t *testing.T, first setup) (all []*replica, give func()) {
	t.Helper()
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		s := setup{}
		if id == "a" {
			s = first
		}
		s.id, s.disks, s.bootstrap, s.peers = id, memDisks(), ids, all
		all = append(all, mustOpen(t, s))
	}
	give = func() {
		for _, r := range all[1:] {
			if r.Leading() {
				_ = r.Transfer("a") // Tried again until it works.
			}
		}
	}
	eventually.True(t, patience, "a leads", func() bool { give(); return all[0].Leading() })
	return all, give
}

// A node that hangs doesn't take down the leader that wanted to hand over to it, however long the
// call to it takes.
func TestTransfer_ToANodeThatHangsLeavesALeaderThatServesAgain(t *testing.T) {
	t.Parallel()
	const callMax = 400 * time.Millisecond
	all, give := ledByFirst(t, setup{callMax: callMax, wrap: func(w wire) Transport { return slowWire{w, callMax + 50*time.Millisecond} }})
	a := all[0]
	go func() { _ = a.Transfer("b") }() // Fails by its own time-out; the call goes on.
	served := make(chan struct{})
	go func() { // A leader that ends itself doesn't come back from Wait.
		defer close(served)
		for refused, err := false, error(nil); err != nil || !refused; refused = refused || err != nil {
			give() // On a busy machine it may have lost its lead.
			_, err = a.Propose(a.Now(), []byte("meanwhile")).Wait()
		}
	}()
	select {
	case err := <-a.fatal:
		t.Fatalf("the leader ended itself: %v", err)
	case <-served:
	case <-time.After(patience):
		t.Fatal("the leader doesn't serve again, or never refused anything")
	}
	for _, r := range all {
		r.stop(t)
	}
}

// The library forgets a transfer only when its call comes back (hashicorp/raft#696).
// A node that lost its lead meanwhile and wins it again is refused its first barrier:
// nothing would ever be proposed that could notice.
func TestTransfer_OneThatNeverEndsIsNoticedByTheNextTerm(t *testing.T) {
	t.Parallel()
	deaf := deafWire{asked: make(chan struct{}), end: make(chan struct{})}
	all, give := ledByFirst(t, setup{wrap: func(w wire) Transport { deaf.wire = w; return deaf }})
	t.Cleanup(func() {
		close(deaf.end)
		for _, r := range all[1:] { // The first has stopped for good.
			r.stop(t)
		}
	})
	a := all[0]
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
	a.transferring.Add(-int64(a.transferStuck)) // As if it had lasted that long.
	select {
	case <-a.fatal:
	case <-time.After(patience):
		t.Fatal("the node goes on leading a group that takes no entries")
	}
}

// A transfer that proposals met long ago, before others led, has nothing to do with one of now.
func TestTransfer_TwoWithNothingInBetweenAreNotOneThatNeverEnds(t *testing.T) {
	t.Parallel()
	g := &Group{transferStuck: transferStuck(withDefaults(Options{})), fatal: func(err error) { t.Errorf("the node ends: %v", err) }}
	g.watchTransfer(raft.ErrLeadershipTransferInProgress)
	g.transferring.Add(-int64(time.Hour))
	g.refused.Add(-int64(time.Hour - time.Minute))
	g.watchTransfer(raft.ErrLeadershipTransferInProgress)
	g.watchTransfer(raft.ErrLeadershipTransferInProgress)
}

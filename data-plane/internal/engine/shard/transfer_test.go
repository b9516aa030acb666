package shard

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
)

// yesman answers every raft call with yes and does nothing: it votes, it
// acknowledges entries, and it never takes the leadership that is handed to it.
func yesman(ctx context.Context, t *raft.InmemTransport) {
	for {
		select {
		case rpc := <-t.Consumer():
			switch c := rpc.Command.(type) {
			case *raft.AppendEntriesRequest:
				last := c.PrevLogEntry
				if n := len(c.Entries); n > 0 {
					last = c.Entries[n-1].Index
				}
				rpc.Respond(&raft.AppendEntriesResponse{Term: c.Term, LastLog: last, Success: true}, nil)
			case *raft.RequestVoteRequest:
				rpc.Respond(&raft.RequestVoteResponse{Term: c.Term, Granted: true}, nil)
			case *raft.RequestPreVoteRequest:
				rpc.Respond(&raft.RequestPreVoteResponse{Term: c.Term, Granted: true}, nil)
			case *raft.TimeoutNowRequest:
				rpc.Respond(&raft.TimeoutNowResponse{}, nil)
			default:
				rpc.Respond(nil, errors.New("not expected"))
			}
		case <-ctx.Done():
			return
		}
	}
}

// pairHeartbeat is what a leader waits for the yesman before it steps down: longer than
// a busy machine keeps either of them from running, and how long a transfer takes to fail.
const pairHeartbeat = 2 * time.Second

// paired starts a shard that leads a group of two, the other being a yesman until
// deafen is called.
func paired(t *testing.T) (r *rig, deafen func()) {
	t.Helper()
	r, other := pairedWith(t, Options{})
	return r, other.deafen
}

// peer is the other replica of a pair.
type peer struct {
	*raft.InmemTransport
	deafen func() // It answers no more until it is listened to again.
}

func (p *peer) listen() {
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() { defer close(gone); yesman(ctx, p.InmemTransport) }()
	p.deafen = func() { cancel(); <-gone }
}

func pairedWith(t *testing.T, o Options) (r *rig, other *peer) {
	t.Helper()
	stores := grouptest.Open(t, grouptest.InMemory())
	here, there := grouptest.NewWire("n1"), grouptest.NewWire("n2")
	here.Connect("n2", there.InmemTransport)
	there.Connect("n1", here.InmemTransport)
	other = &peer{InmemTransport: there.InmemTransport}
	other.listen()
	g := stores.Replica(t, testShardID, grouptest.Setup{
		Wire: &here, Group: group.Options{Bootstrap: []string{"n1", "n2"}, Timings: group.Timings{Heartbeat: pairHeartbeat}},
	})
	r = &rig{New(g.Group, g.Store, o), stores}
	t.Cleanup(func() {
		r.stop(t)
		other.deafen()
	})
	r.waitLeading(t)
	return r, other
}

// callsTurnedAwayBy makes calls while a transfer that fails goes on, and counts those
// that were refused. The calls have no limit in time: one that gave up would not know
// its outcome, however the transfer goes.
func (r *rig) callsTurnedAwayBy(t *testing.T, s *stepper, transfer func() error) (turnedAway int) {
	t.Helper()
	over := make(chan error, 1)
	go func() { over <- transfer() }()
	for {
		select {
		case err := <-over:
			if err == nil {
				t.Fatal("the yesman took the leadership")
			}
			return turnedAway
		default:
		}
		_, err := r.Do(context.Background(), Request{After: []command.Command{s.newJob()}})
		if fault.CodeOf(err) == fault.UnknownOutcome {
			t.Fatalf("during the transfer: %v", err)
		}
		if err != nil {
			turnedAway++
		}
		time.Sleep(time.Millisecond) // A pace, not a wait.
	}
}

// A transfer that comes to nothing leaves the leader where it was, and it must
// serve again although it had to turn calls away meanwhile.
func TestTransfer_ThatFailsLeavesAServingLeader(t *testing.T) {
	t.Parallel()
	r, _ := paired(t)
	s := &stepper{tb: t}
	if rep := r.must(t, Request{After: []command.Command{s.newJob()}}); len(rep.After) != 1 {
		t.Fatalf("before: %+v", rep)
	}
	parked := make(chan error, 1)
	go func() {
		f := fetchReq(1, time.Hour, true)
		f.Fetch.Queues = []string{"empty"}
		_, err := r.Do(context.Background(), f)
		parked <- err
	}()
	eventually.True(t, patience, "the fetch is parked", func() bool { return r.stats.Parked.Load() == 1 })
	turnedAway := 0
	for turnedAway == 0 { // A busy machine may let a transfer pass between two calls.
		turnedAway = r.callsTurnedAwayBy(t, s, func() error { return r.Group().Transfer("n2") })
	}
	eventually.True(t, patience, "the leader serves again", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := r.Do(ctx, Request{After: []command.Command{s.newJob()}})
		return err == nil
	})
	select {
	case err := <-parked:
		if c := fault.CodeOf(err); c != fault.Unavailable && c != fault.NotLeader {
			t.Fatalf("the parked fetch: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the parked fetch hangs")
	}
}

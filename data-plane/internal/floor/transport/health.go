package transport

import (
	"errors"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// The library's goroutines that send to the peers know nothing of its main loop: a
// leader whose loop is stuck in a write goes on heartbeating, and nobody replaces it
// (hashicorp/raft#503). So here, where its messages leave, a node that must not lead
// is silent: followers hear nothing and elect. Not to send is always safe; raft
// takes it for a lost message.

// yieldFor is how long a node that leads badly leaves an election to the others. It
// is several elections long. Then it stands itself: somebody has to lead when all
// are full, or when only this one has the newest entries.
const yieldFor = 3 * time.Second

// errUnfit is what raft is told of a message that was not sent.
var errUnfit = errors.New("this node should not lead now")

// InstallSnapshot sends a snapshot over a connection of its own lane.
func (g *Group) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if g.mux.opts.Health.Silent() {
		return errUnfit
	}
	return g.sendSnapshot(id, target, args, resp, data)
}

// RequestVote asks for a vote.
func (g *Group) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if !g.mayStand() {
		return errUnfit
	}
	return g.NetworkTransport.RequestVote(id, target, args, resp)
}

// RequestPreVote asks whether a vote would be given.
func (g *Group) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if !g.mayStand() {
		return errUnfit
	}
	return g.timed(target, func() error { return g.NetworkTransport.RequestPreVote(id, target, args, resp) })
}

// mayStand says whether this node may stand for election now.
func (g *Group) mayStand() bool {
	switch g.mux.opts.Health.Standing() {
	case health.Fit:
		return true
	case health.Unfit:
		return false
	}
	heard := g.opened
	if bound := g.bound.Load(); bound != nil {
		if last := (*bound).LastContact(); last.After(heard) {
			heard = last
		}
	}
	return time.Since(heard) > yieldFor
}

// refused answers a request that raft must not see: an unfit node does not take a
// leadership that it is offered.
func (g *Group) refused(rpc raft.RPC) bool {
	if _, offer := rpc.Command.(*raft.TimeoutNowRequest); !offer || g.mux.opts.Health.Standing() < health.Unfit {
		return false
	}
	rpc.Respond(nil, errUnfit)
	return true
}

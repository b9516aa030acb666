package transport

import (
	"errors"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// The library's sending goroutines are independent of its main loop: a leader whose
// loop is stuck in a write goes on heartbeating, and nobody replaces it
// (hashicorp/raft#503). So a node that must not lead is silenced here: followers
// hear nothing and elect. Not sending is always safe; to raft it is a lost message.

// yieldFor is how long a node that should not lead leaves an election to the
// others: several elections. Then it stands itself, because somebody has to lead
// when all disks are full, or when only this node has the newest entries.
const yieldFor = 3 * time.Second

// errUnfit is what raft gets for a message that was not sent.
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
	if !g.mayStand(args.LeadershipTransfer) {
		return errUnfit
	}
	return g.NetworkTransport.RequestVote(id, target, args, resp)
}

// RequestPreVote asks whether a vote would be given.
func (g *Group) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if !g.mayStand(false) {
		return errUnfit
	}
	return g.timed(target, func() error { return g.NetworkTransport.RequestPreVote(id, target, args, resp) })
}

// mayStand says whether this node may stand for election now. One that was chosen, because
// a leader handed over to it, need not yield; it may have become unfit since.
func (g *Group) mayStand(chosen bool) bool {
	switch level := g.mux.opts.Health.Level(); {
	case level >= health.Unfit:
		return false
	case level == health.Fit || chosen:
		return true
	}
	heard := g.opened
	if bound := g.bound.Load(); bound != nil {
		if last := (*bound).LastContact(); last.After(heard) {
			heard = last
		}
	}
	return time.Since(heard) > yieldFor
}

// refused answers a request that raft must not see: an unfit node does not accept a
// transfer of leadership.
func (g *Group) refused(rpc raft.RPC) bool {
	if _, offer := rpc.Command.(*raft.TimeoutNowRequest); !offer || g.mux.opts.Health.Level() < health.Unfit {
		return false
	}
	rpc.Respond(nil, errUnfit)
	return true
}

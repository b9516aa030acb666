package group

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Status is what a replica can say of itself.
type Status struct {
	Group       uint32
	Role        string // leader, follower, candidate, learner, stopped, disputed.
	Leader      string
	Term        uint64
	LastIndex   uint64
	CommitIndex uint64
	// AppliedIndex is how far everything that is committed has been applied. Entries that no
	// state needs, which raft makes for itself, count as soon as their turn comes.
	AppliedIndex uint64
	// Digest belongs to DigestIndex.
	Digest      uint64
	DigestIndex uint64
	// Version of the cell under which the last entry was applied.
	Version  cellversion.Version
	Voters   []string
	Learners []string
	// Detail is what an operator should know, or "".
	Detail string
}

// termAndRole are of one moment: a replica that is elected in between would seem to lead in the term before.
func (g *Group) termAndRole() (term uint64, role string) {
	for {
		term, role = g.raft.CurrentTerm(), strings.ToLower(g.raft.State().String())
		if g.raft.CurrentTerm() == term {
			return term, role
		}
	}
}

// Status reads the replica's position and its view of the membership.
func (g *Group) Status() Status {
	s := Status{
		Group: g.id, Leader: g.Leader(),
		LastIndex: g.raft.LastIndex(), CommitIndex: g.raft.CommitIndex(),
	}
	s.Term, s.Role = g.termAndRole()
	s.DigestIndex, s.Digest = g.fsm.status()
	s.AppliedIndex, s.Version = g.pastOwn(s.DigestIndex, s.CommitIndex), g.fsm.version.Load()
	if g.raft.State() == raft.Shutdown || s.Role == "leader" && g.health.Silent() {
		s.Role = "stopped" // Stuck in a write, raft believes that it leads for as long.
	}
	f := g.raft.GetConfiguration()
	if f.Error() != nil {
		return s
	}
	for _, srv := range f.Configuration().Servers {
		if srv.Suffrage == raft.Voter {
			s.Voters = append(s.Voters, string(srv.ID))
			continue
		}
		s.Learners = append(s.Learners, string(srv.ID))
		if string(srv.ID) == g.nodeID && s.Role == "follower" {
			s.Role = "learner"
		}
	}
	if s.Role == "leader" {
		s.Detail = g.Behind()
	}
	if why := g.Disputed(); why != "" && s.Role != "stopped" {
		s.Role, s.Detail = "disputed", why
	}
	return s
}

// pastOwn walks from an index over the entries that raft made for itself: no-ops and
// barriers, which are never applied. One is left per election, until the next command.
func (g *Group) pastOwn(index, commit uint64) uint64 {
	var l raft.Log
	for index < commit && g.log.GetLog(index+1, &l) == nil && (l.Type == raft.LogNoop || l.Type == raft.LogBarrier) {
		index++
	}
	return index
}

// AddLearner takes a node in without a vote. Adding a member again changes nothing.
func (g *Group) AddLearner(nodeID string) error {
	return g.change("add learner "+nodeID, g.raft.AddNonvoter(raft.ServerID(nodeID), raft.ServerAddress(nodeID), 0, changeTimeout))
}

// Promote gives a learner its vote. The caller has seen it caught up.
func (g *Group) Promote(nodeID string) error {
	return g.change("promote "+nodeID, g.raft.AddVoter(raft.ServerID(nodeID), raft.ServerAddress(nodeID), 0, changeTimeout))
}

// Remove takes a node out of the group.
func (g *Group) Remove(nodeID string) error {
	return g.change("remove "+nodeID, g.raft.RemoveServer(raft.ServerID(nodeID), 0, changeTimeout))
}

// Transfer gives the leadership to nodeID, or to the follower the library
// prefers when it is empty. It returns when the transfer is over.
func (g *Group) Transfer(nodeID string) error {
	if nodeID == "" {
		return g.change("transfer leadership", g.raft.LeadershipTransfer())
	}
	return g.change("transfer leadership to "+nodeID,
		g.raft.LeadershipTransferToServer(raft.ServerID(nodeID), raft.ServerAddress(nodeID)))
}

func (g *Group) change(what string, f raft.Future) error {
	err := g.outcomeOf(f)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost):
		return notLeader()
	default:
		return fault.New(fault.Unavailable, "MEMBERSHIP_ERROR", "%s", fmt.Sprintf("%s in group %d: %v", what, g.id, err))
	}
}

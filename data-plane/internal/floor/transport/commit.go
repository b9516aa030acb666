package transport

import "github.com/hashicorp/raft"

// A follower may take the leader's commit index only as far as the message proves that
// both logs are the same: up to the previous entry and the new entries (Raft, figure 2:
// "min(leaderCommit, index of last new entry)"). The library's follower goes up to its
// own last index instead, and would apply a suffix left over from another leader. The
// library's leader does send such messages: it reads the end of its log first and its
// commit index later, up to ten seconds later when it backs off from an unreachable
// follower.
//
// Heartbeats carry no commit index. What one message does not prove, a later one does.

// proven is the last index up to which a follower that takes req has the leader's log.
func proven(req *raft.AppendEntriesRequest) uint64 {
	if n := len(req.Entries); n > 0 {
		return req.Entries[n-1].Index
	}
	return req.PrevLogEntry
}

// boundCommit lowers the commit index of a request to what it proves.
func boundCommit(req *raft.AppendEntriesRequest) {
	req.LeaderCommitIndex = min(req.LeaderCommitIndex, proven(req))
}

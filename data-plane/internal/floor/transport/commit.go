package transport

import "github.com/hashicorp/raft"

// A follower may know to be committed what the leader says, as far as the message shows
// that both logs are the same: up to the previous entry and those that come with it
// (Raft, figure 2: "min(leaderCommit, index of last new entry)"). The library's follower
// goes up to its own last index instead, and would apply a suffix that it kept from
// another leader. Its leader does send such messages: it looks at the end of its log
// first and at its commit index later, with the back-off from a lost follower, up to ten
// seconds, in between.
//
// Heartbeats carry no commit index. What one message does not prove the next one does.

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

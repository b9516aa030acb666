package transport

import (
	"time"

	"github.com/hashicorp/raft"
)

// SetHeartbeatHandler installs raft's fast path for heartbeats behind the filter
// of rule R3.
//
// The library runs the handler on the connection's goroutine, beside its main loop.
// A heartbeat of a newer term then changes term and state while a leader's loop
// still waits for writes, and the next write is stamped with the new term: two logs
// hold different entries under the same index and term, and nothing ever compares
// more than those (hashicorp/raft#695). So only a heartbeat that changes neither
// takes the fast path; all others wait for the loop.
func (g *Group) SetHeartbeatHandler(handler func(raft.RPC)) {
	if handler == nil || g.mux.opts.stockHeartbeats {
		g.NetworkTransport.SetHeartbeatHandler(handler)
		return
	}
	g.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if g.harmless(rpc) {
			g.mux.fast.Add(1)
			handler(rpc)
			return
		}
		g.mux.queued.Add(1)
		g.enqueue(rpc)
	})
}

// harmless says whether the handler will find the term unchanged and the node a
// follower, not only now but until it is done.
//
// The loop may turn the node into a candidate between this check and the handler's
// own two looks at term and state, and the handler would then set the term back.
// The loop does so only when no leader was heard for the heartbeat timeout, hence
// the third condition: with contact less than half of that ago, the gap between
// check and use would have to last as long as the other half. Leader leases end at
// half too, so the leader of a node that fails this has lost its lease anyway.
func (g *Group) harmless(rpc raft.RPC) bool {
	bound := g.bound.Load()
	if bound == nil {
		return false
	}
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok {
		return false
	}
	r := *bound
	fresh := r.ReloadableConfig().HeartbeatTimeout / 2
	return req.Term == r.CurrentTerm() && r.State() == raft.Follower && time.Since(r.LastContact()) < fresh
}

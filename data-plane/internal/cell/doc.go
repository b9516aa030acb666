// Package cell owns the desired state of one cell and the membership of its raft
// groups: tenants, namespaces and the shard each lives on, key digests, limits
// and nodes. All of it is replicated in the meta group (raft group 1), which
// every node of the cell carries, so that a proxy or node restarted while the
// control plane is dead serves from its own copy.
//
// Machine is the deterministic part, View an immutable copy of its state in memory,
// Cell the running group, Membership the changes of who belongs to which group,
// Handler and Client the protocol corvo.cell.v1 between the processes of a cell.
//
// A node starts them in this order, before any shard:
//
//	c, err := cell.Open(state.Group(cell.GroupID), log.Group(cell.GroupID), mux.Group(cell.GroupID), options)
//	peers := cell.NewPeers(c, signer, transport, urls)
//	members := cell.NewMembership(c, groups, peers)            // groups has c.Group() and, later, the shards.
//	path, handler := cell.NewHandler(c, members, peers, signer) // Serve it: joining nodes call it.
//	shards, err := c.WaitShards(ctx)                           // Open these, then
//	go members.KeepFit(ctx)                                    // run the loops until the node ends.
//	go members.Spread(ctx, every)
//
// Anybody reads c.View(), and follows it so:
//
//	for ctx.Err() == nil {
//		changed, v := c.Changed(), c.View() // The channel first.
//		... // use v
//		<-changed
//	}
//
// c.Apply writes, on the leader only. c.Shutdown ends the replica.
//
// It must not know what a job is, nor check API keys: it stores digests and
// hands them out.
//
// Surprising: the meta group has no commands of its own. Its log entries are
// ApplyRequests as they came in, and a watcher receives the very records that were
// stored. DESIGN.md says why.
package cell

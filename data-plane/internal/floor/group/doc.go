// Package group runs one replica of one raft group on this node: it joins
// hashicorp/raft, the node's log store, its state store and a Machine (the
// deterministic part) into something that proposes and applies.
//
// It owns what every group needs alike: the entry envelope (version, times,
// digest check), the two monotone times of the log (R-T1, R-T2, INV-19), the applied
// record in the same batch as the mutations (law 3), restart in place with the
// start-up proof, the virtual snapshot store, the running digest (R21), the
// barrier a new leader waits for (R22), and membership with a learner first.
//
// # How it is used
//
// The package example runs this:
//
//	g, err := group.Open(db.Group(id), log.Group(id), transport, machine, options) // Log and state fit together, or an error.
//	g.Lead(func(ctx context.Context, ready func()) {
//		// Called once per term, after the barrier. Load what leading needs,
//		ready() // then take proposals,
//		// and return soon after ctx ends; earlier only to begin anew, after another barrier.
//	})
//	result, index, err := g.ProposeAndWait(ctx, payload) // machine.Apply ran on this replica.
//	err = g.VerifyLeader()                               // After a read, before its answer.
//	err = g.Shutdown()                                   // Ends the term, then the replica. Then close the stores.
//
// Every replica, leading or not, applies what was committed: group calls Machine.Apply in
// log order and commits its transaction with the applied record. A leader calls it while the log
// still stores the entry, and commits, or drops, the transaction later. A result goes to whoever
// proposed the entry here.
//
// It must not know what a payload means: jobs live in state and shard, desired
// state in cell. Its surprising fact: there are no snapshot files. A snapshot is
// the state as it stands, made durable; only sending one writes a file.
package group

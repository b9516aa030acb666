// Package shard runs the jobs of one raft group: it gathers what callers ask into
// log entries (group commit), lets dispatch decide who gets which job, proposes,
// and hands each caller its part of the result.
//
// All of it happens in one goroutine per term of leadership, the proposal loop,
// with one entry in flight: while an entry is under way the next one gathers
// (back-pressure), and between two entries the leader's memory is exactly the
// committed state. Only entries that don't ask that memory may follow another one
// while it is applied, and only if callers take turns anyway: several entries in
// flight split callers into alternating halves.
//
// # How it is used
//
// Every node makes a Shard over its replica. Calls go to the one that leads:
//
//	s := shard.New(replica, store, options)
//	reply, err := s.Do(ctx, shard.Request{
//		Settle: []command.Command{&command.Ack{...}}, // First: it frees slots.
//		Fetch:  &shard.Fetch{NS: ns, Queues: queues, Count: 10, Wait: true},
//	})
//
// One that waits is parked until jobs come or ctx ends. Reads of what was committed go
// through Read, which confirms that the answer was not stale. Both are held while
// leadership moves, and end with NotLeader when another replica leads.
//
// The loop of a term, as term.go has it:
//
//	for {
//		collect requests, due rows and offers to parked fetches into a batch
//		propose it, and gather more while it is under way
//		dispatch absorbs what it did; each caller gets its part
//	}
//
// It owns admission, the gather rule, parked fetches, renewed leases (in memory,
// never logged while they bring no news) and the due-time timer. It must not know
// protocols or what is inside a payload; it must not decide what a command does.
package shard

// Package dispatch is the memory of a shard's leader: which jobs are ready, in
// what order, and which fetchers wait for them. It decides who gets what; the log
// records it, and apply checks it. Followers have none of it.
//
// It must not know raft, time or the network, and it is not safe for concurrent
// use: the leader's proposal loop owns it and calls it only between two entries,
// when the committed state is exactly what the memory describes. That is why no
// job is ever reserved, and why nothing here can disagree with the state for long.
//
// The surprising fact: a queue of ten million jobs costs one window of a few
// thousand entries. The rest stays in the store and is loaded behind a cursor
// that only moves forward, because a job that becomes ready always takes a later
// place.
//
// # How it is used
//
// The proposal loop of a term makes a Table from the committed state and keeps it in step:
//
//	t := dispatch.New(store)
//	for {
//		t.Begin(now)                        // An entry is being built.
//		taken, err := t.Take(ns, queues, n) // For a fetch that does not wait;
//		err = t.Park(w)                     // for one that does.
//		offer, ok, err := t.Match(most)     // A parked fetch for which there are jobs, and so on:
//		...                                 // a command.Fetch for each goes into the entry.
//		err = t.Absorb(applied)             // What the entry did, before the next Begin.
//		t.Leave(w) or t.Unmatch(w)          // For each offer: it got jobs, or it waits on.
//	}
//
// An enqueue for which somebody waits is promised to that waiter (Promise), so that job and
// lease share an entry. Opens says when a throttle or a budget lets something start again.
// What a tenant's plan holds back, Hold says.
// When the outcome of an entry is unknown, the loop throws the table away and makes another.
package dispatch

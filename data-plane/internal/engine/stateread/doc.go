// Package stateread reads the state of a shard: whole jobs, queues, chains, lists of them,
// and the walks by which a leader finds what is left over. It changes nothing and decides
// nothing.
//
// A function that takes a group reads what was committed. Where its records must be of one
// moment it reads them from one snapshot; some read a head and then the generation of its
// queue, which may be of a later entry:
//
//	j, err := stateread.ReadJob(replica.Store(), ns, id) // statedb.ErrNotFound: no such job
//
// A job that was deleted with its queue has records until it is swept; no function here
// shows it. Walks (Sweeping, NamespaceSweep, Dead) go on from where they stopped, and
// return commands to propose or ids:
//
//	for {
//		ids, more, err := walk.Next(store)
//		...
//	}
//
// Package state uses the few functions that fill its caches: those see the last commit,
// not what the entry at hand wrote.
package stateread

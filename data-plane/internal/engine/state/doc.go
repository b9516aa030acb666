// Package state is the state machine of a shard's jobs: one function per command
// over one transaction. State = f(log) and nothing else (law 2): no clock, no
// random source, no map order, no raft, no SQLite. Given the same entries, every
// replica ends with the same bytes.
//
// # How it is used
//
// A replica (package group) gives the machine one entry of the log after the other and
// commits what it wrote, together with the applied index:
//
//	m := state.New(store, committed)
//	for each entry of the log {
//		txn := store.NewTxn()
//		applied, err := m.Apply(txn, entry) // An error ends the node.
//		commit(txn)
//		m.Committed(entry.Index)
//	}
//
// A snapshot that replaces the state is followed by Reset. Applied answers each command
// in its place (a refusal is a value, not an error), and tells the leader's memory what
// became ready, when something is due next, and what is to be swept.
//
// Who builds entries asks MayRequeue, MayEnd, Settles and EachUnleased what a command may
// do; they read the table in table.go, which has a row for every kind.
//
// # How it is built
//
// A command has a file of its name (ack.go, setqueue.go) with one function that says in
// order what happens. What several commands do stands in files named after their subject:
// transition.go is the only way from one state to another, deliver.go the only place where
// a job's end touches other jobs, events.go where facts are told, stored.go where
// records are read: one that can not be read ends the entry there. Stored values and their
// bytes are package records; reading what was committed is package stateread.
//
// The surprising fact: nothing here looks for jobs. Which ones a fetch gets was chosen
// by the leader's memory (package dispatch) and stands in the command; apply only
// checks that each is still ready and skips it otherwise. The only lists it reads are short ones
// that are then kept: a namespace's budgets and policies, and the ended namespaces.
package state

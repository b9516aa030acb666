// Package state is the state machine of a shard's jobs: one function per command
// over one transaction. State = f(log) and nothing else (law 2): no clock, no
// random source, no map order, no raft, no SQLite. Given the same entries, every
// replica ends with the same bytes.
//
// It owns the records of a job (an immutable body, a small head that is the only
// thing rewritten per transition, results and errors apart), the ready order, the
// due rows, locks and exact counters. It must not know who proposes or who waits.
//
// The surprising fact: nothing here ever scans. Which jobs a fetch gets was chosen
// by the leader's memory (package dispatch) and stands in the command; apply only
// checks that each is still ready and skips it otherwise.
package state

// Package shard runs the jobs of one raft group: it gathers what callers ask into
// log entries (group commit), lets dispatch decide who gets which job, proposes,
// and hands each caller its part of the result.
//
// All of it happens in one goroutine per term of leadership, the proposal loop,
// with one entry in flight: while an entry is under way the next one gathers
// (back-pressure), and between two entries the leader's memory is exactly the
// committed state. Several entries in flight were measured to be slower, because
// they split callers into alternating halves.
//
// It owns admission, the gather rule, parked fetches, renewed leases (in memory,
// never logged while they bring no news) and the due-time timer. It must not know
// protocols or what is inside a payload; it must not decide what a command does.
package shard

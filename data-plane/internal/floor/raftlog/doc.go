// Package raftlog owns the raft log and the raft stable values of every group
// on a node, kept in one Pebble store.
//
// One store means one write-ahead log: when several groups commit at the same
// moment, one flush of the disk serves them all. Every commit is synced before the
// call returns (rule R1); only Options.Relaxed turns that off, for throw-away
// single nodes.
//
// A node opens one Store, and each raft group has a Group of it, which is both of
// raft's stores: see the example.
//
// It must not know what an entry means, which groups exist, or who leads them.
//
// One surprising fact: Pebble shows a batch to readers before the batch is
// durable. A Group therefore never asks Pebble for an index above the last one
// whose commit has returned.
package raftlog

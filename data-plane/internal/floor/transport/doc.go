// Package transport carries the raft traffic of every group on a node over one
// listener.
//
// It owns the connection handshake (which cell, which node, which group, and a
// proof by both sides that they hold the cell's secret), the lanes, the
// heartbeat filter of rule R3, and how soon followers hear of a commit. The
// framing of raft messages is raft.NetworkTransport's.
//
// A node has one Mux, and each raft group a Group of it: see the example.
//
// It must not know what entries or snapshots contain, or who may lead. Server
// addresses are node ids; Options.Resolve says where a node listens today.
//
// One surprising fact: the library's fast path for heartbeats can make two logs
// diverge (hashicorp/raft#695), so a heartbeat only takes it when it cannot
// change anything. TestHeartbeatFilter keeps the reproduction.
package transport

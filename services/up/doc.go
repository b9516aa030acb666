// Package up runs the whole service in one process: a control plane with its console,
// three nodes with raft between them over their real listeners, a proxy in front, a
// mailbox, and the tenant "demo" with its keys.
//
// It owns the order of starting and stopping, the data directory's lay-out and the
// development credentials in it. It must not know the command line, jobs, or
// anything inside a node, a proxy or the control plane: it meets them through their
// public packages.
//
// Surprising: the nodes take other ports at every start. Raft knows nodes by id,
// so nothing but the addresses in the cell's state has to be told.
package up

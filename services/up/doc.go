// Package up runs a whole cell in one process: three nodes with raft between them
// over their real listeners, a proxy in front, and the tenant "demo" with a key.
//
// It owns the order of starting and stopping, the data directory's lay-out and the
// development credentials in it. It must not know the command line, jobs, or
// anything inside a node or a proxy: it meets both through their public doors.
//
// Surprising: the nodes take other ports at every start. Raft knows nodes by id,
// so nothing but the addresses in the cell's state has to be told.
package up

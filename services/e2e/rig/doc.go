// Package rig runs the real corvo-cloud binary for tests: it builds it once,
// starts processes, kills them, and calls them as a client would.
//
// It owns processes (none outlives its test), ports, data directories and the
// history of what was acknowledged; and the machines of nodes: where their links, file
// systems and syncs can be made to fail. It must not know anything about the product except
// its command line and its wire format.
//
// Surprising: ports are taken from below the range that the kernel gives to
// outgoing connections. A killed node's port would otherwise now and then be the
// source port of some client when the node comes back.
package rig

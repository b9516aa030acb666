// Package node is the data plane's public package: it builds a node of a cell from
// its rooms, starts it and shuts it down in order.
//
// It owns the wiring, the order of starting and stopping, the directory of a node
// and what happens when its disk stalls. It must not know protocols, commands or
// records: everything it connects works without it.
//
// Surprising: a node alone and a node of three are the same code. Config.Access says
// which it is: a node that doesn't stand behind a proxy is its whole cell, for good.
package node

// Package nemesis kills the process that leads, again and again, under load that comes
// through the proxy, and then judges everything that clients were told by the rules of
// package history.
//
// It owns the kills and the load. It must not know anything of the product beside the Go
// SDK, the wire and the cell's administration.
package nemesis

// Package sim runs whole cells in virtual time: real nodes with the production transport,
// a real proxy, and workers and producers with the Go SDK, over simulated links, disks
// that lose what was not synced, and clocks that jump. Faults are drawn from a seed, and
// the rules over the history of what clients were told are those of e2e/history.
//
// It owns the simulated world and the faults. It must not know the inside of a node: a
// node gets its world through node.Config, and is judged by what it answers and by the
// bytes that it leaves on its disk.
//
// Surprising: a seed is a list of faults, not an order of goroutines. The same list meets
// other calls in the next run, so what is found here becomes a test at the lowest level
// that can see it. See DESIGN.md.
package sim

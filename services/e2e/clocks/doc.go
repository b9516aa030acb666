// Package clocks tests a cell of separate processes whose wall clocks differ: one is
// hours ahead or behind, jumps while it leads, or wakes up from a suspend (R-T2).
//
// Surprising: the binary is compiled with another time.Now, so the first run compiles
// everything anew. That is why it is part of make test-long.
package clocks

// Package cellclock compares the clocks of a cell: every process asks the nodes what
// time it is, corrects for the way there and back, and learns whether its own wall
// clock is that of most nodes. Processes that are no nodes go by the nodes' time: Time.
//
// It owns the question, its proof, and what the answers add up to. It must not know
// who leads, nor what follows from a wrong clock.
//
// Surprising: an answer is forgotten when the wall jumps against the monotonic clock
// after it, so that a machine which wakes up knows nothing of its clock until it has
// asked again.
package cellclock

// Package cellclock compares the clocks of a cell: every process asks the nodes what
// time it is, corrects for the round trip, and learns whether its own wall clock agrees
// with most nodes. Processes that are not nodes use the nodes' time: Time.
//
// It owns the request, the proof of its answer, and the conclusion from all
// answers. It must not know who leads, nor what follows from a wrong clock.
//
// Surprising: an answer is forgotten when the wall jumps against the monotonic clock
// after it, so that a machine which wakes up knows nothing of its clock until it has
// asked again.
package cellclock

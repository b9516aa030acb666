// Package processors tells how busy a machine's processors are. It owns the reading of
// what the system counts, and must not know what the answer is for.
package processors

// Load returns the part of the processors that was idle since the last call, and their
// number; ok is false where the system does not tell.
type Load func() (idle, processors float64, ok bool)

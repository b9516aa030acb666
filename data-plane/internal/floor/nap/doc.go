// Package nap sleeps in a system call, which holds the thread, and not in a timer of Go's,
// whose grain is a millisecond and which frees a processor for other goroutines at
// once. It knows nobody who waits.
package nap

package command

import (
	"runtime"
	"runtime/debug"
)

const (
	// garbagePercent of what is used may be garbage before it is collected. A node uses some
	// tens of megabytes while it allocates hundreds a second: with Go's 100 it collected
	// nine times a second, and marking took both processors for 15 ms each time. The soft
	// limit of memory still holds.
	garbagePercent = 600
	// threadsPerProcessor that may run Go. With one, whatever a process can't foresee (a
	// goroutine that computes for ten milliseconds, an answer on the network that is looked
	// for when a thread is free) waits in a queue of the process; with more, the system
	// lets those threads run first that ran least.
	threadsPerProcessor = 4
)

// tuneRuntime is for a process that has its machine to itself: it favors callers that ask
// for little over throughput, unless the environment decides (GOGC, GOMAXPROCS) or the
// process may use only a part of the machine. What a quiet caller notices of floods showed
// what for: services/e2e/flood.
func (s *session) tuneRuntime() {
	if s.proc.Env("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if n := runtime.NumCPU(); s.proc.Env("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) == n {
		runtime.GOMAXPROCS(threadsPerProcessor * n)
	}
}

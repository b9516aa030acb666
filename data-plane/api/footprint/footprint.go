// Package footprint owns how much of its machine a server process takes: a soft limit for Go's
// garbage collector, from what the machine or the process's control group has, how much
// garbage there may be below it, when the process gives back memory that it no longer needs, and
// on how many threads it runs.
//
// It must not know what the process does.
//
// Surprising: a control group without a limit is limited by those above it, so all are
// asked up to the root.
package footprint

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

// Variables of the environment by which Go itself is told; each replaces what this package would do.
const (
	MemoryVariable     = "GOMEMLIMIT"
	GarbageVariable    = "GOGC"
	ProcessorsVariable = "GOMAXPROCS"
)

// Place is where a process runs.
type Place struct {
	share   float64                  // Of the memory that it may use, it fills so much.
	garbage uint64                   // Bytes that may be garbage, however little is used.
	threads func(processors int) int // That may run Go at a time.
}

var (
	// Alone is a process that has its machine to itself: it favors callers that ask for little
	// over throughput, for what a quiet caller notices of floods (services/e2e/flood).
	Alone = Place{
		// The rest is for what lies outside Go's heap and for the system's cache of files.
		share: 0.7,
		// Six times the tens of megabytes that a node uses. With Go's rule it collected nine
		// times a second under load, and marking took both processors for 15 ms each time.
		garbage: 240 << 20,
		// With one thread per processor, whatever a process can't foresee (a goroutine that
		// computes for ten milliseconds, an answer on the network that is looked for when a
		// thread is free) waits in a queue of the process; with more, the system lets those
		// threads run first that ran least.
		threads: func(processors int) int { return 4 * processors },
	}
	// Shared is one that shares its machine, such as on a laptop.
	Shared = Place{
		share:   0.5,
		garbage: 64 << 20,
		// Who waits for the disk keeps the place of a thread until the runtime notices, for most of
		// a fast sync: on two processors, that was a sixth of what 50 callers could do.
		threads: func(processors int) int { return processors + 2 },
	}
)

// Manage lets this process take what its place allows, unless its environment says otherwise. Where
// nothing says what memory there is (not Linux), it isn't limited, and where the process may use only a
// part of the processors, Go counts them. Until it is told to end, it gives back what a burst of work left, once the
// process is quiet.
func Manage(env func(string) string, place Place) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		releaseWhenQuiet(ctx)
	}()
	if env(MemoryVariable) == "" {
		if have := available(os.DirFS("/")); have < math.MaxInt64 {
			debug.SetMemoryLimit(int64(float64(have) * place.share))
		}
	}
	if env(GarbageVariable) == "" {
		letGarbageBe(ctx, place.garbage)
	}
	if n := runtime.NumCPU(); env(ProcessorsVariable) == "" && runtime.GOMAXPROCS(0) == n {
		runtime.GOMAXPROCS(place.threads(n))
	}
	return func() { cancel(); <-ended }
}

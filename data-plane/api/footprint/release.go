package footprint

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	lookEvery = 15 * time.Second
	// quietBytes is the most that a quiet process allocates between two looks: three nodes
	// that nobody calls come to 2 MB.
	quietBytes = 24 << 20
	// worthBytes have to be allocated since the last time, so that a collection is worth it: it
	// takes some 15 ms.
	worthBytes = 12 << 20
	allocated  = "/gc/heap/allocs:bytes"
)

// releaseWhenQuiet gives back to the system what a burst of work left in the heap. By itself Go keeps
// about as much again as was in use at its last collection, which was in the middle of the burst.
func releaseWhenQuiet(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	q := quiet{}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if q.worth(allocatedNow()) {
			runtime.GC() // What lies in a sync.Pool, such as 8 MB after migrations, outlives one collection.
			debug.FreeOSMemory()
		}
	}
}

func allocatedNow() uint64 {
	s := []metrics.Sample{{Name: allocated}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// quiet remembers how much had been allocated.
type quiet struct{ looked, released uint64 }

// worth reports whether the process is quiet and has something to give back, given how much it has
// allocated since its start.
func (q *quiet) worth(now uint64) bool {
	isQuiet := now-q.looked <= quietBytes
	q.looked = now
	if !isQuiet || now-q.released < worthBytes {
		return false
	}
	q.released = now
	return true
}

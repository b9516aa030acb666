package footprint

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// leastUsed is Go's least heap at its usual 100 percent; it grows with the percentage.
const leastUsed = 4 << 20

// letGarbageBe lets there be as much garbage as there is memory in use, which is Go's usual rule,
// but never less than least bytes, before it is collected. A server that uses some tens of
// megabytes and allocates hundreds a second would collect many times a second.
func letGarbageBe(ctx context.Context, least uint64) {
	t := &tuner{ctx: ctx, least: least, percent: 100}
	t.tune()
}

// tuner sets Go's percentage after every collection, by what that one found in use.
type tuner struct {
	ctx     context.Context // Until it ends.
	least   uint64          // Bytes.
	percent int
}

// tune tunes now, and again when the next collection finds that nobody needs the sentinel: Go has
// no other way to be told of its end.
func (t *tuner) tune() {
	if t.ctx.Err() != nil {
		return
	}
	// To set it stops all goroutines for some microseconds, so not for a small difference.
	if want := percentFor(used(), t.least); want*10 > t.percent*11 || want*11 < t.percent*10 {
		t.percent = want
		debug.SetGCPercent(want)
	}
	runtime.AddCleanup(&sentinel{}, (*tuner).tune, t)
}

// sentinel has a pointer, so that it doesn't share its memory with another object, which would keep it.
type sentinel struct{ _ *sentinel }

// percentFor is how much garbage there may be, in percent of what is used.
func percentFor(used, least uint64) int {
	return int(max(100, least*100/max(used, leastUsed)))
}

// used is what Go's percentage is of, in bytes, as of the last collection.
func used() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(s)
	var sum uint64
	for _, one := range s {
		sum += one.Value.Uint64()
	}
	return sum
}

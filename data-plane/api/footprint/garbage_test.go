package footprint

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

func TestPercent_LetsNoLessGarbageBeThanAsked(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, tc := range []struct {
		used, least uint64
		want        int
	}{
		{0, 64 * mb, 1600}, // Go counts no less than 4 MB as used.
		{8 * mb, 64 * mb, 800},
		{40 * mb, 240 * mb, 600},
		{64 * mb, 64 * mb, 100},
		{2000 * mb, 64 * mb, 100}, // As Go does.
	} {
		if got := percentFor(tc.used, tc.least); got != tc.want {
			t.Errorf("%d MB used, %d MB of garbage: %d percent, want %d", tc.used/mb, tc.least/mb, got, tc.want)
		}
	}
}

// Not parallel: the percentage is the process's.
func TestGarbage_PercentageFollowsWhatIsUsed(t *testing.T) {
	defer debug.SetGCPercent(100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	letGarbageBe(ctx, 64<<20)
	if got := percentNow(); got < 1000 {
		t.Fatalf("%d percent in a small process", got)
	}
	much := make([]byte, 256<<20)
	afterCollections(t, "much is used", func() bool { return percentNow() == 100 })
	runtime.KeepAlive(much)
	much = nil
	afterCollections(t, "little is used", func() bool { return percentNow() > 1000 })
}

// Not parallel: the percentage is the process's.
func TestGarbage_IsLeftAloneOnceItEnded(t *testing.T) {
	defer debug.SetGCPercent(100)
	ctx, cancel := context.WithCancel(t.Context())
	letGarbageBe(ctx, 64<<20)
	cancel()
	debug.SetGCPercent(77)
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	if got := percentNow(); got != 77 {
		t.Errorf("%d percent, set by nobody", got)
	}
}

func afterCollections(t *testing.T, when string, ok func() bool) {
	t.Helper()
	eventually.True(t, 10*time.Second, when, func() bool {
		runtime.GC()
		return ok()
	})
}

func percentNow() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}

// Not parallel: what is set is the process's.
func TestManage_TheEnvironmentDecides(t *testing.T) {
	processors, limit := runtime.GOMAXPROCS(runtime.NumCPU()), debug.SetMemoryLimit(-1)
	defer func() {
		runtime.GOMAXPROCS(processors)
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(100)
	}()
	debug.SetGCPercent(100)
	Manage(func(string) string { return "set" }, Shared)()
	if n, m, g := runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1), percentNow(); n != runtime.NumCPU() || m != limit || g != 100 {
		t.Errorf("%d threads, a limit of %d, %d percent; want what the environment set", n, m, g)
	}
	Manage(func(string) string { return "" }, Shared)()
	if n, g := runtime.GOMAXPROCS(0), percentNow(); n != runtime.NumCPU()+2 || g <= 100 {
		t.Errorf("%d threads of %d processors, %d percent", n, runtime.NumCPU(), g)
	}
}

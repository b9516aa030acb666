package month_test

import (
	"os"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// An hour of the month takes a second or two, so what waits for some seconds by the
// monotonic clock waits for less. What the wall clock decides is as it is.
var waits = []rig.Wait{
	{File: "data-plane/internal/floor/group/clock.go", Was: "settleTime = 20 * time.Second", Is: "settleTime = 50 * time.Millisecond"},
	{File: "data-plane/api/cellclock/watch.go", Was: "askEvery = time.Second", Is: "askEvery = 100 * time.Millisecond"},
	{File: "data-plane/api/cellclock/time.go", Was: "followEvery = time.Second", Is: "followEvery = 100 * time.Millisecond"},
	{File: "services/proxy/meters.go", Was: "tellReadingsEvery = 5 * time.Second", Is: "tellReadingsEvery = 250 * time.Millisecond"},
	{File: "control-plane/internal/reconcile/loop.go", Was: "cmp.Or(o.Usage, 15*time.Second)", Is: "cmp.Or(o.Usage, 500*time.Millisecond)"},
	{File: "control-plane/internal/stripe/loop.go", Was: "tick     = time.Minute", Is: "tick     = 300 * time.Millisecond"},
	{File: "control-plane/internal/plans/loop.go", Was: "tick     = 10 * time.Second", Is: "tick     = 500 * time.Millisecond"},
}

func TestMain(m *testing.M) { os.Exit(rig.MainWithWallClocks(m, waits...)) }

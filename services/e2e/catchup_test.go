package e2e_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// catchUpAway is how long a node stays away in the long form, at full load. The budget for the logs
// is 24 MiB and not 4 GiB, so that they are too short after seconds.
const catchUpAway = 10 * time.Minute

// TestCatchUp_ANodeThatWasAwayUnderLoadComesBack: first for so little that the logs bring it
// up to date, then for more than they keep, which is told. Calls go on all the time.
func TestCatchUp_ANodeThatWasAwayUnderLoadComesBack(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const budget = 24 << 20
	c := rig.StartCell(t, rig.CellOptions{NodeArgs: []string{"--log-bytes-max", fmt.Sprint(budget)}})
	history := rig.NewHistory()
	load := rig.StartLoad(history, rig.LoadOptions{Workers: 2, Producers: 1, Pace: 50 * time.Millisecond}, c.Tenant(0))
	defer load.Stop()
	victim := c.Nodes[(c.Leader(c.Shard, time.Minute)+1)%len(c.Nodes)]

	victim.Kill()
	fillLogs(t, c, 4<<20, 0)
	if behind := peerBehind(c); behind != "" {
		t.Errorf("after 4 MB: %s", behind)
	}
	comeBack(t, c, victim)

	away := time.Duration(0)
	if os.Getenv("CORVO_TEST_LONG") != "" {
		away = catchUpAway
	}
	victim.Kill()
	wrote := fillLogs(t, c, 30<<20, away)
	eventually.True(t, time.Minute, "the leader says that its log isn't enough", func() bool {
		return strings.Contains(peerBehind(c), victim.ID+" (at ")
	})
	pause := longestPause(t, c.Tenant(0))
	took := comeBack(t, c, victim)
	t.Logf("%d MB were written while %s was away; it had everything %s after its start; the longest call meanwhile took %s", wrote>>20, victim.ID, took.Round(time.Millisecond), pause().Round(time.Millisecond))
	eventually.True(t, time.Minute, "nobody is behind", func() bool { return peerBehind(c) == "" })

	load.Stop()
	ctx := ctxFor(t, 2*time.Minute)
	history.Audit(ctx, t, c.Tenant(0))
}

// fillLogs enqueues large jobs, at full speed, until so many bytes are written and so long
// has passed.
func fillLogs(t *testing.T, c *rig.Cell, bytes int64, least time.Duration) int64 {
	t.Helper()
	const size = 250 << 10
	ctx, begin := ctxFor(t, 2*time.Minute+least), time.Now()
	payload := strings.Repeat("x", size)
	var wrote atomic.Int64
	var refused atomic.Value
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for ctx.Err() == nil && (wrote.Load() < bytes || time.Since(begin) < least) {
				id, err := c.Tenant(0).Enqueue(ctx, "large", payload)
				if err != nil {
					refused.Store(err.Error())
					continue
				}
				wrote.Add(size)
				if least > 0 { // The disk is not what is tested.
					_, _ = c.Tenant(0).Call(ctx, "DELETE", "/api/v1/jobs/"+id, nil, nil)
				}
			}
		})
	}
	work.Wait()
	if wrote.Load() < bytes {
		t.Fatalf("%d bytes of %d are written; the last refusal: %v", wrote.Load(), bytes, refused.Load())
	}
	t.Logf("%d MB in %s", wrote.Load()>>20, time.Since(begin).Round(time.Millisecond))
	return wrote.Load()
}

// peerBehind is what leaders say of members for which the log is too short, or "".
func peerBehind(c *rig.Cell) string {
	status, err := c.Status()
	if err != nil {
		return ""
	}
	for _, n := range status {
		for _, cause := range n.GetCauses() {
			if cause.GetReason() == "peer_behind" {
				return cause.GetDetail()
			}
		}
	}
	return ""
}

// comeBack starts a node and waits until it has what the others had then.
func comeBack(t *testing.T, c *rig.Cell, n *rig.CellNode) time.Duration {
	t.Helper()
	want := map[uint32]uint64{}
	status, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range status {
		for _, g := range s.GetGroups() {
			want[g.GetGroup()] = max(want[g.GetGroup()], g.GetAppliedIndex())
		}
	}
	at := time.Now()
	n.Start()
	n.WaitReady(2 * time.Minute)
	eventually.True(t, 2*time.Minute, n.ID+" has everything", func() bool {
		status, err := c.Status()
		if err != nil {
			return false
		}
		has := 0
		for _, s := range status {
			for _, g := range s.GetGroups() {
				if s.GetNode().GetId() == n.ID && g.GetAppliedIndex() >= want[g.GetGroup()] && slices.Contains(g.GetVoters(), n.ID) {
					has++
				}
			}
		}
		return has == len(want)
	})
	return time.Since(at)
}

// longestPause calls until the returned function is called, which tells how long the longest
// call took.
func longestPause(t *testing.T, tenant rig.Tenant) func() time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	longest := make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for ctx.Err() == nil {
			at := time.Now()
			if _, err := tenant.Enqueue(ctx, "probe", "x"); ctx.Err() == nil {
				most = max(most, time.Since(at))
				if err != nil {
					t.Logf("a call while a node catches up: %v", err)
				}
			}
		}
		longest <- most
	}()
	return func() time.Duration {
		cancel()
		return <-longest
	}
}

package cell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// follow opens a watch as a proxy does and returns its end. On a busy machine a
// node may lose its leader, and then its watches end by themselves: lost says so.
func (c *testCell) follow(node, proxy string, lost *atomic.Bool) (end func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	stream, err := c.client(node).Watch(ctx, connect.NewRequest(&cellv1.WatchRequest{ProxyId: proxy}))
	if err != nil || !stream.Receive() {
		c.t.Fatalf("watch %s: %v, %v", node, err, stream.Err())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for stream.Receive() {
		}
		if ctx.Err() == nil {
			lost.Store(true)
		}
	}()
	return sync.OnceFunc(func() { cancel(); <-done; _ = stream.Close() })
}

func (c *testCell) confirm(node, proxy string, index uint64, ready bool) {
	c.t.Helper()
	req := &cellv1.ConfirmWatchRequest{ProxyId: proxy, Index: index, Ready: ready}
	if _, err := c.client(node).ConfirmWatch(c.t.Context(), connect.NewRequest(req)); err != nil {
		c.t.Fatal(err)
	}
}

// waitProxies hardly waits: what does not hold at once will not hold later.
func waitProxies(t *testing.T, admin *celladmin.Client, index uint64) (confirmed, live int, unconfirmed bool) {
	t.Helper()
	return waitProxiesFor(t, 300*time.Millisecond, admin, index)
}

func waitProxiesFor(t *testing.T, d time.Duration, admin *celladmin.Client, index uint64) (confirmed, live int, unconfirmed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	confirmed, live, err := admin.WaitProxies(ctx, index)
	if err != nil && !errors.As(err, new(*celladmin.UnconfirmedError)) {
		t.Fatal(err)
	}
	return confirmed, live, err != nil
}

// heardProxies counts once every node has answered. WaitProxies does without one of three, and on a
// busy machine one may be late: then those who follow only that one are not in its counts.
func heardProxies(t *testing.T, admin *celladmin.Client, index uint64) (confirmed, live int) {
	t.Helper()
	var proxies []*cellv1.Watcher
	eventually.True(t, patience, "every node answers", func() bool {
		var silent []string
		var err error
		if proxies, silent, err = admin.Proxies(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(silent) == 0
	})
	for _, p := range proxies {
		if p.GetReady() {
			live++
			if p.GetIndex() >= index {
				confirmed++
			}
		}
	}
	return confirmed, live
}

func TestWaitProxies_CountsWhoServesAndFollows(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.leader()
	admin := c.admin()
	for _, n := range c.nodes { // A node that has applied nothing knows nobody to ask.
		eventually.True(t, patience, "every node knows the others", func() bool { return len(n.cell.View().Nodes()) == 3 })
	}
	for attempt := 1; ; attempt++ {
		var lost atomic.Bool
		wrong := countingStory(t, c, admin, &lost)
		if !lost.Load() {
			for _, w := range wrong {
				t.Error(w)
			}
			return
		}
		if attempt == 10 {
			t.Fatal("no ten attempts without a lost leader")
		}
	}
}

// countingStory lets proxies come and go, and returns which counts were wrong.
func countingStory(t *testing.T, c *testCell, admin *celladmin.Client, lost *atomic.Bool) (wrong []string) {
	const index = 5
	expect := func(what string, confirmed, live int) {
		t.Helper()
		gotConfirmed, gotLive := heardProxies(t, admin, index)
		if gotConfirmed != confirmed || gotLive != live {
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d; want %d of %d", what, gotConfirmed, gotLive, confirmed, live))
			return
		}
		if confirmed < live {
			return
		}
		if _, _, unconfirmed := waitProxiesFor(t, patience, admin, index); unconfirmed {
			wrong = append(wrong, what+": waited for although all have confirmed")
		}
	}
	live := func() int { _, n := heardProxies(t, admin, index); return n }
	eventually.True(t, patience, "nobody follows", func() bool { return live() == 0 })

	endA1, endA2 := c.follow("node-1", "a", lost), c.follow("node-2", "a", lost)
	defer endA1()
	defer endA2()
	expect("one that has said nothing", 0, 0)
	c.confirm("node-1", "a", 3, false)
	expect("one that does not serve yet", 0, 0)
	c.confirm("node-1", "a", 3, true)
	expect("one that is behind", 0, 1)
	c.confirm("node-2", "a", 5, true)
	expect("what one node heard is enough", 1, 1)
	c.confirm("node-2", "a", 4, true)
	expect("an overtaken confirmation takes nothing back", 1, 1)

	endB := c.follow("node-3", "b", lost)
	defer endB()
	c.confirm("node-3", "b", 2, true)
	expect("another that is behind", 1, 2)
	c.confirm("node-1", "b", 9, true)
	expect("a word to a node that it does not follow", 1, 2)
	endB()
	eventually.True(t, patience, "one that is gone is not waited for", func() bool { return live() <= 1 })
	endA1()
	expect("one watch is left", 1, 1)
	return wrong
}

func TestWaitProxies_OneSilentNodeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.leader()
	for _, n := range c.nodes {
		eventually.True(t, patience, "every node knows the others", func() bool { return len(n.cell.View().Nodes()) == 3 })
	}
	admin := c.admin()
	c.kill("node-1")
	eventually.True(t, patience, "with one node silent the others' word is enough", func() bool {
		_, _, unconfirmed := waitProxies(t, admin, 5)
		return !unconfirmed
	})
	c.kill("node-2")
	if _, _, unconfirmed := waitProxies(t, admin, 5); !unconfirmed {
		t.Error("with two nodes silent, who follows them is not known")
	}
}

func TestWaitProxies_ReturnsWhenTheLastOneConfirms(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 1)
	c.leader()
	admin := c.admin()
	defer c.follow("node-1", "a", new(atomic.Bool))()
	c.confirm("node-1", "a", 1, true)
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, _, err := admin.WaitProxies(ctx, 7)
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("returned before the proxy confirmed: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	c.confirm("node-1", "a", 7, true)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWatchers_ASilentProxyIsNotLive(t *testing.T) {
	t.Parallel()
	w, now := newWatchers(), time.Now()
	leave, err := w.enter("p", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	w.confirm(&cellv1.ConfirmWatchRequest{ProxyId: "p", Index: 3, Ready: true}, now)
	if got := w.list(now.Add(watcherSilence)); len(got) != 1 {
		t.Errorf("within the silence: %v", got)
	}
	if got := w.list(now.Add(watcherSilence + time.Millisecond)); len(got) != 0 {
		t.Errorf("after it: %v", got)
	}
	leave()
	if got := w.list(now.Add(watcherReturn)); len(got) != 1 || got[0].GetIndex() != 3 {
		t.Errorf("while it may come back: %v", got)
	}
	if got := w.list(now.Add(watcherReturn + time.Millisecond)); len(got) != 0 || len(w.byID) != 0 {
		t.Errorf("after that: %v", got)
	}
	w.confirm(&cellv1.ConfirmWatchRequest{ProxyId: "p", Index: 4, Ready: true}, now)
	if len(w.byID) != 0 {
		t.Error("a confirmation without a watch was noted")
	}
	for _, id := range []string{"a\nb", string(slices.Repeat([]byte("x"), proxyIDBytesMax+1))} {
		if _, err := w.enter(id, time.Now); err == nil {
			t.Errorf("id %q was taken", id)
		}
	}
}

// One that ends says so, before its watch ends or after.
func TestWatchers_AProxyThatEndsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, leavesFirst := range []bool{false, true} {
		w := newWatchers()
		leave, err := w.enter("p", func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		w.confirm(&cellv1.ConfirmWatchRequest{ProxyId: "p", Index: 3, Ready: true}, now)
		steps := []func(){func() { w.confirm(&cellv1.ConfirmWatchRequest{ProxyId: "p", Index: 3}, now) }, leave}
		if leavesFirst {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			step()
		}
		if got := w.list(now); len(got) != 0 || len(w.byID) != 0 {
			t.Errorf("the watch ends first %v: %v", leavesFirst, got)
		}
	}
}

// One that comes back is known by what it confirmed before, and not twice.
func TestWatchers_AProxyThatComesBackIsKnown(t *testing.T) {
	t.Parallel()
	w, now := newWatchers(), time.Now()
	clock := func() time.Time { return now }
	leave, err := w.enter("p", clock)
	if err != nil {
		t.Fatal(err)
	}
	w.confirm(&cellv1.ConfirmWatchRequest{ProxyId: "p", Index: 3, Ready: true}, now)
	leave()
	now = now.Add(watcherReturn / 2)
	if leave, err = w.enter("p", clock); err != nil {
		t.Fatal(err)
	}
	now = now.Add(watcherReturn)
	if got := w.list(now); len(got) != 1 || got[0].GetIndex() != 3 {
		t.Errorf("back: %v", got)
	}
	leave()
	if got := w.list(now.Add(watcherReturn)); len(got) != 1 {
		t.Errorf("it broke off again: %v", got)
	}
}

// Right after its only node started again, no proxy follows it: who did so before it died has not
// confirmed anything, and lets callers in by what it has.
func TestWaitProxies_ANodeThatStartedAgainLetsThemComeBack(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 1)
	c.leader()
	admin := c.admin()
	if _, _, unconfirmed := waitProxiesFor(t, watcherReturn/2, admin, 1); unconfirmed {
		t.Error("a new node waits for proxies that never followed it")
	}
	c.kill("node-1")
	c.restart("node-1")
	c.leader()
	if _, _, unconfirmed := waitProxies(t, admin, 1); !unconfirmed {
		t.Error("a node that started again doesn't wait for those who followed it")
	}
	c.nodes["node-1"].cell.watchers.settle(time.Now())
	eventually.True(t, patience, "nobody came back", func() bool { _, live, unconfirmed := waitProxies(t, admin, 1); return live == 0 && !unconfirmed })
}

func TestIndex_IsTheLeadersFromAnyNode(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	leader := c.leader()
	res, err := applyOn(t.Context(), t, c, leader.id, &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(1, "acme")}})
	if err != nil {
		t.Fatal(err)
	}
	for id := range c.nodes {
		got, err := c.client(id).GetIndex(t.Context(), connect.NewRequest(&cellv1.GetIndexRequest{}))
		if err != nil || got.Msg.GetIndex() != res.GetIndex() {
			t.Errorf("%s: %v, %v; want %d", id, got, err, res.GetIndex())
		}
	}
}

package proxy

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// One node goes on alone as another cell, with an older state at a lower index. The others come
// back as what they were, and would serve. The proxy takes the new cell's state, whole, and
// uses no node of the old one.
func TestRecovered_TheProxyFollowsTheCellThatReplacedItsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startRig(t, rigOptions{nodes: 3, options: func(o *Options) { o.DataDir = dir }})
	late, lateChanges := newTenant(t, "late", 3)
	r.state.apply(lateChanges...) // The cell that goes on lacks it.
	for range 20 {
		r.state.apply(keyChange(r.acme.record))
	}
	get := func(who tenantRig) answer { return r.ask(r.http1, "GET", "/api/v1/queues", "", withKey(who.key)) }
	eventually.True(t, patience, "all is known", func() bool { return get(late).status == 200 })
	r.up[1].term.Store(7)
	r.up[1].leads.Store(true)
	eventually.True(t, patience, "n2 serves", func() bool { return get(r.acme).seen.Node == "n2" })
	before := open(t, r)

	// n1 comes back as the new cell.
	newcomer, changes := newTenant(t, "newcomer", 4)
	address := strings.TrimPrefix(r.up[0].url, "http://")
	r.up[0].kill()
	b := newCellState()
	b.cell, b.replaced = "cell_b", []string{"cell_a"}
	acme := []*cellv1.Change{
		{Change: &cellv1.Change_Tenant{Tenant: &cellv1.Tenant{Id: r.acme.id, Name: "acme"}}},
		{Change: &cellv1.Change_Namespace{Namespace: r.acme.namespace("default")}}, keyChange(proto.CloneOf(r.acme.record)),
	}
	b.apply(append(acme, changes...)...)
	alone := startUpstreamAt(t, address, "n1", b)
	alone.leads.Store(true)
	b.apply(alone.node())

	eventually.True(t, patience, "the new cell's state is taken", func() bool { return r.proxy.view.current().cell == "cell_b" })
	_ = ends(t, before, patience) // A stream at the old cell does not go on.
	eventually.True(t, patience, "what only the new cell has is known", func() bool { return get(newcomer).status == 200 })
	if got := get(late).status; got != 401 {
		t.Errorf("what the new cell lacks: %d", got)
	}
	old := r.up[1].served.Load() + r.up[2].served.Load()
	for range 20 {
		if got := get(r.acme); got.status != 200 || got.seen.Node != "n1" {
			t.Fatalf("%d from %q", got.status, got.seen.Node)
		}
	}
	if now := r.up[1].served.Load() + r.up[2].served.Load(); now != old {
		t.Errorf("nodes of the old cell served %d calls", now-old)
	}
	eventually.True(t, patience, "the new cell's leader is known, in a lower term", func() bool {
		n := r.proxy.nodes.leader(2).node
		return n != nil && n.id == "n1"
	})
	eventually.True(t, patience, "the new cell's index is confirmed", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.confirmed {
			return c.GetIndex() == b.index
		}
		return false
	})

	// Nor does a change of the old one count, for what is running or for the next process.
	r.state.apply(lateChanges...)
	after, more := newTenant(t, "after", 5)
	b.apply(more...)
	eventually.True(t, patience, "the new cell's changes arrive", func() bool { return get(after).status == 200 })
	if got := get(late).status; got != 401 {
		t.Errorf("after a change of the old cell: %d", got)
	}
	end(t, r.proxy)
	alone.kill()
	r2 := &rig{t: t, state: b, acme: r.acme, up: r.up}
	r2.serve(Options{Domain: testDomain, CellSecrets: cellsecret.Must(testSecret), DataDir: dir, Nodes: []string{r.up[1].url, r.up[2].url}})
	if cell := r2.proxy.view.current().cell; cell != "cell_b" {
		t.Errorf("after a restart it follows %q", cell)
	}
	if got := r2.ask(r2.http1, "GET", "/api/v1/queues", "", withKey(r.acme.key)); got.status != 503 {
		t.Errorf("with nodes of the old cell alone: %d", got.status)
	}
	if now := r.up[1].served.Load() + r.up[2].served.Load(); now != old {
		t.Errorf("nodes of the old cell served %d calls", now-old)
	}
}

// Two recoveries of one cell are in no order, and a stranger is none of it: what is followed stays.
func TestView_OfAnotherCellOnlyTheStateOfItsReplacementIsTaken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		msg   *cellv1.WatchResponse
		taken bool
	}{
		"a stranger":         {&cellv1.WatchResponse{CellId: "cell_x", Index: 9, State: &cellv1.State{CellId: "cell_x", Index: 9}}, false},
		"the one before":     {&cellv1.WatchResponse{CellId: "cell_a", Index: 9, State: &cellv1.State{CellId: "cell_a", Index: 9}}, false},
		"its twin":           {&cellv1.WatchResponse{CellId: "cell_c", Index: 9, State: &cellv1.State{CellId: "cell_c", Index: 9, ReplacedCells: []string{"cell_a"}}}, false},
		"a change elsewhere": {&cellv1.WatchResponse{CellId: "cell_a", Index: 9, Changes: []*cellv1.Change{{}}}, false},
		"a heartbeat":        {&cellv1.WatchResponse{CellId: "cell_a", Index: 9}, false},
		"the next, at less":  {&cellv1.WatchResponse{CellId: "cell_d", Index: 2, State: &cellv1.State{CellId: "cell_d", Index: 2, ReplacedCells: []string{"cell_a", "cell_b"}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, now := newView(), time.Now()
			v.take(&cellv1.WatchResponse{CellId: "cell_b", Index: 5, State: &cellv1.State{CellId: "cell_b", Index: 5, ReplacedCells: []string{"cell_a"}}}, now)
			heard := v.heard.Load()
			if refused := v.take(tc.msg, now.Add(time.Second)); refused == tc.taken || (v.heard.Load() != heard) != tc.taken {
				t.Errorf("refused: %v", refused)
			}
			want := map[bool]string{true: "cell_d", false: "cell_b"}[tc.taken]
			if cur := v.current(); cur.cell != want || tc.taken != (cur.index == 2) {
				t.Errorf("%s at %d", cur.cell, cur.index)
			}
		})
	}
}

package cell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestCell_FirstLeaderRecordsShardsAndNodes(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.leader()
	for _, n := range c.nodes {
		ids, err := n.cell.WaitShards(testContext(t))
		if err != nil || !slices.Equal(ids, testShards) {
			t.Fatalf("%s: shards %v, %v", n.id, ids, err)
		}
		if got := n.cell.View().Nodes(); len(got) != 3 || !proto.Equal(got[0], c.nodes["node-1"].record()) {
			t.Errorf("%s: nodes %v", n.id, got)
		}
	}
}

func TestApply_AnyNodeForwardsToTheLeader(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	ctx := testContext(t)
	for i := range 3 {
		id := fmt.Sprintf("node-%d", i+1)
		res, err := callApply(ctx, c.client(id), &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(i+1, "by-"+id)}})
		if err != nil {
			t.Fatalf("by %s: %v", id, err)
		}
		for _, n := range c.nodes {
			eventually.True(t, patience, "the tenant everywhere", func() bool { return n.cell.View().Index() >= res.GetIndex() })
			if _, ok := n.cell.View().TenantByName("by-" + id); !ok {
				t.Errorf("%s does not know the tenant made by %s", n.id, id)
			}
		}
	}
	state, err := c.client("node-1").GetState(ctx, connect.NewRequest(&cellv1.GetStateRequest{}))
	if err != nil || len(state.Msg.GetState().GetTenants()) != 3 || !slices.Equal(state.Msg.GetState().GetShards(), testShards) {
		t.Errorf("state %v, %v", state, err)
	}
	// The refusal of the leader reaches the caller as it was.
	_, err = callApply(ctx, c.client(c.follower().id), &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(9, "by-node-1")}})
	if f := fault.As(err); f == nil || f.Code != fault.Conflict || f.Reason != "NAME_TAKEN" {
		t.Errorf("got %v", err)
	}
}

// Keys, sign-up and Terraform wait until every node knows of a change. The leader says so at once: a
// follower that waited for a tick of raft, here 2 to 4 s, would know of eight of them when the test ends.
func TestApply_EveryNodeKnowsOfAChangeAtOnce(t *testing.T) {
	t.Parallel()
	const changes = 40
	c := newTestCell(t, 3, func(c *testCell) { c.commit = 2 * time.Second })
	leader := c.leader()
	until := time.Now().Add(changes * c.commit / 4)
	for i := range changes {
		res, err := callApply(testContext(t), c.client(leader.id), &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(i+1, fmt.Sprint("tenant-", i))}})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range c.nodes {
			eventually.True(t, patience, "the tenant everywhere", func() bool { return n.cell.View().Index() >= res.GetIndex() })
		}
		if time.Now().After(until) {
			t.Fatalf("%d changes took %v", i+1, changes*c.commit/4)
		}
	}
}

func TestApply_AForwardedCallIsNotForwardedAgain(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	follower := c.follower()
	if _, err := follower.cell.WaitShards(testContext(t)); err != nil {
		t.Fatal(err)
	}
	req := connect.NewRequest(&cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(1, "acme")}})
	req.Header().Set(headerCarried, "1")
	_, err := c.client(follower.id).Apply(testContext(t), req)
	f := Fault(err)
	if f.Code != fault.NotLeader {
		t.Fatalf("got %v", err)
	}
	if f.Leader != c.leader().record().GetApiUrl() {
		t.Errorf("the refusal names %q as the leader", f.Leader)
	}
}

// TestApply_AcknowledgedSurvivesLeaderKills writes through a node that stays while
// leaders die and come back, and looks for every acknowledged tenant at the end.
func TestApply_AcknowledgedSurvivesLeaderKills(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	ctx := testContext(t)
	var acked []string
	n := 0
	write := func(by string) {
		n++
		name := fmt.Sprintf("tenant-%d", n)
		// Repeated until known: repeating a call that did happen does no harm.
		if _, err := applyOn(ctx, t, c, by, &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(n, name)}}); err != nil {
			t.Fatalf("write %s by %s: %v", name, by, err)
		}
		acked = append(acked, name)
	}
	for range 3 {
		leader, by := c.leader(), c.follower().id
		write(by)
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			c.kill(leader.id)
		}()
		for range 10 {
			write(by)
		}
		<-killed
		write(by)
		c.restart(leader.id)
	}
	for _, node := range c.nodes {
		for i, name := range acked {
			eventually.True(t, patience, name+" on "+node.id, func() bool {
				_, ok := node.cell.View().TenantByName(name)
				return ok
			})
			if got, _ := node.cell.View().TenantByName(name); got.GetId() != tenantID(i+1) {
				t.Errorf("%s is %v on %s", name, got, node.id)
			}
		}
	}
}

// recorder follows a watch and checks what it is sent.
type recorder struct {
	mu     sync.Mutex
	index  uint64
	states int
	seen   map[string]int // Changes by tenant name, those inside a state too.
	err    error
}

func (r *recorder) take(m *cellv1.WatchResponse) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case m.GetState() != nil:
		r.states++
		r.seen = make(map[string]int)
		for _, x := range m.GetState().GetTenants() {
			r.seen[x.GetName()]++
		}
		r.index = m.GetIndex()
	case len(m.GetChanges()) > 0:
		if m.GetIndex() <= r.index {
			r.err = fmt.Errorf("index %d came after %d", m.GetIndex(), r.index)
		}
		for _, x := range m.GetChanges() {
			r.seen[x.GetTenant().GetName()]++
		}
		r.index = m.GetIndex()
	case m.GetIndex() != r.index:
		r.err = fmt.Errorf("heartbeat says %d, the watcher stands at %d", m.GetIndex(), r.index)
	}
	return r.err
}

func (r *recorder) position() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index
}

// follow watches nodes one after the other, resuming where the last stream broke.
func (r *recorder) follow(ctx context.Context, clients []cellv1connect.CellServiceClient) {
	for i := 0; ctx.Err() == nil; i++ {
		stream, err := clients[i%len(clients)].Watch(ctx, connect.NewRequest(&cellv1.WatchRequest{AfterIndex: r.position()}))
		if err != nil {
			continue
		}
		for stream.Receive() {
			if r.take(stream.Msg()) != nil {
				return
			}
		}
		_ = stream.Close()
	}
}

func TestWatch_EveryChangeExactlyOnceAcrossLeaderKills(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	ctx := testContext(t)
	c.leader()
	watchCtx, stop := context.WithCancel(ctx)
	r := &recorder{seen: make(map[string]int)}
	var clients []cellv1connect.CellServiceClient
	for id := range c.nodes {
		clients = append(clients, c.client(id))
	}
	var following sync.WaitGroup
	following.Go(func() { r.follow(watchCtx, clients) })
	n, last := 0, uint64(0)
	for range 3 {
		leader, by := c.leader(), c.follower().id
		for i := range 20 {
			if i == 5 {
				c.kill(leader.id)
			}
			n++
			res, err := applyOn(ctx, t, c, by, &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(n, fmt.Sprintf("tenant-%d", n))}, Source: "test", Generation: uint64(n)})
			if f := fault.As(err); f != nil && f.Reason == "STALE_GENERATION" {
				continue // The repetition of an unknown outcome that had happened.
			}
			if err != nil {
				t.Fatal(err)
			}
			last = res.GetIndex()
		}
		c.restart(leader.id)
	}
	eventually.True(t, patience, "the watcher to catch up", func() bool { return r.position() >= last || r.failed() != nil })
	stop()
	following.Wait()
	if err := r.failed(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprintf("tenant-%d", i+1)
		if r.seen[name] != 1 {
			t.Errorf("%s was seen %d times", name, r.seen[name])
		}
	}
}

func (r *recorder) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func TestWatch_SlowWatcherGetsTheWholeStateAgain(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	r := &recorder{seen: make(map[string]int)}
	w := &watcher{send: r.take}
	if err := w.catchUp(b.machine.View()); err != nil {
		t.Fatal(err)
	}
	for i := range recentMax {
		b.must(testTenant(10+i, fmt.Sprintf("tenant-%d", i)))
	}
	if err := w.catchUp(b.machine.View()); err != nil || r.states != 1 {
		t.Fatalf("a watcher %d behind was sent %d states, %v", recentMax, r.states, err)
	}
	for i := range recentMax + 1 {
		b.must(testTenant(10+i, fmt.Sprintf("again-%d", i)))
	}
	if err := w.catchUp(b.machine.View()); err != nil || r.states != 2 {
		t.Fatalf("a watcher %d behind was sent %d states, %v", recentMax+1, r.states, err)
	}
	if len(r.seen) != len(b.machine.View().State().GetTenants()) || w.at != b.machine.View().Index() {
		t.Errorf("%d tenants seen, position %d", len(r.seen), w.at)
	}
}

func TestWatch_ResumingAheadOfTheNodeWaits(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 1)
	n := c.leader()
	ahead := n.cell.View().Index() + 1
	got := make(chan *cellv1.WatchResponse, 100)
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() {
		done <- n.cell.Watch(ctx, ahead, func(m *cellv1.WatchResponse) error {
			got <- m
			return nil
		})
	}()
	res, err := n.cell.Apply(testContext(t), &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(1, "acme")}})
	if err != nil {
		t.Fatal(err)
	}
	m := <-got
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("watch ended with %v", err)
	}
	if m.GetIndex() < ahead || m.GetIndex() != res.GetIndex() {
		t.Errorf("first message has index %d, the change has %d", m.GetIndex(), res.GetIndex())
	}
}

// A node that may be partitioned must not tell a proxy that its keys are current.
func TestWatch_EndsOnANodeWithoutALeader(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	left := c.follower()
	if _, err := left.cell.WaitShards(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for id := range c.nodes {
		if id != left.id {
			c.kill(id)
		}
	}
	eventually.True(t, patience, "the leader to be missed", func() bool { return left.cell.Group().Leader() == "" })
	n := 0
	err := left.cell.Watch(testContext(t), 0, func(m *cellv1.WatchResponse) error {
		if n++; m.GetState() == nil {
			t.Errorf("a heartbeat without a leader: %v", m)
		}
		return nil
	})
	if fault.CodeOf(err) != fault.Unavailable || n != 1 {
		t.Errorf("%d messages, then %v", n, err)
	}
}

func TestWatch_EndsBeforeTheServerStops(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 1)
	n := c.leader()
	stream, err := c.client(n.id).Watch(testContext(t), connect.NewRequest(&cellv1.WatchRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	n.cell.EndWatches()
	if err := n.srv.Shutdown(testContext(t)); err != nil {
		t.Errorf("the server waited for a watch: %v", err)
	}
	for stream.Receive() {
	}
	if f := Fault(stream.Err()); f.Reason != "SHUTTING_DOWN" {
		t.Errorf("the watch ended with %v", stream.Err())
	}
	if err := n.cell.Watch(testContext(t), 0, func(*cellv1.WatchResponse) error { return nil }); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a watch began: %v", err)
	}
}

func TestPeers_ConfiguredAddressesBeatTheRecord(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	for _, id := range []string{"moved", "recorded"} {
		b.must(&cellv1.Change{Change: &cellv1.Change_Node{Node: &cellv1.Node{Id: id, RaftAddress: "h:1", ApiUrl: "http://h:1"}}})
	}
	p := &Peers{cell: &Cell{machine: b.machine}, first: map[string]string{"told": "http://h:2", "moved": "http://h:2"}}
	for id, want := range map[string]string{"told": "http://h:2", "recorded": "http://h:1", "moved": "http://h:2", "nobody": ""} {
		if got, ok := p.URL(id); got != want || ok != (want != "") {
			t.Errorf("%s is at %q, %v; want %q", id, got, ok, want)
		}
	}
}

func TestHandler_OnlyPartsOfTheCellMayCall(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 1)
	url := c.leader().record().GetApiUrl()
	other, err := identity.NewSigner(cellsecret.Must([]byte("the secret of another cell")))
	if err != nil {
		t.Fatal(err)
	}
	tenant := func(r *http.Request) error {
		return c.signer.SignRequest(r, identity.Identity{
			TenantID: tenantID(1), Principal: "key_000000000001", Grants: permission.Here{All: permission.Everything()}, ExpiresAt: time.Now().Add(time.Minute),
		})
	}
	for name, sign := range map[string]func(*http.Request) error{
		"unsigned":     func(*http.Request) error { return nil },
		"other secret": func(r *http.Request) error { return other.SignRequest(r, identity.CellPrincipal("x", time.Now())) },
		"a tenant":     tenant,
		"expired": func(r *http.Request) error {
			return c.signer.SignRequest(r, identity.CellPrincipal("x", time.Now().Add(-time.Hour)))
		},
		"another path": func(r *http.Request) error {
			return c.signer.Sign(r.Header, identity.CellPrincipal("x", time.Now()), "/elsewhere")
		},
		"forged header": func(r *http.Request) error { r.Header.Set(identity.HeaderPrincipal, "cell:x"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			client := cellv1connect.NewCellServiceClient(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if err := sign(r); err != nil {
					return nil, err
				}
				return c.trans.RoundTrip(r)
			})}, url)
			_, err := client.GetState(testContext(t), connect.NewRequest(&cellv1.GetStateRequest{}))
			want := connect.CodeUnauthenticated
			if name == "expired" { // Rightly signed: a clock is wrong, not the caller.
				want = connect.CodeUnavailable
			}
			if connect.CodeOf(err) != want {
				t.Errorf("unary: %v", err)
			}
			stream, err := client.Watch(testContext(t), connect.NewRequest(&cellv1.WatchRequest{}))
			if err == nil {
				if stream.Receive() {
					t.Error("stream: received the state")
				}
				err = stream.Err()
			}
			if connect.CodeOf(err) != want {
				t.Errorf("stream: %v", err)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

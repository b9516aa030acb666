package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// rig is a node alone: a cell, shard 2 open and leading, shard 3 not open.
type rig struct {
	*Cluster
	t      *testing.T
	shard  *Shard
	opened chan struct{}
	health *health.Health // Of the group of follow; nil is fit.
}

func start(t *testing.T) *rig {
	t.Helper()
	stores := grouptest.Open(t, grouptest.InMemory())
	c, err := cell.Open(stores.DB.Group(cell.GroupID), stores.Log.Group(cell.GroupID), grouptest.NewWire("n1"), cell.Options{
		NodeID: "n1", Bootstrap: []string{"n1"}, Shards: []uint32{2, 3}, Alone: true,
		Nodes: []*cellv1.Node{{Id: "n1", RaftAddress: "127.0.0.1:1", ApiUrl: "http://127.0.0.1:2"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := stores.Replica(t, 2, grouptest.Setup{Group: group.Options{Alone: true}})
	t.Cleanup(func() {
		if err := errors.Join(g.Shutdown(), c.Shutdown(), stores.Close()); err != nil {
			t.Error(err)
		}
	})
	s := shard.New(g.Group, g.Store, shard.Options{})
	r := &rig{t: t, shard: &Shard{Shard: s, Service: queue.New(s, queue.Rules{Keeps: func(job.Namespace) retention.Policy { return retention.Default() }})}, opened: make(chan struct{})}
	r.Cluster = New(c, nil, func(id uint32) *Shard {
		if id == 2 {
			return r.shard
		}
		return nil
	}, r.opened)
	eventually.True(t, patience, "the cell and the shard lead", func() bool { return c.Group().Leading() && g.Leading() && len(c.View().Nodes()) == 1 })
	r.put(&cellv1.Change{Change: &cellv1.Change_Tenant{Tenant: &cellv1.Tenant{Id: tenantID, Name: "acme"}}})
	return r
}

var tenantID = "tn_" + strings.TrimPrefix(job.Namespace{1}.String(), "ns_")

func (r *rig) put(c *cellv1.Change) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if _, err := r.cell.Apply(ctx, &cellv1.ApplyRequest{Changes: []*cellv1.Change{c}}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) namespace(n byte, on uint32, deleted bool) job.Namespace {
	r.t.Helper()
	ns := job.Namespace{n}
	r.put(&cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: &cellv1.Namespace{
		Id: ns.String(), TenantId: tenantID, Name: "ns" + string('a'+rune(n)), Shard: on, Deleted: deleted,
	}}})
	return ns
}

func TestRoute_ToTheShardThatHoldsTheNamespace(t *testing.T) {
	t.Parallel()
	r := start(t)
	here, elsewhere := r.namespace(1, 2, false), r.namespace(2, 3, false)
	p, err := r.Route(here)
	if err != nil || p.Service != r.shard.Service || p.LeaderURL != "" || p.Index == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	for what, ns := range map[string]job.Namespace{"a shard that is not open": elsewhere, "a namespace nobody heard of": {99}} {
		if p, err := r.Route(ns); err != nil || p != (Placement{}) {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
	}
}

func TestRoute_ADeletedNamespaceIsNotFound(t *testing.T) {
	t.Parallel()
	r := start(t)
	close(r.opened)
	ns := r.namespace(1, 2, false)
	r.namespace(1, 2, true)
	if p, err := r.Route(ns); fault.CodeOf(err) != fault.NotFound || p.Service != nil {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := r.WaitLeader(t.Context(), ns); fault.CodeOf(err) != fault.NotFound {
		t.Fatal(err)
	}
}

func TestWaitLeader_ReturnsWhenTheNamespaceAppears(t *testing.T) {
	t.Parallel()
	r := start(t)
	got := make(chan Placement, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		p, err := r.WaitLeader(ctx, job.Namespace{1})
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	close(r.opened)
	r.namespace(1, 2, false)
	if p := <-got; p.Service != r.shard.Service {
		t.Fatalf("%+v", p)
	}
}

func TestWaitLeader_TellsWhatIsKnownWhenTheCallerGivesUp(t *testing.T) {
	t.Parallel()
	r := start(t)
	here := r.namespace(1, 2, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p, err := r.WaitLeader(ctx, here); err != nil || p.Service == nil {
		t.Fatalf("before the shards are open: %+v, %v", p, err)
	}
	close(r.opened)
	if p, err := r.WaitLeader(ctx, job.Namespace{99}); err != nil || p != (Placement{}) {
		t.Fatalf("an unknown namespace: %+v, %v", p, err)
	}
}

package cluster

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// A stalled node's raft may not learn for as long who leads now: a call that waited
// there would wait for the disk, while another node could carry it.
func TestWaitLeader_AStalledNodeHoldsNoCall(t *testing.T) {
	t.Parallel()
	r := start(t)
	ns := r.namespace(1, 2, false)
	r.health = health.New(slog.New(slog.DiscardHandler))
	r.follow()
	close(r.opened)
	answered := make(chan error, 1)
	go func() {
		_, err := r.WaitLeader(context.Background(), ns)
		answered <- err
	}()
	r.health.Set(health.DiskStalled, "")
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the call is still held")
	}
}

// follow makes the rig's shard one that n2 leads; all that n2 does is say so.
func (r *rig) follow() {
	r.t.Helper()
	stores := grouptest.Open(r.t, grouptest.InMemory())
	here, there := grouptest.NewWire("n1"), grouptest.NewWire("n2")
	there.Connect("n1", here.InmemTransport)
	g := stores.Replica(r.t, 2, grouptest.Setup{Wire: &here, Group: group.Options{Bootstrap: []string{"n1", "n2"}, Health: r.health}})
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		beat := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("n2"), Addr: []byte("n2")}, Term: 100}
		for ctx.Err() == nil {
			var resp raft.AppendEntriesResponse
			_ = there.AppendEntries("n1", "n1", &beat, &resp) // The next one follows.
			time.Sleep(10 * time.Millisecond)
		}
	}()
	r.t.Cleanup(func() {
		cancel()
		<-gone
		if err := errors.Join(g.Shutdown(), stores.Close()); err != nil {
			r.t.Error(err)
		}
	})
	s := shard.New(g.Group, g.Store, shard.Options{})
	r.shard = &Shard{Shard: s, Service: queue.New(s, queue.Rules{Keeps: func(job.Namespace) retention.Policy { return retention.Default() }})}
	r.peers = cell.NewPeers(r.cell, nil, nil, nil)
	eventually.True(r.t, patience, "n2 leads", func() bool { return g.Leader() == "n2" })
}

// A node that joined later may lead before this one has heard where it is.
func TestWaitLeader_ReturnsWhenTheLeadersAddressBecomesKnown(t *testing.T) {
	t.Parallel()
	r := start(t)
	ns := r.namespace(1, 2, false)
	r.follow()
	close(r.opened)
	if p, err := r.Route(ns); err != nil || p.Service != nil || p.LeaderURL != "" {
		t.Fatalf("before: %+v, %v", p, err)
	}
	got := make(chan Placement, 1)
	go func() {
		p, err := r.WaitLeader(context.Background(), ns)
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	r.put(&cellv1.Change{Change: &cellv1.Change_Node{Node: &cellv1.Node{Id: "n2", RaftAddress: "127.0.0.1:3", ApiUrl: "http://127.0.0.1:4"}}})
	select {
	case p := <-got:
		if p.LeaderURL != "http://127.0.0.1:4" {
			t.Fatalf("%+v", p)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("nobody woke the caller")
	}
}

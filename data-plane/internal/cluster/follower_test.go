package cluster

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/health"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
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
	log, err := raftlog.Open("log", raftlog.Options{FS: vfs.NewMem()})
	if err != nil {
		r.t.Fatal(err)
	}
	db, err := statedb.Open("state", statedb.Options{FS: vfs.NewMem(), CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		r.t.Fatal(err)
	}
	_, here := raft.NewInmemTransport("n1")
	_, there := raft.NewInmemTransport("n2")
	there.Connect("n1", here)
	store := db.Group(2)
	g, err := group.Open(store, log.Group(2), wire{here}, state.New(store, nil), group.Options{NodeID: "n1", Bootstrap: []string{"n1", "n2"}, Health: r.health})
	if err != nil {
		r.t.Fatal(err)
	}
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
		if err := g.Shutdown(); err != nil {
			r.t.Error(err)
		}
		if err := log.Close(); err != nil {
			r.t.Error(err)
		}
		if err := db.Close(); err != nil {
			r.t.Error(err)
		}
	})
	s := shard.New(g, store, shard.Options{})
	r.shard = &Shard{Shard: s, Service: queue.New(s)}
	r.peers = cell.NewPeers(r.cell, nil, nil, nil)
	eventually(r.t, "n2 leads", func() bool { return g.Leader() == "n2" })
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

package transport

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// idlePerPeer is how many idle connections a group keeps to each peer: one
	// for heartbeats, one for appends outside the pipeline, one for votes.
	idlePerPeer = 3

	// snapshotTimeoutBytes is how much of a snapshot may take one RPC timeout:
	// with the default 5 s, 1 MiB/s is the slowest that still arrives.
	snapshotTimeoutBytes = 5 << 20
)

var (
	_ raft.Transport   = (*Group)(nil)
	_ raft.WithPreVote = (*Group)(nil)
	_ raft.WithClose   = (*Group)(nil)
)

// Raft is what the heartbeat filter asks about the group's raft node.
// *raft.Raft is one.
type Raft interface {
	CurrentTerm() uint64
	State() raft.RaftState
	LastContact() time.Time
	ReloadableConfig() raft.ReloadableConfig
}

// Group is the raft transport of one group on this node.
type Group struct {
	// The embedded transport does everything except what the methods here, in append.go,
	// pipeline.go and health.go replace.
	*raft.NetworkTransport

	mux    *Mux
	id     uint32
	stream *stream
	bound  atomic.Pointer[Raft]
	opened time.Time

	rpcs    chan raft.RPC  // To raft; never closed.
	done    chan struct{}  // Closed by shut.
	shutOne sync.Once      // Guards the closing of done.
	work    sync.WaitGroup // forward and receiveSnapshot; Close waits.

	pipelines pipelines

	arrivals atomic.Uint64 // Snapshot transfers begun so far; only forward adds.
	delivery sync.Mutex    // Held from the look at arrivals until raft has the snapshot.
}

func newGroup(m *Mux, id uint32) *Group {
	s := newStream(m, id)
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Logger:  newLogger(m.opts.Logger.With("group", id)),
		Stream:  s,
		MaxPool: idlePerPeer,
		Timeout: m.opts.RPCTimeout,

		MaxRPCsInFlight: inFlightMax,
	})
	t.TimeoutScale = snapshotTimeoutBytes
	g := &Group{
		NetworkTransport: t,
		mux:              m,
		id:               id,
		stream:           s,
		opened:           time.Now(),
		rpcs:             make(chan raft.RPC),
		done:             make(chan struct{}),
	}
	g.work.Go(g.forward)
	return g
}

// Bind tells the heartbeat filter which raft node this transport serves. Until
// then every heartbeat goes through the raft loop, which is always right.
func (g *Group) Bind(r Raft) { g.bound.Store(&r) }

// Consumer returns the requests raft has to answer.
func (g *Group) Consumer() <-chan raft.RPC { return g.rpcs }

// forward moves requests from the library's channel to ours, where diverted
// heartbeats join them. It runs until the group closes.
func (g *Group) forward() {
	in := g.NetworkTransport.Consumer()
	for {
		select {
		case rpc := <-in:
			g.receive(rpc)
		case <-g.done:
			return
		}
	}
}

// receive checks and adjusts a request before raft sees it.
func (g *Group) receive(rpc raft.RPC) {
	if g.refused(rpc) {
		return
	}
	switch req := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		if !g.mux.opts.stockCommits {
			boundCommit(req)
		}
	case *raft.InstallSnapshotRequest:
		if g.mux.opts.SpoolDir != "" {
			seq := g.arrivals.Add(1)
			g.work.Go(func() { g.receiveSnapshot(rpc, seq) })
			return
		}
	}
	g.enqueue(rpc)
}

// enqueue hands rpc to the raft loop. Once the group is closed nobody answers,
// and the library stops waiting by itself.
func (g *Group) enqueue(rpc raft.RPC) {
	select {
	case g.rpcs <- rpc:
	case <-g.done:
	}
}

// sendSnapshot sends over a connection of the snapshots' lane.
func (g *Group) sendSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	g.mux.snapshotsSent.Add(1)
	counted := countingReader{r: g.mux.Pace(g.mux.ctx, data), n: &g.mux.snapshotsBytes}
	return g.NetworkTransport.InstallSnapshot(id, snapshotAddress(target), args, resp, counted)
}

// Close ends the group's connections. Raft calls it on Shutdown.
func (g *Group) Close() error {
	g.mux.forget(g)
	return g.shut()
}

func (g *Group) shut() error {
	g.shutOne.Do(func() { close(g.done) })
	g.pipelines.end()
	err := g.NetworkTransport.Close() // Closes the stream, and with it all connections.
	g.CloseStreams()
	g.work.Wait()
	g.pipelines.tells.Wait()
	return err
}

type countingReader struct {
	r io.Reader
	n *atomic.Uint64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(uint64(n))
	return n, err
}

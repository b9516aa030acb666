package transport

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Distances.
const (
	// nearEnough is how many round trips must fit into the heartbeat time-out: the
	// leader's lease is half of it, and one lost packet must not cost the leadership.
	nearEnough = 4
	// tellEvery bounds how often a node says that another is too far away.
	tellEvery = time.Minute
	// tripsMin is how many round trips it takes to know how far a node is; tripWindow is
	// how long they count at least. The shortest counts: the others also waited for a
	// processor.
	tripsMin   = 3
	tripWindow = 10 * time.Second
	// adviceStep is what an advised heartbeat is a multiple of.
	adviceStep = 500 * time.Millisecond
)

// DistantNode is one that is too far away for the heartbeat time-out.
type DistantNode struct {
	Node      string
	RoundTrip time.Duration
	Heartbeat time.Duration
}

// Allowed is the longest round trip for the heartbeat.
func (f DistantNode) Allowed() time.Duration { return f.Heartbeat / nearEnough }

// Needed is the heartbeat for the round trip.
func (f DistantNode) Needed() time.Duration {
	return (f.RoundTrip*nearEnough + adviceStep - 1) / adviceStep * adviceStep
}

func (f DistantNode) String() string {
	return fmt.Sprintf("a round trip to %s takes %v, and a heartbeat of %v allows %v; start all nodes with --heartbeat %v",
		f.Node, f.RoundTrip.Round(time.Millisecond), f.Heartbeat, f.Allowed(), f.Needed())
}

// distances remembers how far the other nodes are. It measures round trips of the
// protocol, not of TCP: a proxy beside this node accepts a connection at once, however
// far the peer is.
type distances struct {
	heartbeat time.Duration // 0: no limit.
	log       *slog.Logger

	mu    sync.Mutex // Guards peers and what they point to.
	peers map[string]*distance
}

func newDistances(heartbeat time.Duration, log *slog.Logger) *distances {
	return &distances{heartbeat: heartbeat, log: log, peers: map[string]*distance{}}
}

// distance is one node's: the trips of this window and of the one before.
type distance struct {
	now, before trips
	told        time.Time
}

type trips struct {
	begun time.Time
	least time.Duration
	count int
}

func (t trips) over(now time.Time) bool { return now.Sub(t.begun) >= tripWindow }

// turn begins a new window when the current one is over.
func (d *distance) turn(now time.Time) {
	if !d.now.over(now) {
		return
	}
	d.before = d.now
	d.now = trips{begun: now}
	if now.Sub(d.before.begun) >= 2*tripWindow {
		d.before = trips{}
	}
}

func (d *distance) take(trip time.Duration) {
	if d.now.count == 0 || trip < d.now.least {
		d.now.least = trip
	}
	d.now.count++
}

// trip is the least round trip; known is false while there were too few.
func (d *distance) trip() (least time.Duration, known bool) {
	for _, t := range []trips{d.now, d.before} {
		if t.count > 0 && (least == 0 || t.least < least) {
			least = t.least
		}
	}
	return least, d.now.count+d.before.count >= tripsMin
}

// note records a round trip. If they are longer than the timeouts allow, the cell
// elects leaders for ever; without this log line it would never say why.
func (d *distances) note(node string, trip time.Duration, now time.Time) {
	if d.heartbeat == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peers[node]
	if p == nil {
		p = &distance{now: trips{begun: now}}
		d.peers[node] = p
	}
	p.turn(now)
	p.take(trip)
	far, ok := d.far(node, p)
	if !ok || !p.told.IsZero() && now.Sub(p.told) < tellEvery {
		return
	}
	p.told = now
	d.log.Warn("node is too far away for the heartbeat time-out: leaders may not last; start all nodes with a longer --heartbeat",
		"peer", node, "round_trip", far.RoundTrip.Round(time.Millisecond), "heartbeat", far.Heartbeat, "allowed", far.Allowed(), "needed", far.Needed())
}

// far says whether p is too far away; the caller holds mu.
func (d *distances) far(node string, p *distance) (DistantNode, bool) {
	trip, known := p.trip()
	return DistantNode{Node: node, RoundTrip: trip, Heartbeat: d.heartbeat}, known && trip*nearEnough > d.heartbeat
}

// farthest is the farthest of the nodes now known to be too far away.
func (d *distances) farthest(now time.Time) (most DistantNode, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for node, p := range d.peers {
		p.turn(now)
		far, too := d.far(node, p)
		if too && (!ok || far.RoundTrip > most.RoundTrip || far.RoundTrip == most.RoundTrip && far.Node < most.Node) {
			most, ok = far, true
		}
	}
	return most, ok
}

// TooFar is the farthest of the nodes that are too far away for the heartbeat time-out.
func (m *Mux) TooFar() (DistantNode, bool) { return m.far.farthest(time.Now()) }

// timed measures the round trip of a request that touches no disk.
func (g *Group) timed(target raft.ServerAddress, request func() error) error {
	begun := time.Now()
	err := request()
	if err == nil {
		now := time.Now()
		g.mux.far.note(string(target), now.Sub(begun), now)
	}
	return err
}

// stopwatch measures the round trips of a handshake, in which the sides take turns.
// With TLS it wraps the encrypted connection, whose first write returns after the TLS
// handshake.
type stopwatch struct {
	io.ReadWriter
	far  *distances
	node string
	sent time.Time // Zero once an answer has come.
}

func (w *stopwatch) Write(p []byte) (int, error) {
	n, err := w.ReadWriter.Write(p)
	w.sent = time.Now()
	return n, err
}

func (w *stopwatch) Read(p []byte) (int, error) {
	n, err := w.ReadWriter.Read(p)
	if n > 0 && !w.sent.IsZero() {
		now := time.Now()
		w.far.note(w.node, now.Sub(w.sent), now)
		w.sent = time.Time{}
	}
	return n, err
}

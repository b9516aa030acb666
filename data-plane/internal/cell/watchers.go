package cell

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

const (
	// watcherSilence is how long a proxy with an open watch counts without a
	// confirmation: two confirmations, which follow heartbeats.
	watcherSilence = 12 * time.Second
	// watcherReturn is how long a proxy may take to come back: one whose watches broke off, or who
	// followed this node before it started. It tries at least once a second.
	watcherReturn = 3 * time.Second
	// watchersMax bounds the proxies that one node remembers.
	watchersMax     = 1024
	proxyIDBytesMax = 128
)

// watchers are the proxies that follow this node and what they have confirmed. A proxy is known
// while one of its watches is open, and for watcherReturn after that if it serves: it lets calls in
// by what it has, also while it looks for a node.
type watchers struct {
	mu sync.Mutex
	// Guarded by mu.
	byID map[string]*watching
	// settlesAt is from when on all who follow this node are known. Zero is not yet known.
	settlesAt time.Time
}

type watching struct {
	watches int
	index   uint64
	ready   bool
	secrets []string
	// Of its clients: open, and closed because there were too many.
	connections, connectionsClosed uint64

	heard time.Time // Of the last confirmation.
	left  time.Time // When the last watch ended; zero while there is one.
}

// counts reports whether a change has to wait for this proxy.
func (p *watching) counts(now time.Time) bool {
	return now.Sub(p.heard) <= watcherSilence && !p.gone(now)
}

// gone reports whether it is past coming back. Who doesn't serve lets nobody in.
func (p *watching) gone(now time.Time) bool {
	return p.watches == 0 && (!p.ready || now.Sub(p.left) > watcherReturn)
}

func newWatchers() *watchers { return &watchers{byID: make(map[string]*watching)} }

// settle says from when on all who follow this node are known.
func (w *watchers) settle(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settlesAt = at
}

func (w *watchers) settled(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.settlesAt.IsZero() && !now.Before(w.settlesAt)
}

// enter notes one watch of a proxy until leave is called.
func (w *watchers) enter(id string, now func() time.Time) (leave func(), err error) {
	if len(id) > proxyIDBytesMax || !isPrintable(id) {
		return nil, fault.InvalidFields([]fault.Field{{Path: "proxy_id", Message: "must be a short name of printable characters"}})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetGone(now())
	if w.byID[id] == nil {
		if len(w.byID) >= watchersMax {
			return nil, fault.New(fault.Exhausted, "LIMIT_REACHED", "this node is already watched by %d proxies, its limit; watch another node", watchersMax)
		}
		w.byID[id] = &watching{}
	}
	p := w.byID[id]
	p.watches++
	p.left = time.Time{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if p.watches--; p.watches == 0 {
			p.left = now()
			w.forgetGone(p.left)
		}
	}, nil
}

// forgetGone needs mu.
func (w *watchers) forgetGone(now time.Time) {
	maps.DeleteFunc(w.byID, func(_ string, p *watching) bool { return p.gone(now) })
}

// confirm records what a proxy has applied. One that is not known here is not
// recorded, because nothing would say when it is gone. Confirmations may overtake
// each other, and the end of the watch.
func (w *watchers) confirm(said *cellv1.ConfirmWatchRequest, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.byID[said.GetProxyId()]; p != nil {
		p.index, p.ready, p.heard = max(p.index, said.GetIndex()), said.GetReady(), now
		p.connections, p.connectionsClosed = said.GetConnections(), said.GetConnectionsClosed()
		p.secrets = said.GetSecretIds()
		p.secrets = p.secrets[:min(len(p.secrets), cellsecret.Max)]
	}
}

// list is every proxy that has confirmed something recently, by id.
func (w *watchers) list(now time.Time) []*cellv1.Watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetGone(now)
	var out []*cellv1.Watcher
	for id, p := range w.byID {
		if p.counts(now) {
			out = append(out, &cellv1.Watcher{ProxyId: id, Index: p.index, Ready: p.ready, SecretIds: p.secrets, Connections: p.connections, ConnectionsClosed: p.connectionsClosed})
		}
	}
	slices.SortFunc(out, compareWatchers)
	return out
}

func compareWatchers(a, b *cellv1.Watcher) int { return cmp.Compare(a.GetProxyId(), b.GetProxyId()) }

// followersReturn lets the watchers settle: at once on a new node, which nobody has followed, and
// otherwise some time after it knows a leader. Without one it sends nothing to who comes back.
func (c *Cell) followersReturn() {
	if c.group.New() {
		c.watchers.settle(time.Now())
		return
	}
	for {
		moved := c.group.LeadershipChanged()
		if c.group.Leader() != "" {
			c.watchers.settle(time.Now().Add(watcherReturn))
			return
		}
		select {
		case <-moved:
		case <-c.ending:
			return
		}
	}
}

// followers is this node's own answer to who follows it.
func (c *Cell) followers(now time.Time) *cellv1.ListWatchersResponse {
	return &cellv1.ListWatchersResponse{Watchers: c.watchers.list(now), Settling: !c.watchers.settled(now)}
}

// errSettling: a node that has just started counts as one that didn't answer.
var errSettling = errors.New("it has just started, and does not know yet who follows it")

// Watchers asks all nodes at once who follows them. A proxy follows two nodes; its
// confirmation to either counts.
func (m *Membership) Watchers(ctx context.Context) *cellv1.ListWatchersResponse {
	nodes := m.cell.View().Nodes()
	answers := make([][]*cellv1.Watcher, len(nodes))
	errs := make([]error, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() { answers[i], errs[i] = m.watchersOf(ctx, n) })
	}
	asked.Wait()
	out := &cellv1.ListWatchersResponse{Nodes: uint32(len(nodes))} // At most nodesMax.
	merged := make(map[string]*cellv1.Watcher)
	for i := range nodes {
		if errs[i] != nil {
			m.logger.Debug("ask a node for its watchers", "node", nodes[i].GetId(), "err", errs[i])
			out.SilentNodeIds = append(out.SilentNodeIds, nodes[i].GetId())
		}
		for _, w := range answers[i] {
			if have := merged[w.GetProxyId()]; have != nil {
				have.Index, have.Ready = max(have.GetIndex(), w.GetIndex()), have.GetReady() || w.GetReady()
				continue
			}
			merged[w.GetProxyId()] = w
			out.Watchers = append(out.Watchers, w)
		}
	}
	slices.SortFunc(out.Watchers, compareWatchers)
	return out
}

// watchersOf may give watchers together with an error.
func (m *Membership) watchersOf(ctx context.Context, n *cellv1.Node) ([]*cellv1.Watcher, error) {
	if n.GetId() == m.cell.NodeID() {
		return known(m.cell.followers(time.Now()))
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	client, _ := m.peers.of(n)
	res, err := client.ListWatchers(ctx, connect.NewRequest(&cellv1.ListWatchersRequest{Local: true}))
	if err != nil {
		return nil, Fault(err)
	}
	return known(res.Msg)
}

func known(res *cellv1.ListWatchersResponse) ([]*cellv1.Watcher, error) {
	if res.GetSettling() {
		return res.GetWatchers(), errSettling
	}
	return res.GetWatchers(), nil
}

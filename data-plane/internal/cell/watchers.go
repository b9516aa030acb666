package cell

import (
	"cmp"
	"context"
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
	// watchersMax bounds the proxies that one node remembers.
	watchersMax     = 1024
	proxyIDBytesMax = 128
)

// watchers are the proxies that follow this node and what they have confirmed. A
// proxy is known while one of its watches is open.
type watchers struct {
	mu   sync.Mutex
	byID map[string]*watching // Guarded by mu.
}

type watching struct {
	watches int
	index   uint64
	ready   bool
	secrets []string
	// Of its clients: open, and closed because there were too many.
	connections, connectionsClosed uint64

	heard time.Time // Of the last confirmation.
}

func newWatchers() *watchers { return &watchers{byID: make(map[string]*watching)} }

// enter notes one watch of a proxy until leave is called.
func (w *watchers) enter(id string) (leave func(), err error) {
	if len(id) > proxyIDBytesMax || !isPrintable(id) {
		return nil, fault.InvalidFields([]fault.Field{{Path: "proxy_id", Message: "must be a short name of printable characters"}})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[id] == nil {
		if len(w.byID) >= watchersMax {
			return nil, fault.New(fault.Exhausted, "LIMIT_REACHED", "this node is already watched by %d proxies, its limit; watch another node", watchersMax)
		}
		w.byID[id] = &watching{}
	}
	w.byID[id].watches++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.byID[id].watches--; w.byID[id].watches == 0 {
			delete(w.byID, id)
		}
	}, nil
}

// confirm records what a proxy has applied. A proxy without a watch here is not
// recorded, because nothing would say when it is gone. Confirmations may overtake
// each other.
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
	var out []*cellv1.Watcher
	for id, p := range w.byID {
		if now.Sub(p.heard) <= watcherSilence {
			out = append(out, &cellv1.Watcher{ProxyId: id, Index: p.index, Ready: p.ready, SecretIds: p.secrets, Connections: p.connections, ConnectionsClosed: p.connectionsClosed})
		}
	}
	slices.SortFunc(out, compareWatchers)
	return out
}

func compareWatchers(a, b *cellv1.Watcher) int { return cmp.Compare(a.GetProxyId(), b.GetProxyId()) }

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

func (m *Membership) watchersOf(ctx context.Context, n *cellv1.Node) ([]*cellv1.Watcher, error) {
	if n.GetId() == m.cell.NodeID() {
		return m.cell.watchers.list(time.Now()), nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	client, _ := m.peers.of(n)
	res, err := client.ListWatchers(ctx, connect.NewRequest(&cellv1.ListWatchersRequest{Local: true}))
	if err != nil {
		return nil, Fault(err)
	}
	return res.Msg.GetWatchers(), nil
}

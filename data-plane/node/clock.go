package node

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// watchClocks prepares to compare this node's clock with the others' (R-T2). A node
// alone has no other to ask, and nodes that share a clock need not.
func (n *Node) watchClocks(secrets *cellsecret.Secrets) error {
	var err error
	if n.prover, err = cellclock.NewProver(secrets); err != nil || n.cfg.alone() || n.cfg.SharesClock {
		return err
	}
	n.clocks = cellclock.New(cellclock.Options{
		Prover: n.prover, Client: &http.Client{Transport: n.transport}, Clock: n.cfg.Clock, Member: true,
		Nodes: n.otherNodes, OnChange: n.onClock, Logger: n.logger,
	})
	return nil
}

// otherNodes are the API addresses of the cell's other nodes: from the cell's records
// or, before there is a cell, from this process's configuration.
func (n *Node) otherNodes() map[string]string {
	out := make(map[string]string)
	if c := n.opened.Load(); c != nil {
		for _, rec := range c.View().Nodes() {
			out[rec.GetId()] = rec.GetApiUrl()
		}
	}
	recorded := len(out) > 0
	for id, p := range n.peers {
		if _, member := out[id]; p.APIURL != "" && (member || !recorded) {
			out[id] = p.APIURL
		}
	}
	if len(out) == 0 { // A new cell whose nodes were not configured with each other's addresses.
		for _, k := range n.folderRecord().Nodes {
			out[k.ID] = k.APIURL
		}
	}
	delete(out, n.cfg.ID)
	return out
}

// onClock keeps a node whose clock disagrees with most nodes from leading. While it is
// unknown whose clock is right, no node is kept from it: the calendar then advances by
// the monotonic clock, and the log says so.
func (n *Node) onClock(s cellclock.State) {
	switch s.Status {
	case cellclock.Agreed:
		n.fitness.Clear(health.Clock)
	case cellclock.Off:
		n.fitness.Set(health.Clock, s.Detail)
	default:
		n.logger.Log(n.loopCtx, slog.LevelWarn, "it isn't known yet whether this node's clock is right", "why", s.Detail)
	}
}

// clockPeers is nil, and not a nil *Watch, if no other clock is compared.
func (n *Node) clockPeers() group.ClockPeers {
	if n.clocks == nil {
		return nil
	}
	return n.clocks
}

// wall is what this node's clock says.
func (n *Node) wall() time.Time {
	at, _ := n.cfg.Clock.Now()
	return at
}

// clockStatus is for operators.
func (n *Node) clockStatus() wire.ClockStatus {
	switch {
	case n.cfg.SharesClock:
		return wire.ClockStatus{State: "agreed"}
	case n.clocks == nil:
		return wire.ClockStatus{State: "alone"}
	}
	s := n.clocks.State()
	words := map[cellclock.Status]string{cellclock.Unknown: "unknown", cellclock.Agreed: "agreed", cellclock.Off: "off"}
	return wire.ClockStatus{State: words[s.Status], AheadMS: -s.Ahead.Milliseconds(), Detail: s.Detail}
}

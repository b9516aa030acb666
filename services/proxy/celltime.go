package proxy

import (
	"context"
	"net/http"

	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
)

// askForTime follows the nodes' time until ctx ends, for checking keys and tokens and
// for signing calls. With Options.Now it does nothing.
func (p *Proxy) askForTime(ctx context.Context, prover *cellclock.Prover) {
	if p.time == nil {
		return
	}
	p.loops.Go(p.time.Follow(ctx, cellclock.Options{
		Prover: prover, Client: &http.Client{Transport: p.transport}, Nodes: p.nodes.clockNodes, Logger: p.log,
	}))
}

// clockNodes are the nodes that are asked for the time, by their address.
func (s *nodes) clockNodes() map[string]string {
	out := map[string]string{}
	for _, n := range *s.list.Load() {
		out[n.base.String()] = n.base.String()
	}
	return out
}

package proxy

import (
	"context"
	"net/http"

	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
)

// askForTime has keys and tokens judged and calls signed by the nodes' time, until ctx
// ends; not if Options.Now says what time it is.
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

package proxy

import (
	"context"
	"errors"
	"net/http"
)

// attempt is a call at the node that led its shard when it was sent there.
type attempt struct {
	leader claim
	shard  uint32
	cancel context.CancelCauseFunc
}

var errSuperseded = errors.New("the node doesn't answer, and another one leads by now")

// toLeader makes r one that cutOff can end, if n is known to lead the call's shard. end has to be
// called once n has answered, or has not.
func (p *Proxy) toLeader(r *http.Request, c *call, n *node) (_ *http.Request, end func()) {
	if c.caller == nil {
		return r, func() {}
	}
	shard := c.caller.namespace.GetShard()
	leader := p.nodes.leader(shard)
	if leader.node != n {
		return r, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	c.attempt.Store(&attempt{leader, shard, cancel})
	return r.WithContext(ctx), func() {
		c.attempt.Store(nil)
		cancel(nil)
	}
}

// cutOff ends the attempts at nodes that do not answer while another node leads in a later term.
// Such a node is paused or cut off: it can't do anything for the shard any more, and by pings
// alone that is known only seconds after others could have taken the call (R28).
func (p *Proxy) cutOff() {
	p.calls.mu.Lock()
	defer p.calls.mu.Unlock()
	for c := range p.calls.open {
		a := c.attempt.Load()
		if a == nil || a.leader.node.answers.Load() {
			continue
		}
		if now := p.nodes.leader(a.shard); now.node != a.leader.node && now.term > a.leader.term && now.node.good() {
			a.cancel(errSuperseded)
		}
	}
}

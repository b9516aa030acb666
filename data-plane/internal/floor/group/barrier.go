package group

import (
	"context"
	"time"
)

const barrierPause = 10 * time.Millisecond

// barrier waits until everything of earlier terms is applied here (R22). It reports
// false if the term ends first. A barrier is refused like any other entry while a
// transfer goes on, so a transfer that never ends shows here first.
func (g *Group) barrier(ctx context.Context) bool {
	for {
		err := g.outcomeOf(g.raft.Barrier(changeTimeout))
		g.watchTransfer(err)
		if err == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(barrierPause):
		}
	}
}

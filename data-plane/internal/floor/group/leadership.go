package group

import (
	"context"

	"github.com/hashicorp/raft"
)

// Lead sets what to do while this replica leads: f runs after the barrier of
// each won term (R22), calls ready once it can serve, and must return soon after
// its context ends. If it returns before, because it doesn't know what became of an entry, it runs
// again after another barrier. Every user of a group calls Lead exactly once; until ready is
// called the replica does not count as leading.
func (g *Group) Lead(f func(ctx context.Context, ready func())) {
	g.onLead = f
	close(g.leadSet)
}

// watchLeadership runs one term after the other; it ends with Shutdown. A node that
// must be silent leads nothing, whatever raft believes: its raft may be stuck in a
// write and not learn for as long that others have elected (R4).
func (g *Group) watchLeadership() {
	defer g.wg.Done()
	var current *term
	won := false
	for {
		changed := g.health.Changed()
		switch leads := won && !g.health.Silent() && g.Disputed() == ""; {
		case leads && current == nil:
			current = g.beginTerm()
			g.moved.Fire()
		case !leads && current != nil:
			g.endTerm(current)
			current = nil
			g.moved.Fire()
		}
		select {
		case won = <-g.notify:
			g.moved.Fire()
		case <-changed:
			g.moved.Fire()
		case <-g.disputes:
			g.moved.Fire()
		case <-g.seen:
			g.moved.Fire()
		case <-current.over(): // Its owner gave it up. The next one may begin at once.
			g.endTerm(current)
			current = nil
			g.moved.Fire()
		case <-g.stop:
			if current != nil {
				g.endTerm(current)
			}
			return
		}
	}
}

// term is one stretch of leadership.
type term struct {
	cancel context.CancelFunc
	done   chan struct{} // Closed when its goroutine has ended.
}

func (t *term) over() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.done
}

func (g *Group) beginTerm() *term {
	ctx, cancel := context.WithCancel(context.Background())
	t := &term{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		g.runTerm(ctx)
	}()
	return t
}

func (g *Group) endTerm(t *term) {
	g.ready.Store(false)
	t.cancel()
	<-t.done
}

func (g *Group) runTerm(ctx context.Context) {
	if !g.barrier(ctx) {
		return
	}
	g.peers.Wait(ctx, askedWithin)
	g.fsm.mu.RLock()
	floor, at := g.fsm.applied.now, g.fsm.at
	g.fsm.mu.RUnlock()
	g.clock.restart(floor, at)
	select {
	case <-g.leadSet:
	case <-ctx.Done():
		return
	}
	g.onLead(ctx, func() {
		g.ready.Store(true)
		g.moved.Fire()
	})
	g.ready.Store(false)
}

// sending is a context for what this replica sends as the leader that it is: it ends
// with raft's term, or with the replica. Raft itself goes on waiting for what it began
// to send before, also when it shuts down.
func (g *Group) sending() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		select {
		case <-g.started:
		case <-g.stop:
			return
		}
		term := g.raft.CurrentTerm()
		for {
			moved := g.moved.Wait()
			if g.raft.State() != raft.Leader || g.raft.CurrentTerm() != term {
				return
			}
			select {
			case <-moved:
			case <-g.stop:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// Leading reports whether this replica leads and has passed its barrier.
func (g *Group) Leading() bool { return g.ready.Load() && !g.health.Silent() && g.Disputed() == "" }

// Leader is the node id of the leader as this replica knows it, or "".
func (g *Group) Leader() string {
	_, id := g.raft.LeaderWithID()
	if string(id) == g.nodeID && g.health.Silent() {
		return "" // Not for long, or not any more.
	}
	return string(id)
}

// LedElsewhere reports whether this replica knows another one that leads.
func (g *Group) LedElsewhere() bool {
	leader := g.Leader()
	return leader != "" && leader != g.nodeID
}

// Silent reports that this replica cannot know who leads, because its raft may be stuck,
// or may not serve.
// Whoever would wait here for a leader had better ask another node.
func (g *Group) Silent() bool { return g.health.Silent() || g.Disputed() != "" }

// LeadershipChanged returns a channel that is closed at the next change this
// replica notices. Take it before looking at Leader.
func (g *Group) LeadershipChanged() <-chan struct{} { return g.moved.Wait() }

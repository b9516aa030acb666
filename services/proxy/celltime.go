package proxy

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
)

// followEvery is how often the cell's time is taken over.
const followEvery = time.Second

// cellTime is the time by which a proxy judges keys and tokens and signs calls: that of
// most nodes, whatever its own wall clock says (R-T2). Between two answers, and while no
// nodes agree, it goes on by the monotonic clock, so a wall that jumps moves nothing.
type cellTime struct {
	clock  cellclock.Clock
	prover *cellclock.Prover
	watch  *cellclock.Watch
	at     atomic.Pointer[moment] // Nil: nobody has told the time yet, and the wall counts.
}

// moment is a time of the cell, and the monotonic clock then.
type moment struct {
	cell time.Time
	mono time.Duration
}

// newCellTime fills in Options.Now; nil if it is given.
func newCellTime(opts *Options) (*cellTime, error) {
	if opts.Now != nil {
		return nil, nil //nolint:nilnil // Nobody is asked then.
	}
	prover, err := cellclock.NewProver(opts.CellSecret)
	if err != nil {
		return nil, err
	}
	c := &cellTime{clock: opts.Clock, prover: prover}
	opts.Now = c.now
	return c, nil
}

// askForTime follows the nodes' clocks until ctx ends.
func (p *Proxy) askForTime(ctx context.Context) {
	c := p.time
	if c == nil {
		return
	}
	c.watch = cellclock.New(cellclock.Options{
		Prover: c.prover, Client: &http.Client{Transport: p.transport}, Clock: c.clock, Nodes: p.nodes.clockNodes, Logger: p.log,
		// The first answer counts at once.
		OnChange: func(s cellclock.State) { c.take(s) },
	})
	p.loops.Go(func() { c.watch.Run(ctx) })
	p.loops.Go(func() { c.run(ctx) })
}

func (c *cellTime) now() time.Time {
	wall, mono := c.clock.Now()
	m := c.at.Load()
	if m == nil {
		return wall
	}
	return m.cell.Add(mono - m.mono)
}

// known reports whether most nodes have ever agreed about the time.
func (c *cellTime) known() bool { return c.at.Load() != nil }

func (c *cellTime) run(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		c.take(c.watch.State())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *cellTime) take(s cellclock.State) {
	wall, mono := c.clock.Now()
	switch s.Verdict {
	case cellclock.Agreed:
		c.at.Store(&moment{wall, mono})
	case cellclock.Off:
		c.at.Store(&moment{wall.Add(s.Ahead), mono})
	default: // What was known goes on.
	}
}

// machineClock is the clock of this machine.
type machineClock struct{ began time.Time }

// Now implements cellclock.Clock.
func (m machineClock) Now() (time.Time, time.Duration) {
	now := time.Now()
	return now.Round(0), now.Sub(m.began)
}

// clockNodes are the nodes that are asked for the time, by their address.
func (s *nodes) clockNodes() map[string]string {
	out := map[string]string{}
	for _, n := range *s.list.Load() {
		out[n.base.String()] = n.base.String()
	}
	return out
}

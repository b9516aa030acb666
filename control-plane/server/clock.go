package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
)

// What cells judge goes by the time of their nodes, whatever this machine's clock says
// (R-T2): signatures, browsers' tokens and which key signs them, the moment that ends a
// user's tokens, the end of a rotated secret. What only this database judges goes by this
// machine's clock: sessions, mailed links, invitations, the outbox. They must have an end
// while no cell can be reached, too, and what is written with one clock must be read with
// the same.

const (
	// clockLook is how often this machine's clock is looked at, clockSay how often the
	// log says that it is wrong.
	clockLook = time.Second
	clockSay  = 10 * time.Minute
)

// followClocks begins to learn the time of every cell, until ctx ends; wait blocks until
// that is over.
func (s *Server) followClocks(ctx context.Context) (wait func()) {
	var loops sync.WaitGroup
	for i, c := range s.cells {
		if !s.config.Cells[i].SharesClock {
			loops.Go(c.FollowClock(ctx))
		}
	}
	loops.Go(func() { s.watchClock(ctx) })
	return loops.Wait
}

// cellNow is the time of a cell, as far as it is known.
func (s *Server) cellNow(ctx context.Context, name string) time.Time {
	for i, c := range s.config.Cells {
		if c.Name == name {
			return s.cells[i].Now(ctx)
		}
	}
	return s.kit.Now()
}

// cellAhead is how far a cell's time is ahead of this machine's clock. It is rounded
// because the two are read one after the other; tokens say milliseconds, too.
func (s *Server) cellAhead(ctx context.Context, name string) time.Duration {
	return s.cellNow(ctx, name).Sub(s.kit.Now()).Round(time.Millisecond)
}

// calendar is the time by which keys of tokens change with the year. Cells differ by less
// than keys overlap.
func (s *Server) calendar(ctx context.Context) time.Time {
	if len(s.cells) == 0 {
		return s.kit.Now() // Not built yet.
	}
	return s.cells[0].Now(ctx)
}

// wrongClock says what is wrong with this machine's clock; empty if nothing is known to be.
func (s *Server) wrongClock() string {
	for i, c := range s.cells {
		if state := c.Clock(); state.Status == cellclock.Off {
			return fmt.Sprintf("%s (cell %s)", state.Detail, s.config.Cells[i].Name)
		}
	}
	return ""
}

// watchClock says in the log, now and then, that this machine's clock is wrong.
func (s *Server) watchClock(ctx context.Context) {
	tick := time.NewTicker(clockLook)
	defer tick.Stop()
	var said time.Time // By the monotonic clock; zero while the clock is right.
	for {
		switch wrong := s.wrongClock(); {
		case wrong == "":
			said = time.Time{}
		case said.IsZero() || time.Since(said) > clockSay:
			said = time.Now()
			s.kit.Log.ErrorContext(ctx, "this machine's clock is wrong: set it, and run a clock service", "why", wrong)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/state"
)

// sweepNap between two steps leaves the processor to others; a step takes some
// milliseconds.
const sweepNap = time.Millisecond

// sweepRetry is how long the sweeper waits when the shard takes nothing of it.
const sweepRetry = 100 * time.Millisecond

// sweep removes what deleted queues left in the store, as one more caller of the
// shard: a few hundred rows per request, one request at a time, so that who works is
// not held up. It runs for the time of a term; a new leader begins the walk again.
func (s *Shard) sweep(ctx context.Context, t *term) {
	wait := time.NewTimer(0) // Something may be left from terms before.
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.deleted:
		case <-wait.C:
		}
		if err := s.sweepAll(ctx); err != nil && ctx.Err() == nil {
			s.logger.Info("sweeping deleted queues was held up; it goes on in a moment", "err", err)
			wait.Reset(sweepRetry)
		}
	}
}

// sweepAll takes one step of each namespace in turn.
func (s *Shard) sweepAll(ctx context.Context) error {
	walks := make(map[job.Namespace]*state.Sweeping)
	for {
		queues, err := state.ReadSweeps(s.store)
		if err != nil {
			return fmt.Errorf("look for deleted queues: %w", err)
		}
		if len(queues) == 0 {
			return nil
		}
		for i := range queues {
			w := walks[queues[i].NS]
			if w == nil || !w.Continues(&queues[i]) {
				w = &queues[i]
				walks[w.NS] = w
			}
			if err := s.sweepStep(ctx, w); err != nil {
				return fmt.Errorf("sweep queue %q: %w", w.Queue, err)
			}
		}
	}
}

func (s *Shard) sweepStep(ctx context.Context, w *state.Sweeping) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := w.Next(s.store)
	if err != nil {
		return err
	}
	if c == nil {
		time.Sleep(sweepNap)
		return nil
	}
	_, err = s.Do(ctx, Request{Settle: []command.Command{c}})
	return err
}

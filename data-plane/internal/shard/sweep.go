package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
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

func (s *Shard) sweepAll(ctx context.Context) error {
	for {
		queues, err := state.ReadSweeps(s.store)
		if err != nil {
			return fmt.Errorf("look for deleted queues: %w", err)
		}
		if len(queues) == 0 {
			return nil
		}
		for i := range queues {
			if err := s.sweepQueue(ctx, &queues[i]); err != nil {
				return fmt.Errorf("sweep queue %q: %w", queues[i].Queue, err)
			}
		}
	}
}

func (s *Shard) sweepQueue(ctx context.Context, w *state.Sweeping) error {
	for ctx.Err() == nil {
		c, err := w.Next(s.store)
		if err != nil {
			return err
		}
		if c == nil {
			time.Sleep(sweepNap)
			continue
		}
		if _, err := s.Do(ctx, Request{Settle: []command.Command{c}}); err != nil {
			return err
		}
		if c.Done != 0 {
			return nil
		}
	}
	return ctx.Err()
}

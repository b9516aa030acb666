package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// sweepNap between two steps leaves the processor to others; a step takes some
// milliseconds.
const sweepNap = time.Millisecond

// sweepRetry is how long the sweeper waits when the shard takes nothing of it.
const sweepRetry = 100 * time.Millisecond

// sweep removes what deleted queues left in the store, as one more caller of the
// shard: some hundred rows per request, one request at a time, so that who works is
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

// sweepAll takes a step of each namespace in turn.
func (s *Shard) sweepAll(ctx context.Context) error {
	walks := make(map[sweptQueue]*stateread.Sweeping)
	for round := 0; ; round++ {
		queues, err := stateread.ReadSweeps(s.store)
		if err != nil {
			return fmt.Errorf("look for deleted queues: %w", err)
		}
		if len(queues) == 0 {
			return nil
		}
		for i := range queues {
			q := sweptQueue{queues[i].NS, queues[i].Queue}
			if w := walks[q]; w == nil || !w.Continues(&queues[i]) {
				walks[q] = &queues[i]
			}
		}
		for len(queues) > 0 {
			n := 1
			for n < len(queues) && queues[n].NS == queues[0].NS {
				n++
			}
			if err := s.sweepStep(ctx, walks, queues[:n], round); err != nil {
				return fmt.Errorf("sweep namespace %s: %w", queues[0].NS, err)
			}
			queues = queues[n:]
		}
	}
}

type sweptQueue struct {
	ns   job.Namespace
	name string
}

// sweepStep walks on in queues of one namespace, and proposes at once what that found,
// up to a bound. Each round begins with another one, so that none waits for a large one.
func (s *Shard) sweepStep(ctx context.Context, walks map[sweptQueue]*stateread.Sweeping, queues []stateread.Sweeping, round int) error {
	var found []command.Command
	rows := 0
	for i := range queues {
		if rows >= command.SweepMax || ctx.Err() != nil {
			break
		}
		q := &queues[(round+i)%len(queues)]
		c, err := walks[sweptQueue{q.NS, q.Queue}].Next(s.store)
		if err != nil {
			return err
		}
		if c == nil {
			time.Sleep(sweepNap)
			continue
		}
		found = append(found, c)
		rows += len(c.Jobs) + len(c.Unique) + len(c.Idempotency)
		if c.Done != 0 {
			delete(walks, sweptQueue{q.NS, q.Queue})
		}
	}
	if len(found) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := s.once(ctx, Request{Settle: found}) // Not held: it is the work of this term.
	return err
}

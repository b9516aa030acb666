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

// sweeper is what a term remembers of the queues that it sweeps.
type sweeper struct {
	walks   map[sweptQueue]*stateread.Sweeping
	refused refusals
}

func newSweeper() *sweeper {
	return &sweeper{walks: make(map[sweptQueue]*stateread.Sweeping), refused: make(refusals)}
}

// sweep removes what deleted queues left in the store, as one more caller of the
// shard: some hundred rows per request, one request at a time, so that who works is
// not held up. It runs for the time of a term; a new leader begins the walk again.
func (s *Shard) sweep(ctx context.Context, t *term) {
	w := newSweeper()
	wait := time.NewTimer(0) // Something may be left from terms before.
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.deleted:
		case <-wait.C:
		}
		if err := s.sweepAll(ctx, w); err != nil && ctx.Err() == nil {
			s.logger.Info("sweeping deleted queues was held up; it goes on in a moment", "err", err)
			wait.Reset(sweepRetry)
		}
	}
}

// sweepAll takes a step of each namespace in turn, until nothing is left, or only what the
// shard doesn't take at the moment; it then returns why.
func (s *Shard) sweepAll(ctx context.Context, w *sweeper) error {
	for round := 0; ; round++ {
		queues, err := stateread.ReadSweeps(s.store)
		if err != nil {
			return fmt.Errorf("look for deleted queues: %w", err)
		}
		if len(queues) == 0 {
			clear(w.walks) // One whose last answer was lost is still there.
			return nil
		}
		w.know(queues)
		if moved, err := s.sweepRound(ctx, w, queues, round); !moved || ctx.Err() != nil {
			return err
		}
	}
}

// know begins a walk for each queue that has none yet.
func (w *sweeper) know(queues []stateread.Sweeping) {
	for i := range queues {
		q := sweptQueue{queues[i].NS, queues[i].Queue}
		if walk := w.walks[q]; walk == nil || !walk.Continues(&queues[i]) {
			w.walks[q] = &queues[i]
		}
	}
}

// sweepRound takes a step of each namespace. It reports whether one of them moved, and the first
// error: if none did, there is one.
func (s *Shard) sweepRound(ctx context.Context, w *sweeper, queues []stateread.Sweeping, round int) (moved bool, first error) {
	for len(queues) > 0 {
		n := 1
		for n < len(queues) && queues[n].NS == queues[0].NS {
			n++
		}
		ns := queues[0].NS
		err := w.refused.still(ns)
		if err == nil {
			if err = s.sweepStep(ctx, w.walks, queues[:n], round); err != nil {
				w.refused.add(ns, err, sweepRetry)
			}
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		moved = moved || err == nil
		if err != nil && first == nil {
			first = fmt.Errorf("sweep namespace %s: %w", ns, err)
		}
		queues = queues[n:]
	}
	return moved, first
}

type sweptQueue struct {
	ns   job.Namespace
	name string
}

// sweepStep proposes what a walk over queues of one namespace found. What is not taken, or perhaps
// not, is found again by the next step.
func (s *Shard) sweepStep(ctx context.Context, walks map[sweptQueue]*stateread.Sweeping, queues []stateread.Sweeping, round int) error {
	found, err := s.walkSwept(ctx, walks, queues, round)
	if err == nil && len(found.commands) > 0 {
		_, err = s.once(ctx, Request{Settle: found.commands}) // Not held: it is the work of this term.
	}
	if err != nil {
		for _, back := range found.back {
			back()
		}
		return err
	}
	for _, q := range found.done {
		delete(walks, q)
	}
	return nil
}

// sweepFound is what a step of some walks found.
type sweepFound struct {
	commands []command.Command
	back     []func()     // Put those walks back to before.
	done     []sweptQueue // Those that are at their end.
}

// walkSwept walks on in queues of one namespace, up to a bound. Each round begins with another
// one, so that none waits for a large one.
func (s *Shard) walkSwept(ctx context.Context, walks map[sweptQueue]*stateread.Sweeping, queues []stateread.Sweeping, round int) (found sweepFound, err error) {
	rows := 0
	for i := range queues {
		if rows >= command.SweepMax || ctx.Err() != nil {
			break
		}
		q := sweptQueue{queues[(round+i)%len(queues)].NS, queues[(round+i)%len(queues)].Queue}
		walk := walks[q]
		before := *walk
		c, err := walk.Next(s.store)
		if c == nil && err == nil {
			time.Sleep(sweepNap)
			continue
		}
		found.back = append(found.back, func() { *walk = before })
		if err != nil {
			return found, err
		}
		found.commands = append(found.commands, c)
		rows += len(c.Jobs) + len(c.Unique) + len(c.Idempotency)
		if c.Done != 0 {
			found.done = append(found.done, q)
		}
	}
	return found, ctx.Err()
}

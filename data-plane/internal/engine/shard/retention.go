package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

const (
	// retentionEvery is how often settings and counters are read again.
	retentionEvery = 10 * time.Second
	// retentionRest is how long a step that found nothing is followed by a rest, in lengths
	// of the step; half a length follows one that deletes, because that must keep up.
	retentionRest    = 9
	retentionRestMax = time.Second
	namespacesRead   = 1000
)

// retain deletes what namespaces keep no longer, as one more caller of the shard: some
// hundred rows per request, one request at a time. It runs for the time of a term.
func (s *Shard) retain(ctx context.Context) {
	walks := make(map[job.Namespace]*stateread.Retention)
	for ctx.Err() == nil {
		err := s.retainOnce(ctx, walks)
		if err != nil && ctx.Err() == nil {
			s.logger.Info("deleting what has ended was held up; it goes on in a moment", "err", err)
		}
		pause(ctx, s.opts.RetentionEvery)
	}
}

// retainOnce looks at every namespace, and lets them take turns until none has anything to
// do for now, or it is time to look again.
func (s *Shard) retainOnce(ctx context.Context, walks map[job.Namespace]*stateread.Retention) error {
	busy, err := s.lookAtRetention(ctx, walks)
	until := time.Now().Add(s.opts.RetentionEvery)
	for err == nil && len(busy) > 0 && time.Now().Before(until) {
		left := busy[:0]
		for _, ns := range busy {
			more, err := s.retainStep(ctx, ns, walks[ns])
			if err != nil {
				return fmt.Errorf("namespace %s: %w", ns, err)
			}
			if more {
				left = append(left, ns)
			}
		}
		busy = left
	}
	return err
}

// lookAtRetention lists the namespaces, and forgets those that are gone.
func (s *Shard) lookAtRetention(ctx context.Context, walks map[job.Namespace]*stateread.Retention) ([]job.Namespace, error) {
	var all []job.Namespace
	for page := []job.Namespace{{}}; len(page) > 0; all = append(all, page...) {
		var err error
		if page, err = stateread.ReadNamespaces(s.store, page[len(page)-1], namespacesRead); err != nil {
			return nil, fmt.Errorf("list namespaces: %w", err)
		}
	}
	there := make(map[job.Namespace]bool, len(all))
	for _, ns := range all {
		there[ns] = true
		if walks[ns] == nil {
			walks[ns] = stateread.NewRetention(ns)
		}
		if err := walks[ns].Look(s.store, s.policyOf(ns)); err != nil {
			return nil, fmt.Errorf("read the queues of namespace %s: %w", ns, err)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	for ns := range walks {
		if !there[ns] {
			delete(walks, ns)
		}
	}
	return all, nil
}

func (s *Shard) policyOf(ns job.Namespace) retention.Policy {
	if s.opts.Namespaces == nil {
		return retention.Default()
	}
	return s.opts.Namespaces.Retention(ns)
}

// retainStep takes a step of a namespace, and rests: nobody waits for it.
func (s *Shard) retainStep(ctx context.Context, ns job.Namespace, walk *stateread.Retention) (more bool, err error) {
	began := time.Now()
	c, more, err := walk.Next(s.store, s.group.Now().Calendar)
	if err != nil || !more {
		return false, err
	}
	rest := retentionRest * time.Since(began)
	if c != nil {
		if err := s.settle(ctx, c); err != nil {
			return false, err
		}
		rest = time.Since(began) / 2
	}
	pause(ctx, min(max(rest, sweepNap), retentionRestMax))
	return true, ctx.Err()
}

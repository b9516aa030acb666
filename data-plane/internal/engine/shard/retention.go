package shard

import (
	"context"
	"fmt"
	"maps"
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
	// retentionLate is from when on deleting takes no rests.
	retentionLate  = 15 * time.Second
	namespacesRead = 1000
)

// retainer is what a term remembers of what namespaces keep.
type retainer struct {
	walks   map[job.Namespace]*stateread.Retention
	list    []job.Namespace
	looked  map[job.Namespace]time.Time // At the settings.
	refused refusals
	listed  time.Time
}

func newRetainer() *retainer { return &retainer{refused: make(refusals)} }

// retain deletes what namespaces keep no longer, as one more caller of the shard: some
// hundred rows per request, one request at a time. It runs for the time of a term.
func (s *Shard) retain(ctx context.Context) {
	r := newRetainer()
	for ctx.Err() == nil {
		busy, err := s.retainRound(ctx, r)
		if err != nil && ctx.Err() == nil {
			s.logger.Info("deleting what has ended was held up; it goes on in a moment", "err", err)
		}
		if !busy {
			pause(ctx, s.opts.RetentionEvery)
		}
	}
}

// retainRound takes a step of each namespace, so that none waits for all of another one. It
// returns the first refusal, and goes on with the others.
func (s *Shard) retainRound(ctx context.Context, r *retainer) (busy bool, first error) {
	if time.Since(r.listed) >= s.opts.RetentionEvery {
		list, err := s.namespaces()
		if err != nil {
			return false, err
		}
		r.know(list)
	}
	for _, ns := range r.list {
		if r.refused.still(ns) != nil {
			continue
		}
		more, err := s.retainStep(ctx, r, ns)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			r.refused.add(ns, err, s.opts.RetentionEvery)
			if first == nil {
				first = fmt.Errorf("namespace %s: %w", ns, err)
			}
		}
		busy = busy || more
	}
	return busy, first
}

// know takes in which namespaces there are, and forgets the others.
func (r *retainer) know(list []job.Namespace) {
	walks := make(map[job.Namespace]*stateread.Retention, len(list))
	looked := make(map[job.Namespace]time.Time, len(list))
	for _, ns := range list {
		if walks[ns] = r.walks[ns]; walks[ns] == nil {
			walks[ns] = stateread.NewRetention(ns)
		}
		looked[ns] = r.looked[ns]
	}
	maps.DeleteFunc(r.refused, func(ns job.Namespace, _ refusal) bool { return walks[ns] == nil })
	*r = retainer{walks, list, looked, r.refused, time.Now()}
}

// namespaces lists those of which there is anything.
func (s *Shard) namespaces() (all []job.Namespace, err error) {
	for page := []job.Namespace{{}}; len(page) > 0; all = append(all, page...) {
		if page, err = stateread.ReadNamespaces(s.store, page[len(page)-1], namespacesRead); err != nil {
			return nil, fmt.Errorf("list namespaces: %w", err)
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
func (s *Shard) retainStep(ctx context.Context, r *retainer, ns job.Namespace) (more bool, err error) {
	began, walk := time.Now(), r.walks[ns]
	if began.Sub(r.looked[ns]) >= s.opts.RetentionEvery {
		if err := walk.Look(s.store, s.policyOf(ns)); err != nil {
			return false, err
		}
		r.looked[ns] = began
	}
	c, more, err := walk.Next(s.store, s.group.Now().Calendar, s.opts.EventsRead(ns))
	if err != nil || !more {
		return false, err
	}
	rest := retentionRest * time.Since(began)
	if c != nil {
		if err := s.settle(ctx, c); err != nil {
			walk.Again(c)
			return false, err
		}
		rest = time.Since(began) / 2
		if walk.Late() > retentionLate {
			rest = 0
		}
	}
	pause(ctx, min(max(rest, sweepNap), retentionRestMax))
	return true, nil
}

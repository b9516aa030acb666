package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// Namespaces is what a shard has to know of the cell's namespaces.
type Namespaces interface {
	// Deleted lists the deleted namespaces of the shard that are still known.
	Deleted() []job.Namespace
	// Known reports whether the cell knows a namespace, deleted or not.
	Known(job.Namespace) bool
	// Retention is what a namespace keeps of what has ended.
	Retention(job.Namespace) retention.Policy
	// Changed is closed when the answers may be others. It is taken before they are asked for.
	Changed() <-chan struct{}
	// Swept tells that the shard has nothing of a deleted namespace any more; from then on
	// the cell may forget it, when it is time for that.
	Swept(context.Context, job.Namespace) error
}

// endNamespaces ends the namespaces that were deleted in the cell, sweeps what they leave,
// and forgets them once the cell does. It is one more caller of the shard, for the time of
// a term.
func (s *Shard) endNamespaces(ctx context.Context) {
	if s.opts.Namespaces == nil {
		return
	}
	// What a sweep of this term has told the cell.
	told := make(map[job.Namespace]bool)
	for ctx.Err() == nil {
		changed := s.opts.Namespaces.Changed()
		err := s.endDeleted(ctx, told)
		if err == nil {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		if ctx.Err() == nil {
			s.logger.Info("ending deleted namespaces was held up; it goes on in a moment", "err", err)
			pause(ctx, sweepRetry)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// endDeleted does whatever is to do now. All are ended before any is swept: that nothing
// of them runs must not wait for rows to be removed.
func (s *Shard) endDeleted(ctx context.Context, told map[job.Namespace]bool) error {
	list, err := stateread.ReadEndedNamespaces(s.store)
	if err != nil {
		return fmt.Errorf("read ended namespaces: %w", err)
	}
	ended := make(map[job.Namespace]bool, len(list))
	for _, e := range list {
		ended[e.NS] = true
	}
	for _, ns := range s.opts.Namespaces.Deleted() {
		if ended[ns] {
			continue
		}
		if err := s.settle(ctx, &command.EndNamespace{NS: ns}); err != nil {
			return fmt.Errorf("end namespace %s: %w", ns, err)
		}
		list = append(list, stateread.EndedNamespace{NS: ns})
	}
	for _, e := range list {
		if err := s.finishNamespace(ctx, e, told); err != nil {
			return fmt.Errorf("namespace %s: %w", e.NS, err)
		}
	}
	return nil
}

func (s *Shard) settle(ctx context.Context, c command.Command) error {
	_, err := s.once(ctx, Request{Settle: []command.Command{c}}) // Not held: it is the work of this term.
	return err
}

// finishNamespace takes an ended namespace as far as it can go now.
func (s *Shard) finishNamespace(ctx context.Context, e stateread.EndedNamespace, told map[job.Namespace]bool) error {
	if !e.Swept {
		if err := s.sweepNamespace(ctx, e.NS); err != nil {
			return err
		}
	}
	if s.opts.Namespaces.Known(e.NS) {
		if told[e.NS] {
			return nil
		}
		if err := s.opts.Namespaces.Swept(ctx, e.NS); err != nil {
			return err
		}
		told[e.NS] = true
		return nil
	}
	delete(told, e.NS)
	if audited, err := stateread.IsAudited(s.store, e.NS); err != nil || audited {
		return err // A later look finds them gone.
	}
	return s.settle(ctx, &command.SweepNamespace{NS: e.NS, Forget: true})
}

// sweepNamespace removes what a namespace left among the rows of the group, some hundred
// rows a request, one request at a time.
func (s *Shard) sweepNamespace(ctx context.Context, ns job.Namespace) error {
	for walk := (&stateread.NamespaceSweep{NS: ns}); ; {
		c, err := walk.Next(s.store)
		if err != nil {
			return err
		}
		if c == nil {
			pause(ctx, sweepNap)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if err := s.settle(ctx, c); err != nil || c.Done {
			return err
		}
	}
}

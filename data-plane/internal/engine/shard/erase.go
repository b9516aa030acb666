package shard

import (
	"context"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// eraseEvery is how often a replica looks for deleted namespaces whose bytes it still has.
const eraseEvery = time.Minute

// Erase removes from this replica's disk what deleted namespaces have left, until ctx ends:
// their rows are deleted by commands, but the tables of the store and the log still have
// the bytes. Every replica does it, whoever leads.
func (s *Shard) Erase(ctx context.Context) {
	erased := make(map[job.Namespace]bool)
	for ctx.Err() == nil {
		if err := s.eraseOnce(ctx, erased); err != nil && ctx.Err() == nil {
			s.logger.Warn("can't erase what deleted namespaces left on the disk; trying again", "err", err)
		}
		pause(ctx, s.opts.EraseEvery)
	}
}

// eraseOnce erases the namespaces that were swept since the last time.
func (s *Shard) eraseOnce(ctx context.Context, erased map[job.Namespace]bool) error {
	list, err := stateread.ReadEndedNamespaces(s.store)
	if err != nil {
		return err
	}
	var swept []job.Namespace
	for _, e := range list {
		if e.Swept && !erased[e.NS] {
			swept = append(swept, e.NS)
		}
	}
	if len(swept) == 0 {
		return nil
	}
	// No entry after this one is about them: commands are refused.
	done, err := s.group.Forget(ctx, s.group.AppliedIndex())
	if err != nil || !done {
		return err // A voter still needs the log.
	}
	space := keys.In(s.store.Prefix())
	for _, ns := range swept {
		from, to := space.NamespaceSpan(ns)
		err = errors.Join(err, s.store.Compact(ctx, from, to))
	}
	from, to := space.DueAll()
	if err = errors.Join(err, s.store.Compact(ctx, from, to)); err != nil {
		return err
	}
	for _, ns := range swept {
		erased[ns] = true
		s.logger.Info("a deleted namespace is erased from this node's disk", "namespace", ns)
	}
	return nil
}

package operators

import (
	"context"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/usage"
)

const (
	leaseFor = time.Minute
	tick     = 10 * time.Second
	atOnce   = 100

	// changedAge is how old figures may be of a tenant that is being used; anyAge is for all:
	// without use, the jobs of a day still become fewer.
	changedAge = 10 * time.Minute
	anyAge     = 6 * time.Hour
)

// Run keeps the figures of tenants until ctx ends. Of several processes, one does at a time.
func (s *Service) Run(ctx context.Context) { s.loop.Run(ctx) }

// Refresh computes the figures that are missing or too old.
func (s *Service) Refresh(ctx context.Context) error { return s.loop.Pass(ctx) }

func (s *Service) pass(ctx context.Context, now time.Time) error {
	age := store.FiguresAge{Month: bill.Month(now).Start, Changed: now.Add(-changedAge), Any: now.Add(-anyAge)}
	var problems []error
	for after, more := "", true; more; {
		stale, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]string, error) { return tx.StaleFigures(ctx, age, after, atOnce) })
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		if more = len(stale) == atOnce; more {
			after = stale[len(stale)-1]
		}
		// One tenant whose figures can't be computed keeps no other from its own.
		problems = append(problems, s.refresh(ctx, stale))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(problems...)
}

// refresh computes some tenants' figures, and writes them in one transaction.
func (s *Service) refresh(ctx context.Context, tenantIDs []string) error {
	var all []store.TenantFigures
	var problems []error
	for _, id := range tenantIDs {
		err := s.Store.ReadTenant(ctx, id, func(tx *store.Tx) error {
			f, err := usage.Figures(ctx, tx, id, s.Now())
			if err == nil {
				all = append(all, f)
			}
			return err
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) { // It was deleted.
			problems = append(problems, err)
		}
	}
	if len(all) == 0 {
		return errors.Join(problems...)
	}
	return errors.Join(append(problems, s.Store.Service(ctx, func(tx *store.Tx) error {
		for _, f := range all {
			if err := tx.PutTenantFigures(ctx, f); err != nil {
				return err
			}
		}
		return nil
	}))...)
}

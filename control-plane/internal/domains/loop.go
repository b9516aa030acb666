package domains

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	leaseFor = 2 * time.Minute
	tick     = 30 * time.Second

	// recheckEvery is how often the record of a verified domain is looked for, and
	// recheckMissing how often once it is gone.
	recheckEvery   = 6 * time.Hour
	recheckMissing = time.Hour
	// grace is how long a domain stays verified without its record.
	grace = 7 * 24 * time.Hour

	backoffMin = 5 * time.Minute
	backoffMax = time.Hour

	dueMax     = 200
	lookupsMax = 8
	// ownersMax of a tenant get an email.
	ownersMax = 10
	emailLife = 24 * time.Hour
)

// Run looks for the records of verified domains until ctx ends. Of several processes, one
// does at a time.
func (s *Service) Run(ctx context.Context) { s.loop.Run(ctx) }

// Recheck looks for the records that are due.
func (s *Service) Recheck(ctx context.Context) error { return s.loop.Pass(ctx) }

// pass looks for them. That one is gone is no error.
func (s *Service) pass(ctx context.Context, now time.Time) error {
	due, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.Domain, error) { return tx.DueDomains(ctx, now, dueMax) })
	if err != nil || len(due) == 0 {
		return err
	}
	slots := make(chan struct{}, lookupsMax)
	problems := make(chan error, len(due))
	var all sync.WaitGroup
	for _, v := range due {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break // The rest is due still.
		}
		all.Go(func() {
			defer func() { <-slots }()
			problems <- s.recheck(ctx, v)
		})
	}
	all.Wait()
	close(problems)
	for p := range problems {
		err = errors.Join(err, p)
	}
	s.Wake()
	return err
}

func (s *Service) recheck(ctx context.Context, v store.Domain) error {
	seen, looked := s.look(ctx, v.Name)
	if ctx.Err() != nil {
		return nil // Out of time: that is no answer, and due still.
	}
	err := s.Store.Tenant(ctx, v.TenantID, func(tx *store.Tx) error {
		now, err := tx.GetDomain(ctx, v.TenantID, v.ID)
		switch {
		case err != nil:
			return err
		case now.VerifiedAt.IsZero():
			return nil
		case looked != nil:
			return s.noAnswer(ctx, tx, now)
		case seen.prove(now):
			return s.there(ctx, tx, &now)
		}
		return s.gone(ctx, tx, &now, seen)
	})
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrStale) {
		return nil // Somebody changed or deleted it.
	}
	return err
}

// noAnswer changes nothing of what a domain is.
func (s *Service) noAnswer(ctx context.Context, tx *store.Tx, v store.Domain) error {
	v.CheckedAt, v.Problem = s.Now(), dnsProblem(v)
	v.DueAt = v.CheckedAt.Add(s.spread(min(backoffMin<<min(v.Attempts, 20), backoffMax)))
	v.Attempts++
	return tx.NoteDomain(ctx, v)
}

// there records that a verified domain's record was found.
func (s *Service) there(ctx context.Context, tx *store.Tx, v *store.Domain) error {
	before := *v
	v.CheckedAt, v.Problem, v.Attempts, v.MissingSince = s.Now(), "", 0, time.Time{}
	v.DueAt = v.CheckedAt.Add(s.spread(recheckEvery))
	if before.MissingSince.IsZero() {
		return tx.NoteDomain(ctx, *v)
	}
	return change.Make(ctx, s.Kit, tx, "domain.find_record", change.UpdateDomain(v), fields(before, *v))
}

// gone records that a verified domain's record is not there, and what follows.
func (s *Service) gone(ctx context.Context, tx *store.Tx, v *store.Domain, seen records) error {
	now, before := s.Now(), *v
	v.CheckedAt, v.Problem, v.Attempts, v.DueAt = now, seen.missing(*v), 0, now.Add(s.spread(recheckMissing))
	switch {
	case v.MissingSince.IsZero():
		v.MissingSince = now
		if err := change.Make(ctx, s.Kit, tx, "domain.miss_record", change.UpdateDomain(v), fields(before, *v)); err != nil {
			return err
		}
		return s.tell(ctx, tx, *v, func(to, tenant, link string) (mail.Message, error) {
			return mail.DomainRecordMissing(to, tenant, v.Name, TXTName(v.Name), TXTValue(v.Token), link, now.Add(grace), emailLife, now)
		})
	case !now.Before(v.MissingSince.Add(grace)):
		return s.lose(ctx, tx, *v, v.Problem)
	}
	return tx.NoteDomain(ctx, *v)
}

// lose ends that a domain is verified. Nobody of its tenant did it, and whoever did is not
// named there.
func (s *Service) lose(ctx context.Context, tx *store.Tx, v store.Domain, why string) error {
	ctx = access.With(ctx, access.Caller{})
	now, before := s.Now(), v
	v.VerifiedAt, v.MissingSince, v.CheckedAt, v.Problem = time.Time{}, time.Time{}, now, why
	if err := change.Make(ctx, s.Kit, tx, "domain.unverify", change.UpdateDomain(&v), fields(before, v)); err != nil {
		return err
	}
	return s.tell(ctx, tx, v, func(to, tenant, link string) (mail.Message, error) {
		return mail.DomainUnverified(to, tenant, v.Name, why, link, emailLife, now)
	})
}

// tell mails to the owners of a domain's tenant.
func (s *Service) tell(ctx context.Context, tx *store.Tx, v store.Domain, write func(to, tenant, link string) (mail.Message, error)) error {
	t, err := tx.GetTenant(ctx, v.TenantID)
	if err != nil {
		return err
	}
	owners, err := tx.ReachableOwners(ctx, v.TenantID, ownersMax)
	if err != nil {
		return err
	}
	for _, u := range owners {
		m, err := write(u.Email, t.Name, s.URLs.Console("/"+t.Name+"/settings/domains"))
		if err == nil {
			err = mail.Put(ctx, s.Kit, tx, v.TenantID, v.ID, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spread keeps what was verified in one minute from being due in one, too.
func (s *Service) spread(d time.Duration) time.Duration { return d - rand.N(d/10) }

// Package notices owns the emails that say that an API key will expire: when they are due,
// and who gets them. They are written 30, 14, 7 and 1 days before the end of a lasting key. Who
// is told of several keys of a tenant gets one email a day that lists them: what is due within a
// day goes along.
//
// What is due is read from the key itself: its end, when that end was set, and what the last
// notice was about. So a notice that was missed while nothing ran is written once, with the
// time that is left, and those before it never. A key whose end is changed begins anew. The
// note that a notice was written is made where the emails are, in one transaction, and only
// one process can make it.
//
// It must not know how keys are made or changed, or how emails leave. Surprising: a key that
// was made for 30 days gets no notice of 30 days, which would come as it is made.
package notices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/recurring"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
)

const (
	leaseFor = 2 * time.Minute
	tick     = time.Minute
	dueMax   = 200

	day = 24 * time.Hour
	// slack is how much longer than a span a key must have been made for: nobody is told of
	// an end that they have just chosen.
	slack = time.Hour

	// ownersMax of a tenant get an email.
	ownersMax = 10
	// makersMax bounds the way from a key to the person behind the keys that made it.
	makersMax = 16
)

// spans are how long before the end a notice is due, shortest first.
var spans = []time.Duration{day, 7 * day, 14 * day, 30 * day}

// Service is the loop.
type Service struct {
	kit.Kit

	loop *recurring.Loop
}

// New makes a Service.
func New(k kit.Kit) *Service {
	s := &Service{Kit: k}
	s.loop = recurring.New(k, recurring.Work{Name: "key-notices", Every: tick, Lease: leaseFor,
		Failed: "can't write notices before the end of keys", Pass: s.pass})
	return s
}

// Run writes notices until ctx ends. Of several processes, one does at a time.
func (s *Service) Run(ctx context.Context) { s.loop.Run(ctx) }

// Tell writes the notices that are due.
func (s *Service) Tell(ctx context.Context) error { return s.loop.Pass(ctx) }

// dueKey is a key and the notice that is due of it.
type dueKey struct {
	store.Key
	span time.Duration
}

// pass writes what is due now. Two at once do no harm: a notice is noted by one of them. Of a
// tenant that is told of one key, the others that are due within a day go along, so that nobody
// gets two emails a day.
func (s *Service) pass(ctx context.Context, now time.Time) error {
	due, err := s.due(ctx, now, 0)
	soon, soonErr := s.due(ctx, now, day)
	problems := []error{err, soonErr}
	for tenantID, keys := range due {
		if ctx.Err() != nil {
			break // The rest is due still.
		}
		keys = append(keys, soon[tenantID]...)
		slices.SortStableFunc(keys, func(a, b dueKey) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
		if err := s.notice(ctx, tenantID, keys); err != nil {
			problems = append(problems, fmt.Errorf("keys of tenant %s: %w", tenantID, err))
		}
	}
	s.Wake()
	return errors.Join(problems...)
}

// due are the keys of which a notice is due now, or within the time ahead, by tenant.
func (s *Service) due(ctx context.Context, now time.Time, ahead time.Duration) (map[string][]dueKey, error) {
	all := make(map[string][]dueKey)
	after := now
	for _, span := range spans {
		from, till := after, now.Add(span+ahead)
		if ahead > 0 {
			from = now.Add(span)
		}
		keys, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.Key, error) {
			return tx.DueKeyNotices(ctx, from, till, span, span+ahead+slack, dueMax)
		})
		if err != nil {
			return all, err
		}
		for _, k := range keys {
			all[k.TenantID] = append(all[k.TenantID], dueKey{k, span})
		}
		after = till
	}
	return all, nil
}

// notice writes an email to each who is told of some of a tenant's keys, and that it was written.
func (s *Service) notice(ctx context.Context, tenantID string, keys []dueKey) error {
	return s.Store.Service(ctx, func(tx *store.Tx) error {
		now, letters, order := s.Now(), make(map[string][]mail.EndingKey), []string(nil)
		told := make(map[string]bool)
		for _, k := range keys {
			if told[k.ID] { // Of an earlier span too.
				continue
			}
			// First, so that of two processes only one goes on.
			err := tx.NoteKeyNotice(ctx, k.Key, k.span)
			if errors.Is(err, store.ErrNotFound) {
				continue // Revoked, changed, or noted by another process.
			}
			if err != nil {
				return err
			}
			told[k.ID] = true
			about, to, err := s.noticeOf(ctx, tx, tenantID, k.ID)
			if err != nil {
				return err
			}
			for _, email := range to {
				if letters[email] == nil {
					order = append(order, email)
				}
				letters[email] = append(letters[email], about)
			}
		}
		return s.write(ctx, tx, tenantID, order, letters, now)
	})
}

// noticeOf is what is told of a key and to whom; the audit log has it.
func (s *Service) noticeOf(ctx context.Context, tx *store.Tx, tenantID, keyID string) (mail.EndingKey, []string, error) {
	k, err := tx.GetKey(ctx, tenantID, keyID) // Its name may be another by now.
	if err != nil {
		return mail.EndingKey{}, nil, err
	}
	owner, to, err := readers(ctx, tx, k)
	if err != nil {
		return mail.EndingKey{}, nil, err
	}
	err = change.Make(ctx, s.Kit, tx, "key.notice", change.AuditOnly(change.Target{Type: "key", ID: k.ID, Name: k.Name, TenantID: k.TenantID}),
		change.Fields{"expires_at": {After: k.ExpiresAt.UTC().Format(time.RFC3339)}, "emails_to": {After: to}})
	return mail.EndingKey{Name: k.Name, ID: k.ID, Prefix: tenancy.KeyPrefix(k), Owner: owner, Ends: k.ExpiresAt, Later: k.ExpiresAt.Add(90 * day)}, to, err
}

func (s *Service) write(ctx context.Context, tx *store.Tx, tenantID string, order []string, letters map[string][]mail.EndingKey, now time.Time) error {
	if len(order) == 0 {
		return nil
	}
	t, err := tx.GetTenant(ctx, tenantID)
	if err != nil {
		return err
	}
	link, err := s.link(ctx, tx, t)
	if err != nil {
		return err
	}
	for _, email := range order {
		m, err := mail.KeysEnd(email, t.Name, link, letters[email], now)
		if err == nil {
			err = mail.Put(ctx, s.Kit, tx, tenantID, letters[email][0].ID, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readers are whose key it is, in words, and the addresses to write to.
func readers(ctx context.Context, tx *store.Tx, k store.Key) (owner string, to []string, err error) {
	personal := k.Kind == cloudv1.KeyKind_KEY_KIND_PERSONAL
	var person string
	if personal {
		u, err := tx.GetUser(ctx, k.OwnerID)
		if err != nil {
			return "", nil, err
		}
		owner, person = u.Email, u.ID
	} else {
		a, err := tx.GetServiceAccount(ctx, k.TenantID, k.OwnerID)
		if err != nil {
			return "", nil, err
		}
		owner = "the service account " + a.Name
		if person, err = maker(ctx, tx, k); err != nil {
			return "", nil, err
		}
	}
	email, err := addressOf(ctx, tx, k.TenantID, person)
	if err != nil {
		return "", nil, err
	}
	if email != "" {
		to = append(to, email)
	}
	if personal && email != "" {
		return owner, to, nil
	}
	owners, err := tx.ReachableOwners(ctx, k.TenantID, ownersMax)
	for _, u := range owners {
		if !slices.Contains(to, u.Email) {
			to = append(to, u.Email)
		}
	}
	return owner, to, err
}

// maker is the person who made a key, also through other keys; empty if none is known.
func maker(ctx context.Context, tx *store.Tx, k store.Key) (string, error) {
	by := k.CreatedBy
	for range makersMax {
		if strings.HasPrefix(by, string(ids.User)) {
			return by, nil
		}
		made, err := tx.GetKey(ctx, k.TenantID, by)
		if errors.Is(err, store.ErrNotFound) {
			return "", nil // A trust, a temporary key that is gone, or the sign-up.
		}
		if err != nil {
			return "", err
		}
		if by = made.CreatedBy; made.Kind == cloudv1.KeyKind_KEY_KIND_PERSONAL {
			by = made.OwnerID
		}
	}
	return "", nil
}

// addressOf is the address of a member that is proved; empty for anybody else. What a
// tenant's provider told is proved if its domain is the tenant's.
func addressOf(ctx context.Context, tx *store.Tx, tenantID, userID string) (string, error) {
	_, err := tx.GetMembership(ctx, tenantID, userID)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	u, err := tx.GetUser(ctx, userID)
	if err != nil || u.HomeTenant == "" {
		return u.Email, err
	}
	d, err := tx.HolderOfDomain(ctx, u.Email[strings.LastIndexByte(u.Email, '@')+1:])
	if errors.Is(err, store.ErrNotFound) || err == nil && d.TenantID != tenantID {
		return "", nil
	}
	return u.Email, err
}

// link is the console's page of keys. It stands in a namespace.
func (s *Service) link(ctx context.Context, tx *store.Tx, t store.Tenant) (string, error) {
	some, err := tx.ListNamespaces(ctx, t.ID, store.Page{Limit: 1})
	if err != nil || len(some) == 0 {
		return s.URLs.Console("/" + t.Name), err
	}
	return s.URLs.Console("/" + t.Name + "/" + some[0].Name + "/keys"), nil
}

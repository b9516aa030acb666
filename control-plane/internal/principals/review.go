package principals

import (
	"context"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// ListWhoCan lists who may do something at a place: users, service accounts and keys.
func (s *Service) ListWhoCan(ctx context.Context, r *cloudv1.ListWhoCanRequest) (*cloudv1.ListWhoCanResponse, error) {
	q, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (question, error) { return ask(ctx, tx, r.GetPermission(), r.GetScope()) })
	if err != nil {
		return nil, err
	}
	shown, next, err := listing.Of[*cloudv1.WhoCan, *cloudv1.WhoCan]{
		Method: "ListWhoCan", Filter: []any{q.permission.String(), q.namespace.ID, q.queue},
		Key:  func(w *cloudv1.WhoCan) string { return walkKey(w.GetPrincipalId()) },
		Show: func(w *cloudv1.WhoCan) *cloudv1.WhoCan { return w },
		Page: func(tx *store.Tx, tenantID string, p store.Page) (out []*cloudv1.WhoCan, _ error) {
			reader := rights.NewReader(tx, tenantID)
			names := namerBeside(tx, tenantID, reader)
			roles, err := reader.With(ctx, q.permission)
			if err != nil {
				return nil, err
			}
			err = holders(ctx, tx, names, roles, p, func(id, name string, k *store.Key) (bool, error) {
				w, err := s.whoCan(ctx, reader, names, q, id, name, k)
				if w != nil {
					out = append(out, w)
				}
				return len(out) == p.Limit, err
			})
			return out, err
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListWhoCanResponse{Principals: shown, NextPageToken: next}, err
}

// whoCan is nil for who can't.
func (s *Service) whoCan(ctx context.Context, reader *rights.Reader, names *Namer, q question, id, name string, k *store.Key) (*cloudv1.WhoCan, error) {
	may, owner, err := s.mayOf(ctx, reader, id, k)
	if err != nil || !q.answeredBy(may) {
		return nil, err
	}
	w := &cloudv1.WhoCan{PrincipalId: id, Principal: name}
	held, err := reader.Held(ctx, owner)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		if !h.Grant().Permissions.Has(q.permission) {
			continue
		}
		w.Roles = append(w.Roles, h.Role.Name)
		if h.PrincipalID != owner {
			group, err := names.Principal(ctx, h.PrincipalID)
			if err != nil {
				return nil, err
			}
			w.Groups = append(w.Groups, group)
		}
	}
	w.Roles, w.Groups = sortedUnique(w.Roles), sortedUnique(w.Groups)
	return w, nil
}

// mayOf is what a principal may do now, and whose bindings give it.
func (s *Service) mayOf(ctx context.Context, reader *rights.Reader, id string, k *store.Key) (permission.Grants, string, error) {
	if k == nil {
		may, err := reader.Of(ctx, id)
		return may.Grants, id, err
	}
	if !k.ExpiresAt.IsZero() && !s.Now().Before(k.ExpiresAt) {
		return nil, k.OwnerID, nil
	}
	may, err := reader.OfKey(ctx, *k)
	return may.Grants, k.OwnerID, err
}

// unusedAfter is when a right that nobody uses should be taken away.
const unusedAfter = 90 * 24 * time.Hour

// ListAccessReview lists everybody and every machine with what they may do.
func (s *Service) ListAccessReview(ctx context.Context, r *cloudv1.ListAccessReviewRequest) (*cloudv1.ListAccessReviewResponse, error) {
	shown, next, err := listing.Of[*cloudv1.ReviewedPrincipal, *cloudv1.ReviewedPrincipal]{
		Method: "ListAccessReview",
		Key:    func(p *cloudv1.ReviewedPrincipal) string { return walkKey(p.GetPrincipalId()) },
		Show:   func(p *cloudv1.ReviewedPrincipal) *cloudv1.ReviewedPrincipal { return p },
		Page: func(tx *store.Tx, tenantID string, p store.Page) (out []*cloudv1.ReviewedPrincipal, _ error) {
			v := reviewer{s: s, tx: tx, tenantID: tenantID, reader: rights.NewReader(tx, tenantID)}
			v.names = namerBeside(tx, tenantID, v.reader)
			if err := v.reader.ReadRoles(ctx); err != nil {
				return nil, err
			}
			err := everybody(ctx, tx, tenantID, p, func(owners []string) error { return v.read(ctx, owners) }, func(id, name string, made, seen time.Time, k *store.Key) (bool, error) {
				one, err := v.review(ctx, id, name, made, seen, k)
				out = append(out, one)
				return len(out) == p.Limit, err
			})
			return out, err
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListAccessReviewResponse{Principals: shown, NextPageToken: next}, err
}

// reviewer reviews the principals of a tenant, in one transaction.
type reviewer struct {
	s        *Service
	tx       *store.Tx
	tenantID string
	reader   *rights.Reader
	names    *Namer
	// groups are those of the users whom the next reviews are about.
	groups map[string][]store.Group
	// keysUsed is when the latest key of each of them, or of those service accounts, was used.
	keysUsed map[string]time.Time
}

func (v *reviewer) read(ctx context.Context, owners []string) (err error) {
	if v.groups, err = v.tx.GroupsOf(ctx, v.tenantID, owners...); err != nil {
		return err
	}
	if v.keysUsed, err = v.tx.KeysLastUsed(ctx, v.tenantID, owners...); err != nil {
		return err
	}
	return v.names.read(ctx, owners)
}

func (v *reviewer) review(ctx context.Context, id, name string, made, seen time.Time, k *store.Key) (*cloudv1.ReviewedPrincipal, error) {
	out := &cloudv1.ReviewedPrincipal{PrincipalId: id, Principal: name, Type: "user", CreatedAt: stamp(made)}
	var err error
	switch {
	case k != nil:
		err = v.key(ctx, out, *k)
	case strings.HasPrefix(id, "sa_"):
		seen, err = v.account(ctx, out, id)
	default:
		err = v.user(ctx, out, id)
		if used := v.keysUsed[id]; used.After(seen) {
			seen = used
		}
	}
	if err != nil {
		return nil, err
	}
	out.LastUsedAt = stamp(seen)
	last := seen
	if last.Before(made) {
		last = made
	}
	out.Unused = v.s.Now().Sub(last) > unusedAfter
	return out, nil
}

func (v *reviewer) key(ctx context.Context, out *cloudv1.ReviewedPrincipal, k store.Key) (err error) {
	out.Type, out.ExpiresAt = "key", stamp(k.ExpiresAt)
	if out.Owner, err = v.names.Principal(ctx, k.OwnerID); err != nil {
		out.Owner, err = k.OwnerID, nil
	}
	out.Roles, err = v.roles(ctx, k.OwnerID)
	return err
}

// account was last used when the latest of its keys was.
func (v *reviewer) account(ctx context.Context, out *cloudv1.ReviewedPrincipal, id string) (seen time.Time, err error) {
	out.Type = "service_account"
	a, err := v.tx.GetServiceAccount(ctx, v.tenantID, id)
	if err != nil {
		return seen, err
	}
	out.Disabled = a.Disabled
	if out.Roles, err = v.roles(ctx, id); err != nil {
		return seen, err
	}
	seen = v.keysUsed[id]
	// Temporary keys are gone soon; their trusts stay.
	trusts, err := v.tx.ListTrusts(ctx, v.tenantID, id, store.Page{})
	for _, t := range trusts {
		if t.LastUsedAt.After(seen) {
			seen = t.LastUsedAt
		}
	}
	return seen, err
}

func (v *reviewer) user(ctx context.Context, out *cloudv1.ReviewedPrincipal, id string) (err error) {
	for _, g := range v.groups[id] {
		out.Groups = append(out.Groups, g.Name)
	}
	out.Roles, err = v.roles(ctx, id)
	return err
}

// roles are a principal's with their places, as people write them.
func (v *reviewer) roles(ctx context.Context, id string) (out []string, _ error) {
	held, err := v.reader.Held(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		namespace, err := v.names.namespace(ctx, h.NamespaceID)
		if err != nil {
			return nil, err
		}
		text := h.Role.Name
		if h.NamespaceID != "" {
			text += " in " + namespace
		}
		if h.Queues != "" {
			text += " for queues " + h.Queues
		}
		out = append(out, text)
	}
	return sortedUnique(out), nil
}

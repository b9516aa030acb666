package principals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// question is whether a permission is held at a place.
type question struct {
	permission permission.Permission
	namespace  store.Namespace // Empty: in the whole tenant.
	queue      string          // Empty: in every queue.
}

// ask reads a question, and says what is wrong with it.
func ask(ctx context.Context, tx *store.Tx, name string, scope *cloudv1.Scope) (q question, _ error) {
	p, ok := permission.Named(name)
	if !ok {
		return q, fault.InvalidField("permission", "%q is no permission; ListPermissions lists them", name)
	}
	q.permission, q.queue = p, scope.GetQueues()
	if q.queue != "" {
		if err := permission.CheckPattern(q.queue); err != nil {
			return q, fault.InvalidField("scope.queues", "%s", err)
		}
	}
	if scope.GetNamespace() == "" {
		return q, nil
	}
	c := access.From(ctx)
	n, err := FindNamespace(ctx, tx, c.TenantID, scope.GetNamespace())
	if errors.Is(err, store.ErrNotFound) || err == nil && !c.Knows(n.ID) && !c.May(permission.AccessReview) {
		return q, fault.Missing("namespace")
	}
	q.namespace = n
	return q, err
}

// place is where, at the end of a sentence.
func (q question) place() string {
	text := "in the whole tenant"
	if q.namespace.ID != "" {
		text = "in namespace " + q.namespace.Name
	}
	if q.queue != "" {
		text += " for queues " + q.queue
	}
	return text
}

// wanted is what must be covered for a yes.
func (q question) wanted() permission.Grants {
	g := permission.Grant{Permissions: permission.Of(q.permission)}
	if q.namespace.ID != "" {
		g.Namespaces = []string{q.namespace.ID}
	}
	if q.queue != "" {
		g.Queues = []string{q.queue}
	}
	return permission.Grants{g}
}

func (q question) answeredBy(g permission.Grants) bool { return g.Covers(q.wanted()) }

// subject is who a question is about: a user or service account, perhaps through a key.
type subject struct {
	id, name string
	owner    string // Whose bindings count.
	key      *store.Key
	held     []rights.Held
}

// find reads a subject. Whoever is not the caller takes the permission to review.
func (s *Service) find(ctx context.Context, tx *store.Tx, id string) (sub subject, _ error) {
	c := access.From(ctx)
	if id == "" {
		id = c.ID()
	}
	if id != c.ID() && id != c.PrincipalID() && !c.May(permission.AccessReview) {
		return sub, fault.New(fault.Denied, "PERMISSION_DENIED", "to see what somebody else may do you need the permission access.review; leave principal_id out to see what you may do")
	}
	sub.id, sub.owner = id, id
	if strings.HasPrefix(id, "key_") {
		k, err := tx.GetKey(ctx, c.TenantID, id)
		if err != nil {
			return sub, none(err, "principal")
		}
		sub.key, sub.owner, sub.name = &k, k.OwnerID, k.Name
	} else {
		name, err := NewNamer(tx, c.TenantID).Principal(ctx, id)
		if err != nil {
			return sub, none(err, "principal")
		}
		sub.name = name
	}
	var err error
	sub.held, err = rights.NewReader(tx, c.TenantID).Held(ctx, sub.owner)
	return sub, err
}

// Explain says whether somebody may do something at a place, and why.
func (s *Service) Explain(ctx context.Context, r *cloudv1.ExplainRequest) (*cloudv1.ExplainResponse, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.ExplainResponse, error) {
		q, err := ask(ctx, tx, r.GetPermission(), r.GetScope())
		if err != nil {
			return nil, err
		}
		sub, err := s.find(ctx, tx, r.GetPrincipalId())
		if err != nil {
			return nil, err
		}
		return s.explain(ctx, tx, q, sub)
	})
}

func (s *Service) explain(ctx context.Context, tx *store.Tx, q question, sub subject) (*cloudv1.ExplainResponse, error) {
	res := &cloudv1.ExplainResponse{}
	var all permission.Grants
	var giving, elsewhere []rights.Held
	for _, h := range sub.held {
		all = append(all, h.Grant())
		switch {
		case q.answeredBy(permission.Grants{h.Grant()}):
			giving = append(giving, h)
		case h.Grant().Permissions.Has(q.permission):
			elsewhere = append(elsewhere, h)
		}
	}
	narrowed, err := s.narrowed(ctx, tx, q, sub)
	if err != nil {
		return nil, err
	}
	res.NarrowedBy = narrowed
	covered := q.answeredBy(all)
	res.Allowed = covered && len(narrowed) == 0
	shown := giving
	if len(giving) == 0 {
		shown = elsewhere // Together they may cover it, or none does.
	}
	names := NewNamer(tx, access.From(ctx).TenantID)
	for _, h := range shown {
		b, err := names.Binding(ctx, h.Binding)
		if err != nil {
			return nil, err
		}
		e := &cloudv1.ExplainedBinding{Binding: BindingMessage(b)}
		if h.PrincipalID != sub.owner {
			e.Group = b.Principal
		}
		res.Bindings = append(res.Bindings, e)
	}
	res.Reason = reason(q, sub, res, covered, len(elsewhere) > 0)
	return res, nil
}

func reason(q question, sub subject, res *cloudv1.ExplainResponse, covered, elsewhere bool) string {
	what := fmt.Sprintf("%s %s", q.permission, q.place())
	switch {
	case res.Allowed:
		return fmt.Sprintf("Yes: %s has %s by the role %s.", sub.name, what, res.Bindings[0].GetBinding().GetRole())
	case covered:
		return fmt.Sprintf("No: the owner of the key has %s, but the key doesn't: %s.", what, strings.Join(res.NarrowedBy, "; "))
	case elsewhere:
		return fmt.Sprintf("No: %s has %s, but not %s.", sub.name, q.permission, q.place())
	}
	return fmt.Sprintf("No: no role of %s gives %s.", sub.name, q.permission)
}

// narrowed says why a key may not what its owner may.
func (s *Service) narrowed(ctx context.Context, tx *store.Tx, q question, sub subject) (why []string, _ error) {
	if strings.HasPrefix(sub.owner, "sa_") {
		a, err := tx.GetServiceAccount(ctx, access.From(ctx).TenantID, sub.owner)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if a.Disabled || err != nil {
			why = append(why, "its service account is disabled or deleted")
		}
	}
	k := sub.key
	if k == nil {
		return why, nil
	}
	now := s.Now()
	limit := rights.Limit(*k)
	if !k.RevokedAt.IsZero() {
		why = append(why, "it is revoked")
	}
	if !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) {
		why = append(why, "it expired")
	}
	if !limit.Permissions.Has(q.permission) {
		why = append(why, "its permissions don't have it")
	}
	whole := permission.Grant{Permissions: permission.Everything()}
	if ns := whole; len(limit.Namespaces) > 0 {
		ns.Namespaces = limit.Namespaces
		if !q.answeredBy(permission.Grants{ns}) {
			why = append(why, "it is limited to other namespaces")
		}
	}
	if qs := whole; len(limit.Queues) > 0 {
		qs.Queues = limit.Queues
		if !q.answeredBy(permission.Grants{qs}) {
			why = append(why, "it is limited to the queues "+strings.Join(limit.Queues, ", "))
		}
	}
	return why, nil
}

// everybody walks users, service accounts and keys of a tenant, in the order of the kinds and
// then of ids, after a key of the walk, until f has enough. read is told whom the next calls of f are about.
func everybody(ctx context.Context, tx *store.Tx, tenantID string, page store.Page, read func(owners []string) error, f func(id, name string, made, seen time.Time, k *store.Key) (enough bool, _ error)) error {
	kind, id, _ := strings.Cut(page.After, " ")
	return inOrder(kind, id, []walk{
		{"1", batches(page.Limit, read, func(p store.Page) ([]store.Member, error) { return tx.ListMembers(ctx, tenantID, p) },
			func(m store.Member) (id, owner string) { return m.UserID, m.UserID },
			func(m store.Member) (bool, error) { return f(m.UserID, m.User.Email, m.CreatedAt, m.User.SeenAt, nil) })},
		{"2", batches(page.Limit, read, func(p store.Page) ([]store.ServiceAccount, error) { return tx.ListServiceAccounts(ctx, tenantID, p) },
			func(a store.ServiceAccount) (id, owner string) { return a.ID, a.ID },
			func(a store.ServiceAccount) (bool, error) { return f(a.ID, a.Name, a.CreatedAt, time.Time{}, nil) })},
		{"3", batches(page.Limit, read, func(p store.Page) ([]store.Key, error) { return tx.ListLastingKeys(ctx, tenantID, "", false, p) },
			func(k store.Key) (id, owner string) { return k.ID, k.OwnerID },
			func(k store.Key) (bool, error) { return f(k.ID, k.Name, k.CreatedAt, k.LastUsedAt, &k) })},
	})
}

// walk goes over the principals of a kind, after an id.
type walk struct {
	kind string
	walk func(from string) error
}

// inOrder goes on at an id of a kind, and ends with errEnough.
func inOrder(kind, id string, walks []walk) error {
	for _, w := range walks {
		from := ""
		switch {
		case w.kind < kind:
			continue
		case w.kind == kind:
			from = id
		}
		if err := w.walk(from); err != nil {
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}
	}
	return nil
}

// holders walks as everybody does, over those alone who have one of some roles somewhere, and
// over their keys.
func holders(ctx context.Context, tx *store.Tx, names *Namer, roles []string, page store.Page, f func(id, name string, k *store.Key) (enough bool, _ error)) error {
	kind, id, _ := strings.Cut(page.After, " ")
	read := func(owners []string) error { return names.read(ctx, owners) }
	named := func(id string) (bool, error) {
		name, err := names.Principal(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return f(id, name, nil)
	}
	of := func(prefix ids.Kind) func(string) error {
		list := func(p store.Page) ([]string, error) { return tx.Holders(ctx, names.tenantID, string(prefix), roles, p) }
		return batches(page.Limit, read, list, func(id string) (string, string) { return id, id }, named)
	}
	return inOrder(kind, id, []walk{
		{"1", of(ids.User)},
		{"2", of(ids.ServiceAccount)},
		{"3", batches(page.Limit, read, func(p store.Page) ([]store.Key, error) { return tx.ListLastingKeys(ctx, names.tenantID, "", false, p) },
			func(k store.Key) (id, owner string) { return k.ID, k.OwnerID },
			func(k store.Key) (bool, error) { return f(k.ID, k.Name, &k) })},
	})
}

var errEnough = errors.New("enough")

// walkKey is the place of a principal in the walk.
func walkKey(id string) string {
	kind := "1"
	if strings.HasPrefix(id, "sa_") {
		kind = "2"
	} else if strings.HasPrefix(id, "key_") {
		kind = "3"
	}
	return kind + " " + id
}

// batches is a walk over a list, some at a time, about as many as the page shows. read reads
// at once what f asks about the owners of a batch.
func batches[T any](size int, read func(owners []string) error, list func(store.Page) ([]T, error), ids func(T) (id, owner string), f func(T) (bool, error)) func(from string) error {
	const most = 100
	size = min(size, most)
	return func(from string) error {
		for p := (store.Page{After: from, Limit: size}); ; {
			batch, err := list(p)
			if err != nil {
				return err
			}
			if err := read(owners(batch, ids)); err != nil {
				return err
			}
			for _, v := range batch {
				enough, err := f(v)
				if err != nil {
					return err
				}
				if enough {
					return errEnough
				}
			}
			if len(batch) < size {
				return nil
			}
			p.After, _ = ids(batch[len(batch)-1])
		}
	}
}

func owners[T any](batch []T, ids func(T) (id, owner string)) (out []string) {
	for _, v := range batch {
		_, owner := ids(v)
		out = append(out, owner)
	}
	return sortedUnique(out)
}

// sortedUnique is each text once, in order.
func sortedUnique(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

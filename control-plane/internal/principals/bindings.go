package principals

import (
	"context"
	"errors"
	"strings"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// Namer finds the names of what bindings refer to, each once. It is for one transaction.
type Namer struct {
	tx       *store.Tx
	tenantID string
	roles    *rights.Reader
	known    map[string]string
}

// NewNamer makes a Namer.
func NewNamer(tx *store.Tx, tenantID string) *Namer {
	return namerBeside(tx, tenantID, rights.NewReader(tx, tenantID))
}

// namerBeside makes a Namer that reads no role again that a Reader has read.
func namerBeside(tx *store.Tx, tenantID string, roles *rights.Reader) *Namer {
	return &Namer{tx: tx, tenantID: tenantID, roles: roles, known: map[string]string{}}
}

// read reads at once the names and bindings of users and service accounts that a page is about.
func (n *Namer) read(ctx context.Context, ids []string) error {
	members, err := n.tx.MembersOf(ctx, n.tenantID, ids)
	for _, m := range members {
		n.known[m.UserID] = m.User.Email
	}
	if err != nil {
		return err
	}
	return n.roles.ReadHeld(ctx, ids)
}

// Principal is the email address of a user, or the name of a service account or group;
// store.ErrNotFound for what is none of this tenant's.
func (n *Namer) Principal(ctx context.Context, id string) (string, error) {
	return n.name(id, func() (string, error) {
		switch {
		case strings.HasPrefix(id, string(ids.User)):
			if _, err := n.tx.GetMembership(ctx, n.tenantID, id); err != nil {
				return "", err
			}
			u, err := n.tx.GetUser(ctx, id)
			return u.Email, err
		case strings.HasPrefix(id, string(ids.ServiceAccount)):
			a, err := n.tx.GetServiceAccount(ctx, n.tenantID, id)
			return a.Name, err
		case strings.HasPrefix(id, string(ids.Group)):
			g, err := n.tx.GetGroup(ctx, n.tenantID, id)
			return g.Name, err
		}
		return "", store.ErrNotFound
	})
}

// namespace is the name of a namespace, or its id if it is gone.
func (n *Namer) namespace(ctx context.Context, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	return n.name(id, func() (string, error) {
		found, err := n.tx.GetNamespace(ctx, n.tenantID, id)
		if errors.Is(err, store.ErrNotFound) {
			return id, nil
		}
		return found.Name, err
	})
}

func (n *Namer) name(id string, find func() (string, error)) (string, error) {
	if name, ok := n.known[id]; ok {
		return name, nil
	}
	name, err := find()
	if err == nil {
		n.known[id] = name
	}
	return name, err
}

// Binding is a binding with the names in it. What is gone has its id as its name.
func (n *Namer) Binding(ctx context.Context, b store.Binding) (change.Binding, error) {
	out := change.Binding{Binding: b}
	role, err := n.roles.Role(ctx, b.RoleID)
	if err != nil {
		return out, err
	}
	out.Role = role.Name
	if out.Principal, err = n.Principal(ctx, b.PrincipalID); errors.Is(err, store.ErrNotFound) {
		out.Principal, err = b.PrincipalID, nil
	}
	if err != nil {
		return out, err
	}
	out.Namespace, err = n.namespace(ctx, b.NamespaceID)
	return out, err
}

// BindingMessage is a binding on the wire.
func BindingMessage(b change.Binding) *cloudv1.RoleBinding {
	return &cloudv1.RoleBinding{
		Id: b.ID, PrincipalId: b.PrincipalID, Principal: b.Principal, RoleId: b.RoleID, Role: b.Role,
		Scope:  &cloudv1.Scope{Namespace: b.NamespaceID, Queues: b.Queues, NamespaceName: b.Namespace},
		Source: b.Source, CreatedBy: b.CreatedBy, CreatedAt: stamp(b.CreatedAt),
	}
}

// ListRoleBindings lists who has which role where.
func (s *Service) ListRoleBindings(ctx context.Context, r *cloudv1.ListRoleBindingsRequest) (*cloudv1.ListRoleBindingsResponse, error) {
	shown, next, err := listing.Of[change.Binding, *cloudv1.RoleBinding]{
		Method: "ListRoleBindings", Filter: []any{r.GetPrincipalId(), r.GetRoleId()}, Key: func(b change.Binding) string { return b.ID }, Show: BindingMessage,
		Page: func(tx *store.Tx, tenantID string, p store.Page) (out []change.Binding, _ error) {
			list, err := tx.ListBindings(ctx, tenantID, store.BindingFilter{PrincipalID: r.GetPrincipalId(), RoleID: r.GetRoleId()}, p)
			names := NewNamer(tx, tenantID)
			for _, b := range list {
				named, nameErr := names.Binding(ctx, b)
				if nameErr != nil {
					return nil, nameErr
				}
				out = append(out, named)
			}
			return out, err
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListRoleBindingsResponse{RoleBindings: shown, NextPageToken: next}, err
}

// GetRoleBinding finds one by id.
func (s *Service) GetRoleBinding(ctx context.Context, r *cloudv1.GetRoleBindingRequest) (*cloudv1.GetRoleBindingResponse, error) {
	b, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (change.Binding, error) { return findBinding(ctx, tx, r.GetRoleBindingId()) })
	if err != nil {
		return nil, err
	}
	return &cloudv1.GetRoleBindingResponse{RoleBinding: BindingMessage(b)}, nil
}

func findBinding(ctx context.Context, tx *store.Tx, id string) (change.Binding, error) {
	tenantID := access.From(ctx).TenantID
	b, err := tx.GetBinding(ctx, tenantID, id)
	if err != nil {
		return change.Binding{}, none(err, "role binding")
	}
	return NewNamer(tx, tenantID).Binding(ctx, b)
}

// CreateRoleBinding gives a role to a principal at a place. Giving it twice is the same as
// once.
func (s *Service) CreateRoleBinding(ctx context.Context, r *cloudv1.CreateRoleBindingRequest) (*cloudv1.CreateRoleBindingResponse, error) {
	res := new(cloudv1.CreateRoleBindingResponse)
	err := s.Write(ctx, func(tx *store.Tx) error {
		b, role, err := s.bindingOf(ctx, tx, r)
		if err != nil {
			return err
		}
		if err := MayGive(access.From(ctx), permission.Grants{role.Grant(b.NamespaceID, b.Queues)}, "the role "+role.Name); err != nil {
			return err
		}
		res.Notices, err = noticing(ctx, tx, func() error {
			named, err := s.give(ctx, tx, b)
			res.RoleBinding = BindingMessage(named)
			return err
		})
		if err != nil {
			return err
		}
		return fits(ctx, tx, b)
	})
	if err != nil {
		return nil, err
	}
	s.settled(ctx)
	return res, nil
}

// fits refuses a role in one place more than a cell takes for a key of the account.
func fits(ctx context.Context, tx *store.Tx, b store.Binding) error {
	if !strings.HasPrefix(b.PrincipalID, string(ids.ServiceAccount)) {
		return nil
	}
	return Fits(ctx, tx, store.Key{TenantID: b.TenantID, OwnerID: b.PrincipalID}, func(beyond error) error {
		return fault.InvalidField("scope", "what this service account may do %s; give it the role in the whole tenant, or use another account", beyond)
	})
}

// give writes a binding unless it is there.
func (s *Service) give(ctx context.Context, tx *store.Tx, b store.Binding) (change.Binding, error) {
	names := NewNamer(tx, b.TenantID)
	if there, err := tx.FindBinding(ctx, b); !errors.Is(err, store.ErrNotFound) {
		if err != nil {
			return change.Binding{}, err
		}
		return names.Binding(ctx, there)
	}
	if err := room(ctx, b.TenantID, "role bindings", bindingsMax, func(ctx context.Context, id string) (int, error) { return tx.CountBindings(ctx, id, "") }); err != nil {
		return change.Binding{}, err
	}
	named, err := names.Binding(ctx, b)
	if err != nil {
		return named, err
	}
	return named, change.Make(ctx, s.Kit, tx, "role_binding.create", change.InsertBinding(named), change.Fields{
		"principal": {After: named.Principal}, "role": {After: named.Role}, "namespace": {After: named.Namespace}, "queues": {After: named.Queues},
	})
}

// bindingOf resolves the names in a request, and says what is wrong with it.
func (s *Service) bindingOf(ctx context.Context, tx *store.Tx, r *cloudv1.CreateRoleBindingRequest) (b store.Binding, role rights.Role, err error) {
	c, now := access.From(ctx), s.Now()
	b = store.Binding{
		TenantID: c.TenantID, ID: s.IDs.New(ids.Binding, now), PrincipalID: r.GetPrincipalId(), Queues: r.GetScope().GetQueues(), CreatedBy: c.ID(), CreatedAt: now,
	}
	if _, err := NewNamer(tx, c.TenantID).Principal(ctx, b.PrincipalID); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = fault.InvalidField("principal_id", "must be the id of a member (usr_…), service account (sa_…) or group (grp_…) of this tenant")
		}
		return b, role, err
	}
	if role, err = rights.FindRole(ctx, tx, c.TenantID, "role", r.GetRole()); err != nil {
		return b, role, err
	}
	b.RoleID = role.ID
	if asked := r.GetScope().GetNamespace(); asked != "" {
		n, err := FindNamespace(ctx, tx, c.TenantID, asked)
		if errors.Is(err, store.ErrNotFound) {
			err = fault.InvalidField("scope.namespace", "%q is no namespace of this tenant", asked)
		}
		if err != nil {
			return b, role, err
		}
		b.NamespaceID = n.ID
	}
	return b, role, checkPlace(b, role)
}

// FindNamespace finds a living namespace by its name or id; store.ErrNotFound.
func FindNamespace(ctx context.Context, tx *store.Tx, tenantID, nameOrID string) (store.Namespace, error) {
	n, err := tx.GetNamespace(ctx, tenantID, nameOrID)
	if errors.Is(err, store.ErrNotFound) {
		return tx.GetNamespaceByName(ctx, tenantID, nameOrID)
	}
	if err == nil && !n.DeletedAt.IsZero() {
		return n, store.ErrNotFound
	}
	return n, err
}

// checkPlace refuses a pattern that is none, and a role that gives nothing at the place.
func checkPlace(b store.Binding, role rights.Role) error {
	if b.Queues != "" {
		if err := permission.CheckPattern(b.Queues); err != nil {
			return fault.InvalidField("scope.queues", "%s", err)
		}
	}
	if role.Grant(b.NamespaceID, b.Queues).Permissions.Empty() {
		return fault.InvalidField("role", "the role %s gives nothing in a single namespace or queue; give it in the whole tenant, or choose another role", role.Name)
	}
	return nil
}

// DeleteRoleBinding takes a role away.
func (s *Service) DeleteRoleBinding(ctx context.Context, r *cloudv1.DeleteRoleBindingRequest) (*cloudv1.DeleteRoleBindingResponse, error) {
	err := s.Write(ctx, func(tx *store.Tx) error {
		b, err := findBinding(ctx, tx, r.GetRoleBindingId())
		if f, ok := fault.As(err); ok && f.Code == fault.NotFound && r.GetAllowMissing() {
			return nil
		}
		if err != nil {
			return err
		}
		return s.take(ctx, tx, b)
	})
	if err != nil {
		return nil, err
	}
	s.settled(ctx)
	return &cloudv1.DeleteRoleBindingResponse{}, nil
}

func (s *Service) take(ctx context.Context, tx *store.Tx, b change.Binding) error {
	role, err := rights.NewReader(tx, b.TenantID).Role(ctx, b.RoleID)
	if err != nil {
		return err
	}
	if err := MayGive(access.From(ctx), permission.Grants{role.Grant(b.NamespaceID, b.Queues)}, "the role "+role.Name); err != nil {
		return err
	}
	if b.Source != "" {
		return fault.New(fault.Conflict, "ROLE_FROM_SSO",
			"this role comes from the identity provider's groups and would be given again at the next sign-in; change the group mapping of connection %s instead", b.Source)
	}
	if isOwners(b.Binding) {
		if err := CheckLastOwner(ctx, tx, b.TenantID); err != nil {
			return err
		}
	}
	return change.Make(ctx, s.Kit, tx, "role_binding.delete", change.DeleteBinding(b), change.Fields{
		"principal": {Before: b.Principal}, "role": {Before: b.Role}, "namespace": {Before: b.Namespace}, "queues": {Before: b.Queues},
	})
}

// isOwners reports whether the binding makes a user an owner.
func isOwners(b store.Binding) bool {
	return b.RoleID == store.RoleOwner && b.NamespaceID == "" && b.Queues == "" && strings.HasPrefix(b.PrincipalID, string(ids.User))
}

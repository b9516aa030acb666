package members

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/domains"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// Needs are what a Service is built of.
type Needs struct {
	kit.Kit
	// InvitationsPerHour is how many a tenant may send; 0: no limit.
	InvitationsPerHour int
}

// InvitationsPerHourDefault is enough for a company, and too little for spam.
const InvitationsPerHourDefault = 100

// Service is the use cases of members and invitations.
type Service struct{ Needs }

// New makes a Service.
func New(n Needs) *Service { return &Service{Needs: n} }

// shownMember is a member with the names of their roles in the whole tenant.
type shownMember struct {
	store.Member
	roles    []string
	external bool
}

// ListMembers lists in the order in which people came to the service.
func (s *Service) ListMembers(ctx context.Context, r *cloudv1.ListMembersRequest) (*cloudv1.ListMembersResponse, error) {
	shown, next, err := listing.Of[shownMember, *cloudv1.Member]{
		Method: "ListMembers", Key: func(m shownMember) string { return m.UserID },
		Show: func(m shownMember) *cloudv1.Member { return message(m.Membership, m.User, m.roles, m.external) },
		Page: func(tx *store.Tx, tenantID string, p store.Page) ([]shownMember, error) {
			list, err := tx.ListMembers(ctx, tenantID, p)
			if err != nil || len(list) == 0 {
				return nil, err
			}
			return withRoles(ctx, tx, tenantID, list)
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListMembersResponse{Members: shown, NextPageToken: next}, err
}

func withRoles(ctx context.Context, tx *store.Tx, tenantID string, list []store.Member) ([]shownMember, error) {
	given, err := tx.TenantRoles(ctx, tenantID, list[0].UserID, list[len(list)-1].UserID)
	if err != nil {
		return nil, err
	}
	names := map[string][]string{}
	reader := rights.NewReader(tx, tenantID)
	for _, b := range given {
		role, err := reader.Role(ctx, b.RoleID)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names[b.PrincipalID], role.Name) {
			names[b.PrincipalID] = append(names[b.PrincipalID], role.Name)
		}
	}
	outside, err := domains.Outside(ctx, tx, tenantID)
	if err != nil {
		return nil, err
	}
	out := make([]shownMember, len(list))
	for i, m := range list {
		out[i] = shownMember{m, names[m.UserID], isExternal(m.Membership, m.User, outside)}
	}
	return out, nil
}

// isExternal reports whether the tenant's provider let somebody in whose address the tenant has
// not proved to be its own. Whoever came by email was invited under that very address.
func isExternal(m store.Membership, u store.User, outside func(address string) bool) bool {
	return m.ConnectionID != "" && outside(u.Email)
}

// UpdateMember replaces the roles that a member has in the whole tenant.
func (s *Service) UpdateMember(ctx context.Context, r *cloudv1.UpdateMemberRequest) (*cloudv1.UpdateMemberResponse, error) {
	c := access.From(ctx)
	res := &cloudv1.UpdateMemberResponse{}
	return res, s.Write(ctx, func(tx *store.Tx) error {
		to, err := rights.FindRoles(ctx, tx, c.TenantID, "roles", r.GetRoles())
		if err != nil {
			return err
		}
		m, u, err := find(ctx, tx, c.TenantID, r.GetUserId())
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), tag(m), "this member"); err != nil {
			return err
		}
		if err := mayChange(ctx, tx, m, u, to); err != nil {
			return err
		}
		if err := SetRoles(ctx, s.Kit, tx, &m, u, to, ""); err != nil {
			return err
		}
		outside, err := domains.Outside(ctx, tx, c.TenantID)
		res.Member = message(m, u, rights.Names(to), err == nil && isExternal(m, u, outside))
		return err
	})
}

// mayChange applies the rules that stand above permissions: to a change of roles, both those
// that are taken and those that are given.
func mayChange(ctx context.Context, tx *store.Tx, m store.Membership, u store.User, to []rights.Role) error {
	held, err := principals.InTenant(ctx, tx, m.TenantID, m.UserID)
	if err != nil {
		return err
	}
	c, has := access.From(ctx), principals.RolesOf(held)
	if err := principals.MayGive(c, rights.InTenant(has), u.Email); err != nil {
		return err
	}
	if err := principals.MayGive(c, rights.InTenant(to), "the roles "+strings.Join(rights.Names(to), ", ")); err != nil {
		return err
	}
	if m.ConnectionID != "" && !slices.Equal(sortedIDs(to), sortedIDs(has)) {
		return fault.New(fault.Conflict, "ROLE_FROM_SSO",
			"these roles come from the identity provider's groups and would be set again at the next sign-in; change the group mapping of connection %s instead, or give other roles with role bindings", m.ConnectionID)
	}
	return nil
}

func sortedIDs(roles []rights.Role) (out []string) {
	for _, r := range roles {
		out = append(out, r.ID)
	}
	slices.Sort(out)
	return out
}

// SetRoles replaces what a member has in the whole tenant from a source (a connection; empty:
// people), cuts off the tokens that carry the old roles, and withdraws invitations that the
// member could not send any more. The last owner stays one.
func SetRoles(ctx context.Context, k kit.Kit, tx *store.Tx, m *store.Membership, u store.User, to []rights.Role, source string) error {
	held, err := principals.InTenant(ctx, tx, m.TenantID, m.UserID)
	if err != nil {
		return err
	}
	was := principals.RolesOf(held)
	var given, taken []store.Binding
	kept := to
	for _, h := range held {
		switch {
		case h.Source != source:
			kept = append(slices.Clone(kept), h.Role)
		case !slices.ContainsFunc(to, func(r rights.Role) bool { return r.ID == h.RoleID }):
			taken = append(taken, h.Binding)
		}
	}
	for _, b := range principals.Bindings(k, access.From(ctx), m.TenantID, m.UserID, source, to, k.Now()) {
		if !slices.ContainsFunc(held, func(h rights.Held) bool { return h.RoleID == b.RoleID && h.Source == source }) {
			given = append(given, b)
		}
	}
	if len(given)+len(taken) == 0 {
		return nil
	}
	if principals.IsOwner(was) && !principals.IsOwner(kept) {
		if err := principals.CheckLastOwner(ctx, tx, m.TenantID); err != nil {
			return err
		}
	}
	fields := change.Fields{"roles": {Before: rights.Names(was), After: rights.Names(kept)}}
	if err := change.Make(ctx, k, tx, "member.update", change.UpdateMember(m, u, given, taken), fields); err != nil {
		return err
	}
	return withdraw(ctx, k, tx, *m, u)
}

// RemoveMember ends a membership with the sessions, tokens, roles and personal keys that rest
// on it.
func (s *Service) RemoveMember(ctx context.Context, r *cloudv1.RemoveMemberRequest) (*cloudv1.RemoveMemberResponse, error) {
	c := access.From(ctx)
	res := &cloudv1.RemoveMemberResponse{}
	return res, s.Write(ctx, func(tx *store.Tx) error {
		m, u, err := find(ctx, tx, c.TenantID, r.GetUserId())
		if err != nil {
			return err
		}
		may, err := rights.Of(ctx, tx, m.TenantID, m.UserID)
		if err != nil {
			return err
		}
		if err := principals.MayGive(c, may.Grants, u.Email); err != nil {
			return err
		}
		if m.UserID != c.UserID { // A member who leaves by themselves may come back the same way.
			removal := store.Removal{TenantID: m.TenantID, UserID: u.ID, Email: u.Email, RemovedBy: c.Name, RemovedAt: s.Now()}
			if err := tx.PutRemoval(ctx, removal); err != nil {
				return err
			}
			if err := s.withdrawTo(ctx, tx, m.TenantID, u.Email); err != nil {
				return err
			}
		}
		res.RevokedKeys, err = Remove(ctx, s.Kit, tx, m, u, r.GetRevokeKeys())
		return err
	})
}

// withdrawTo revokes an open invitation to an address: one from before the removal must
// not bring back whoever was removed.
func (s *Service) withdrawTo(ctx context.Context, tx *store.Tx, tenantID, email string) error {
	open, err := tx.ListInvitations(ctx, tenantID, store.Page{Limit: InvitationsMax})
	if err != nil {
		return err
	}
	for _, i := range open {
		if email == "" || i.Email != email {
			continue
		}
		fields := change.Fields{"reason": {After: email + " was removed from the tenant"}}
		if err := change.Make(ctx, s.Kit, tx, "invitation.delete", change.DeleteInvitation(i), fields); err != nil {
			return err
		}
	}
	return nil
}

// Remove ends a membership, unless it is the last owner's, without asking further whether
// that may be. revokeKeys are keys of service accounts that end with it.
func Remove(ctx context.Context, k kit.Kit, tx *store.Tx, m store.Membership, u store.User, revokeKeys []string) (revoked []string, err error) {
	held, err := principals.InTenant(ctx, tx, m.TenantID, m.UserID)
	if err != nil {
		return nil, err
	}
	roles := principals.RolesOf(held)
	if principals.IsOwner(roles) {
		if err := principals.CheckLastOwner(ctx, tx, m.TenantID); err != nil {
			return nil, err
		}
	}
	if _, err := tx.DeleteSessionsOfUser(ctx, m.UserID, m.TenantID); err != nil {
		return nil, err
	}
	fields := change.Fields{"roles": {Before: rights.Names(roles)}}
	if revoked, err = revokeLeft(ctx, k, tx, m.TenantID, u, revokeKeys, fields); err != nil {
		return nil, err
	}
	if err := change.Make(ctx, k, tx, "member.delete", change.DeleteMember(m, u), fields); err != nil {
		return nil, err
	}
	return revoked, withdraw(ctx, k, tx, m, u)
}

// withdraw revokes the open invitations of the member, and of keys that they made, that they
// could not send any more: one to an address of their own would bring back what was taken.
func withdraw(ctx context.Context, k kit.Kit, tx *store.Tx, m store.Membership, u store.User) error {
	open, err := tx.ListInvitations(ctx, m.TenantID, store.Page{Limit: InvitationsMax})
	if err != nil {
		return err
	}
	reader := rights.NewReader(tx, m.TenantID)
	for _, i := range open {
		if i.InvitedByID != u.ID {
			continue
		}
		roles, err := rolesOf(ctx, reader, i.Roles)
		if err != nil {
			return err
		}
		may, err := inviterMay(ctx, reader, i, roles)
		if err != nil {
			return err
		}
		if may {
			continue
		}
		err = change.Make(ctx, k, tx, "invitation.delete", change.DeleteInvitation(i), change.Fields{
			"reason": {After: u.Email + " can no longer invite with the roles " + strings.Join(rights.Names(roles), ", ")}})
		if err != nil {
			return err
		}
	}
	return nil
}

// inviterMay reports whether the user behind an invitation may, at this moment, invite with its
// roles. Nobody is behind one by the operator, which therefore stays good.
func inviterMay(ctx context.Context, r *rights.Reader, i store.Invitation, roles []rights.Role) (bool, error) {
	if i.InvitedByID == "" {
		return true, nil
	}
	may, err := r.Of(ctx, i.InvitedByID)
	return may.Grants.Tenant(permission.MemberInvite) && may.Grants.Covers(rights.InTenant(roles)), err
}

func rolesOf(ctx context.Context, r *rights.Reader, ids []string) (out []rights.Role, _ error) {
	for _, id := range ids {
		role, err := r.Role(ctx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, role)
	}
	return out, nil
}

// find gives a member; a user of other tenants only is nobody here.
func find(ctx context.Context, tx *store.Tx, tenantID, userID string) (store.Membership, store.User, error) {
	m, err := tx.GetMembership(ctx, tenantID, userID)
	if err == nil {
		u, err := tx.GetUser(ctx, userID)
		return m, u, err
	}
	if errors.Is(err, store.ErrNotFound) {
		err = fault.Missing("member")
	}
	return m, store.User{}, err
}

func message(m store.Membership, u store.User, roles []string, external bool) *cloudv1.Member {
	out := &cloudv1.Member{
		UserId: m.UserID, Email: u.Email, Name: u.Name, Roles: roles, SsoConnectionId: m.ConnectionID, External: external,
		CreatedAt: timestamppb.New(m.CreatedAt), Etag: tag(m),
	}
	if !u.SeenAt.IsZero() {
		out.LastSeenAt = timestamppb.New(u.SeenAt)
	}
	return out
}

func tag(m store.Membership) string { return etag.Of(m.Version, m.TenantID, m.UserID) }

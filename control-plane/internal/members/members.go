package members

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
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

// ListMembers lists in the order in which people came to the service.
func (s *Service) ListMembers(ctx context.Context, r *cloudv1.ListMembersRequest) (*cloudv1.ListMembersResponse, error) {
	shown, next, err := listing.Of[store.Member, *cloudv1.Member]{
		Method: "ListMembers", Key: func(m store.Member) string { return m.UserID },
		Show: func(m store.Member) *cloudv1.Member { return message(m.Membership, m.User) },
		Page: func(tx *store.Tx, tenantID string, p store.Page) ([]store.Member, error) {
			return tx.ListMembers(ctx, tenantID, p)
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListMembersResponse{Members: shown, NextPageToken: next}, err
}

// UpdateMember changes a role.
func (s *Service) UpdateMember(ctx context.Context, r *cloudv1.UpdateMemberRequest) (*cloudv1.UpdateMemberResponse, error) {
	c := access.From(ctx)
	if err := checkRole(r.GetRole()); err != nil {
		return nil, err
	}
	res := &cloudv1.UpdateMemberResponse{}
	return res, s.Write(ctx, func(tx *store.Tx) error {
		m, u, err := find(ctx, tx, c.TenantID, r.GetUserId())
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), tag(m), "this member"); err != nil {
			return err
		}
		if err := s.mayChange(ctx, tx, m, r.GetRole()); err != nil {
			return err
		}
		keep := Keep{All: r.GetKeepAllKeys(), IDs: r.GetKeepKeys()}
		if res.RevokedKeys, err = SetRole(ctx, s.Kit, tx, &m, u, r.GetRole(), keep); err != nil {
			return err
		}
		res.Member = message(m, u)
		return nil
	})
}

// mayChange applies the rules that stand above permissions. An unspecified role is a
// removal.
func (s *Service) mayChange(ctx context.Context, tx *store.Tx, m store.Membership, to cloudv1.TenantRole) error {
	holder := access.From(ctx).Role
	if !access.MayGrant(holder, m.Role) {
		return fault.New(fault.Denied, "ABOVE_CALLER", "your role is %s, so you can't change a member with the role %s; ask an owner", access.RoleName(holder), access.RoleName(m.Role))
	}
	removal := to == cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED
	if !removal && !access.MayGrant(holder, to) {
		return fault.New(fault.Denied, "ABOVE_CALLER", "your role is %s, so you can't give anyone the role %s; ask an owner", access.RoleName(holder), access.RoleName(to))
	}
	if !removal && m.ConnectionID != "" && to != m.Role {
		return fault.New(fault.Conflict, "ROLE_FROM_SSO",
			"this role comes from the identity provider's groups and would be set again at the next sign-in; change the group mapping of connection %s instead", m.ConnectionID)
	}
	return CheckLastOwner(ctx, tx, m, to)
}

// CheckLastOwner refuses to take the role owner from the only one who has it.
func CheckLastOwner(ctx context.Context, tx *store.Tx, m store.Membership, to cloudv1.TenantRole) error {
	const owner = cloudv1.TenantRole_TENANT_ROLE_OWNER
	if m.Role != owner || to == owner {
		return nil
	}
	n, err := tx.CountOwners(ctx, m.TenantID)
	if err != nil {
		return err
	}
	if n > 1 {
		return nil
	}
	return fault.New(fault.Conflict, "LAST_OWNER", "this is the last owner, and a tenant needs at least one; make someone else an owner first")
}

// SetRole writes a role, cuts off tokens that carry the old one, and revokes the keys
// that the member made and could not make any more.
func SetRole(ctx context.Context, k kit.Kit, tx *store.Tx, m *store.Membership, u store.User, to cloudv1.TenantRole, keep Keep) (revoked []string, err error) {
	if m.Role == to {
		return nil, nil
	}
	fields := change.Fields{"role": {Before: access.RoleName(m.Role), After: access.RoleName(to)}}
	if revoked, err = takeAway(ctx, k, tx, *m, u, to, keep, fields); err != nil {
		return nil, err
	}
	m.Role = to
	return revoked, change.Make(ctx, k, tx, "member.update", change.UpdateMember(m, u, nil, nil), fields)
}

// RemoveMember ends a membership with the sessions, tokens and keys that rest on it.
func (s *Service) RemoveMember(ctx context.Context, r *cloudv1.RemoveMemberRequest) (*cloudv1.RemoveMemberResponse, error) {
	c := access.From(ctx)
	res := &cloudv1.RemoveMemberResponse{}
	return res, s.Write(ctx, func(tx *store.Tx) error {
		m, u, err := find(ctx, tx, c.TenantID, r.GetUserId())
		if err != nil {
			return err
		}
		if err := s.mayChange(ctx, tx, m, cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED); err != nil {
			return err
		}
		if m.UserID != c.UserID { // A member who leaves by themselves may come back the same way.
			removal := store.Removal{TenantID: m.TenantID, UserID: u.ID, Email: u.Email, RemovedBy: c.Name, RemovedAt: s.Now()}
			if err := tx.PutRemoval(ctx, removal); err != nil {
				return err
			}
		}
		res.RevokedKeys, err = Remove(ctx, s.Kit, tx, m, u, Keep{All: r.GetKeepAllKeys(), IDs: r.GetKeepKeys()})
		return err
	})
}

// Remove ends a membership without asking whether that may be.
func Remove(ctx context.Context, k kit.Kit, tx *store.Tx, m store.Membership, u store.User, keep Keep) (revoked []string, err error) {
	if _, err := tx.DeleteSessionsOfUser(ctx, m.UserID, m.TenantID); err != nil {
		return nil, err
	}
	fields := change.Fields{"role": {Before: access.RoleName(m.Role)}}
	if revoked, err = takeAway(ctx, k, tx, m, u, cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED, keep, fields); err != nil {
		return nil, err
	}
	return revoked, change.Make(ctx, k, tx, "member.delete", change.DeleteMember(m, u), fields)
}

// takeAway ends what a member of another role could not have made: invitations and keys.
func takeAway(ctx context.Context, k kit.Kit, tx *store.Tx, m store.Membership, u store.User, to cloudv1.TenantRole, keep Keep, fields change.Fields) (revoked []string, _ error) {
	if err := withdraw(ctx, k, tx, m, u, to); err != nil {
		return nil, err
	}
	return revokeKeys(ctx, k, tx, m.TenantID, u, to, keep, fields)
}

// withdraw revokes the member's open invitations that somebody of the new role could not
// make: one to an address of their own would bring back what was taken.
func withdraw(ctx context.Context, k kit.Kit, tx *store.Tx, m store.Membership, u store.User, to cloudv1.TenantRole) error {
	open, err := tx.ListInvitations(ctx, m.TenantID, store.Page{Limit: InvitationsMax})
	if err != nil {
		return err
	}
	invites := access.RoleMay(to, cloudv1.Permission_PERMISSION_MEMBER_WRITE)
	for _, i := range open {
		if i.InvitedBy != u.Email || invites && access.MayGrant(to, i.Role) {
			continue
		}
		err := change.Make(ctx, k, tx, "invitation.delete", change.DeleteInvitation(i), change.Fields{
			"reason": {After: u.Email + " can no longer invite with the role " + access.RoleName(i.Role)}})
		if err != nil {
			return err
		}
	}
	return nil
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

func checkRole(r cloudv1.TenantRole) error {
	if access.Permissions(r) == nil {
		return fault.InvalidField("role", "must be one of %s", access.RoleNames())
	}
	return nil
}

func message(m store.Membership, u store.User) *cloudv1.Member {
	out := &cloudv1.Member{
		UserId: m.UserID, Email: u.Email, Name: u.Name, Role: m.Role, SsoConnectionId: m.ConnectionID,
		CreatedAt: timestamppb.New(m.CreatedAt), Etag: tag(m),
	}
	if !u.SeenAt.IsZero() {
		out.LastSeenAt = timestamppb.New(u.SeenAt)
	}
	return out
}

func tag(m store.Membership) string { return etag.Of(m.Version, m.TenantID, m.UserID) }

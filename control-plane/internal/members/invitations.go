package members

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// invitationLife is how long somebody may take to answer.
	invitationLife = 7 * 24 * time.Hour
	// InvitationsMax are open at a time; more would be mail to strangers.
	InvitationsMax = 500
	// nameMax is in characters.
	nameMax = 100

	tokenPrefix = "corvo_invite_"
	acceptPath  = "/invite"
)

// shownInvitation is an invitation with the names of its roles.
type shownInvitation struct {
	store.Invitation
	roles []string
}

// ListInvitations lists those not accepted yet, oldest first, expired ones included.
func (s *Service) ListInvitations(ctx context.Context, r *cloudv1.ListInvitationsRequest) (*cloudv1.ListInvitationsResponse, error) {
	shown, next, err := listing.Of[shownInvitation, *cloudv1.Invitation]{
		Method: "ListInvitations", Key: func(i shownInvitation) string { return i.ID },
		Show: func(i shownInvitation) *cloudv1.Invitation { return invitationMessage(i.Invitation, i.roles) },
		Page: func(tx *store.Tx, tenantID string, p store.Page) (out []shownInvitation, _ error) {
			list, err := tx.ListInvitations(ctx, tenantID, p)
			reader := rights.NewReader(tx, tenantID)
			for _, i := range list {
				roles, err := rolesOf(ctx, reader, i.Roles)
				if err != nil {
					return nil, err
				}
				out = append(out, shownInvitation{i, rights.Names(roles)})
			}
			return out, err
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListInvitationsResponse{Invitations: shown, NextPageToken: next}, err
}

// CreateInvitation mails a link; an older one for the same address no longer works.
func (s *Service) CreateInvitation(ctx context.Context, r *cloudv1.CreateInvitationRequest) (*cloudv1.CreateInvitationResponse, error) {
	c := access.From(ctx)
	email, roles, err := s.validateInvitation(ctx, r)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	token, digest := seal.NewToken(tokenPrefix)
	i := store.Invitation{
		TenantID: c.TenantID, ID: s.IDs.New(ids.Invitation, now), Email: email, Roles: sortedIDs(roles), Digest: digest,
		InvitedBy: c.Name, CreatedAt: now, ExpiresAt: now.Add(invitationLife),
	}
	by := ""
	if c.UserID != "" {
		by = c.Name // A key's name is text that anybody could have chosen.
	}
	msg, err := mail.Invitation(email, c.Tenant, rolesText(roles), by, s.URLs.Link(acceptPath, token), invitationLife, now)
	if err != nil {
		return nil, err
	}
	return &cloudv1.CreateInvitationResponse{Invitation: invitationMessage(i, rights.Names(roles))},
		s.Write(ctx, func(tx *store.Tx) error { return s.invite(ctx, tx, i, roles, msg) })
}

// rolesText names fixed roles alone: the name of a tenant's own is text that somebody chose,
// and must not reach a stranger.
func rolesText(roles []rights.Role) string {
	var names []string
	for _, r := range roles {
		if r.Fixed {
			names = append(names, r.Name)
		}
	}
	if len(names) < len(roles) {
		names = append(names, "a role of its own")
	}
	return strings.Join(names, ", ")
}

func (s *Service) validateInvitation(ctx context.Context, r *cloudv1.CreateInvitationRequest) (email string, roles []rights.Role, _ error) {
	var fields []fault.Field
	email, err := mail.Address(r.GetEmail())
	if err != nil {
		fields = append(fields, fault.Field{Name: "email", Problem: err.Error()})
	}
	if len(r.GetRoles()) == 0 {
		fields = append(fields, fault.Field{Name: "roles", Problem: "choose at least one, such as " + rights.FixedNames()})
	}
	if err := fault.InvalidFields(fields); err != nil {
		return "", nil, err
	}
	c := access.From(ctx)
	roles, err = kit.Read(ctx, s.Kit, func(tx *store.Tx) ([]rights.Role, error) {
		return rights.FindRoles(ctx, tx, c.TenantID, "roles", r.GetRoles())
	})
	if err != nil {
		return "", nil, err
	}
	return email, roles, principals.MayGive(c, rights.InTenant(roles), "the roles "+strings.Join(rights.Names(roles), ", "))
}

func (s *Service) invite(ctx context.Context, tx *store.Tx, i store.Invitation, roles []rights.Role, msg mail.Message) error {
	err := ratelimit.Count(ctx, tx, i.CreatedAt, ratelimit.Limit{
		Bucket: "invite.tenant:" + i.TenantID, Window: time.Hour, Max: s.InvitationsPerHour, What: "invitations from this tenant",
	})
	if err != nil {
		return err
	}
	if i.InvitedByID, err = inviter(ctx, tx); err != nil {
		return err
	}
	if err := refuseDeadLink(ctx, tx, i, roles); err != nil {
		return err
	}
	if err := notYetMember(ctx, tx, i); err != nil {
		return err
	}
	open, err := tx.ListInvitations(ctx, i.TenantID, store.Page{Limit: InvitationsMax})
	if err != nil {
		return err
	}
	if len(open) >= InvitationsMax {
		return store.CommitDespite(fault.New(fault.Exhausted, "INVITATION_LIMIT", "%d invitations are already open; revoke the ones that you no longer need", len(open)))
	}
	if err := plans.Another(ctx, tx, i.TenantID, i.CreatedAt, plans.Members, waiting(open, i)); err != nil {
		return err
	}
	if err := mail.Put(ctx, s.Kit, tx, i.TenantID, i.ID, msg); err != nil {
		return err
	}
	return change.Make(ctx, s.Kit, tx, "invitation.create", change.PutInvitation(i), change.Fields{"roles": {After: rights.Names(roles)}})
}

// refuseDeadLink refuses to send a link that would not open: the key of a service account may
// do more by now than whoever made it, and an invitation is good as far as its maker may invite.
func refuseDeadLink(ctx context.Context, tx *store.Tx, i store.Invitation, roles []rights.Role) error {
	c := access.From(ctx)
	if c.KeyID == "" {
		return nil // MayGive has looked at the user's own rights.
	}
	may, err := inviterMay(ctx, rights.NewReader(tx, i.TenantID), i, roles)
	if err != nil || may {
		return err
	}
	return fault.New(fault.Denied, "ABOVE_KEY_MAKER", "the member who created the key %s can't invite with the roles %s, so it can't either; use a key that somebody created who can",
		c.KeyID, strings.Join(rights.Names(roles), ", "))
}

// waiting counts the invitations that can be accepted beside a new one, which replaces that of
// the same address.
func waiting(open []store.Invitation, i store.Invitation) (n int) {
	for _, other := range open {
		if other.Email != i.Email && i.CreatedAt.Before(other.ExpiresAt) {
			n++
		}
	}
	return n
}

func notYetMember(ctx context.Context, tx *store.Tx, i store.Invitation) error {
	u, err := tx.GetUserByEmail(ctx, i.Email)
	if err == nil {
		_, err = tx.GetMembership(ctx, i.TenantID, u.ID)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return fault.New(fault.Exists, "ALREADY_MEMBER", "%s is already a member; change their role in the member list", i.Email)
}

// RevokeInvitation invalidates a link.
func (s *Service) RevokeInvitation(ctx context.Context, r *cloudv1.RevokeInvitationRequest) (*cloudv1.RevokeInvitationResponse, error) {
	return &cloudv1.RevokeInvitationResponse{}, s.Write(ctx, func(tx *store.Tx) error {
		i, err := tx.GetInvitation(ctx, access.From(ctx).TenantID, r.GetInvitationId())
		if errors.Is(err, store.ErrNotFound) {
			return fault.Missing("invitation")
		}
		if err != nil {
			return err
		}
		return change.Make(ctx, s.Kit, tx, "invitation.delete", change.DeleteInvitation(i), nil)
	})
}

// PreviewInvitation tells what a link asks. Whoever has the link may know: it is what the
// mail says, and whether signing in is needed.
func (s *Service) PreviewInvitation(ctx context.Context, r *cloudv1.PreviewInvitationRequest) (*cloudv1.PreviewInvitationResponse, error) {
	if r.GetToken() == "" {
		return nil, errNoToken
	}
	res := &cloudv1.PreviewInvitationResponse{}
	return res, s.Store.ReadService(ctx, func(tx *store.Tx) error {
		i, t, err := s.OpenInvitation(ctx, tx, seal.Digest(r.GetToken()))
		if err != nil {
			return err
		}
		_, err = tx.GetUserByEmail(ctx, i.Email)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		roles, roleErr := rolesOf(ctx, rights.NewReader(tx, i.TenantID), i.Roles)
		if roleErr != nil {
			return roleErr
		}
		res.Tenant, res.Email, res.Roles, res.InvitedBy = t.Name, i.Email, rights.Names(roles), i.InvitedBy
		res.ExpiresAt, res.HasAccount = timestamppb.New(i.ExpiresAt), err == nil
		return nil
	})
}

var errNoToken = fault.InvalidField("token", "use the token from the link in the email")

// AcceptInvitation makes a member of the invited user. The link proves that somebody read
// a mail, and not whose account that is: the inviter may have had it, or a colleague whom
// it was forwarded to. So it opens no account that is there. A new one it opens in the
// inviting tenant alone.
func (s *Service) AcceptInvitation(ctx context.Context, r *cloudv1.AcceptInvitationRequest) (*cloudv1.AcceptInvitationResponse, error) {
	name, err := displayName(r.GetName())
	if err != nil {
		return nil, err
	}
	if r.GetToken() == "" {
		return nil, errNoToken
	}
	var opened session.Opened
	res := &cloudv1.AcceptInvitationResponse{}
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		opened = session.Opened{}
		i, t, err := s.OpenInvitation(ctx, tx, seal.Digest(r.GetToken()))
		if err != nil {
			return err
		}
		res.Tenant = t.Name
		u, err := tx.GetUserByEmail(ctx, i.Email)
		switch {
		case errors.Is(err, store.ErrNotFound):
			if u, opened, err = s.newcomer(ctx, tx, t, i.Email, name); err != nil {
				return err
			}
			return s.Join(ctx, tx, t, u, i, opened.ID)
		case err != nil:
			return err
		}
		sessionID, err := s.sessionOf(ctx, tx, u)
		if err != nil {
			return err
		}
		return s.Join(ctx, tx, t, u, i, sessionID)
	})
	if err != nil {
		return nil, err
	}
	if opened.Token != "" {
		cookies.From(ctx).SetSession(opened.Token, opened.ExpiresAt)
	}
	return res, nil
}

// newcomer makes the user of an address that nobody has, and a session for the inviting
// tenant alone: the address's owner may come later, and have other tenants then.
func (s *Service) newcomer(ctx context.Context, tx *store.Tx, t store.Tenant, email, name string) (store.User, session.Opened, error) {
	now := s.Now()
	u := store.User{ID: s.IDs.New(ids.User, now), Email: email, Name: name, CreatedAt: now, SeenAt: now}
	err := tx.InsertUser(ctx, u)
	if errors.Is(err, store.ErrExists) {
		return u, session.Opened{}, fault.New(fault.Unavailable, "TRY_AGAIN", "%s is being signed up by another request; try again", email)
	}
	if err != nil {
		return u, session.Opened{}, err
	}
	opened, err := session.Open(ctx, tx, s.IDs, now, u.ID, t.ID, cookies.From(ctx).Came())
	return u, opened, err
}

// sessionOf gives the session with which the browser proves to be the user; one that is
// good in a single tenant does not.
func (s *Service) sessionOf(ctx context.Context, tx *store.Tx, u store.User) (id string, _ error) {
	found, err := session.Find(ctx, tx, cookies.From(ctx).Came(), s.Now())
	if err != nil && !errors.Is(err, session.ErrNone) {
		return "", err
	}
	if err == nil && found.UserID == u.ID && found.TenantID == "" {
		return found.ID, nil
	}
	return "", fault.New(fault.Denied, "SIGN_IN_FIRST",
		"%s already has an account; sign in as %[1]s, or request a sign-in link for that address, and then accept the invitation", u.Email)
}

// OpenInvitation gives an invitation that can be accepted and its tenant, or says why it
// cannot. Every way to accept one comes through here, in the transaction that accepts, so this
// is where it ends with the rights of whoever sent it, however they were lost.
func (s *Service) OpenInvitation(ctx context.Context, tx *store.Tx, digest string) (store.Invitation, store.Tenant, error) {
	i, err := tx.GetInvitationByDigest(ctx, digest)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return i, store.Tenant{}, s.unknownLink()
	case err != nil:
		return i, store.Tenant{}, err
	case !s.Now().Before(i.ExpiresAt):
		return i, store.Tenant{}, fault.New(fault.Conflict, "LINK_EXPIRED", "this invitation expired after %d days; ask %s for a new one", int(invitationLife.Hours()/24), cmp.Or(i.InvitedBy, "the person who invited you"))
	}
	if err := s.refuseWithdrawn(ctx, tx, i); err != nil {
		return i, store.Tenant{}, err
	}
	t, err := tx.GetTenant(ctx, i.TenantID)
	if err == nil { // Its link would be a way around single sign-on.
		err = policy.RefuseInvitation(ctx, tx, s.Kit, t)
	}
	return i, t, err
}

func (s *Service) refuseWithdrawn(ctx context.Context, tx *store.Tx, i store.Invitation) error {
	reader := rights.NewReader(tx, i.TenantID)
	roles, err := rolesOf(ctx, reader, i.Roles)
	if err != nil {
		return err
	}
	may, err := inviterMay(ctx, reader, i, roles)
	if err == nil && !may {
		err = s.unknownLink()
	}
	return err
}

func (s *Service) unknownLink() error {
	return fault.New(fault.NotFound, "LINK_UNKNOWN",
		"this invitation has already been accepted, was revoked, or was replaced by a newer email; if you accepted it, sign in at %s", s.URLs.Console("/signin"))
}

// Join makes a user a member, as an invitation says. Somebody who became one in another
// way meanwhile keeps their role.
func (s *Service) Join(ctx context.Context, tx *store.Tx, t store.Tenant, u store.User, i store.Invitation, sessionID string) error {
	c := access.From(ctx)
	c.TenantID, c.Tenant, c.UserID, c.KeyID, c.OwnerID, c.Name, c.SessionID = t.ID, t.Name, u.ID, "", "", u.Email, sessionID
	ctx = access.With(ctx, c)
	if err := tx.DeleteRemovals(ctx, i.TenantID, u.ID, u.Email); err != nil {
		return err
	}
	roles, err := rolesOf(ctx, rights.NewReader(tx, i.TenantID), i.Roles)
	if err != nil {
		return err
	}
	if err := s.roomFor(ctx, tx, i.TenantID, u.ID); err != nil {
		return err
	}
	m := store.Membership{TenantID: i.TenantID, UserID: u.ID, CreatedAt: s.Now(), Version: 1}
	given := principals.Bindings(s.Kit, c, i.TenantID, u.ID, "", roles, s.Now())
	err = change.Make(ctx, s.Kit, tx, "member.create", change.AcceptInvitation(i, m, u, given...),
		change.Fields{"roles": {After: rights.Names(roles)}, "invited_by": {After: i.InvitedBy}})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return s.unknownLink() // The same link is being accepted beside this call.
	case errors.Is(err, store.ErrExists):
		return change.Make(ctx, s.Kit, tx, "invitation.delete", change.UsedUpInvitation(i), change.Fields{"reason": {After: u.Email + " is already a member"}})
	}
	return err
}

// roomFor refuses a member more than the plan allows: it may allow fewer than when the
// invitation was sent.
func (s *Service) roomFor(ctx context.Context, tx *store.Tx, tenantID, userID string) error {
	_, err := tx.GetMembership(ctx, tenantID, userID)
	if errors.Is(err, store.ErrNotFound) {
		return plans.Another(ctx, tx, tenantID, s.Now(), plans.Members, 0)
	}
	return err
}

func displayName(text string) (string, error) {
	name := strings.TrimSpace(text)
	if utf8.RuneCountInString(name) > nameMax {
		return "", fault.InvalidField("name", "can't have more than %d characters", nameMax)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
		return "", fault.InvalidField("name", "can't contain control characters")
	}
	return name, nil
}

func invitationMessage(i store.Invitation, roles []string) *cloudv1.Invitation {
	return &cloudv1.Invitation{
		Id: i.ID, Email: i.Email, Roles: roles, InvitedBy: i.InvitedBy,
		CreatedAt: timestamppb.New(i.CreatedAt), ExpiresAt: timestamppb.New(i.ExpiresAt),
	}
}

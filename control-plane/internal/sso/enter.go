package sso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/members"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// noRole is for a person whom the provider knows and who has no role here.
func noRole() *problem {
	return refused(nil, "you're signed in at your identity provider, but none of your groups has a role here. Ask your administrator to add you to a mapped group, or to set a default role for single sign-on")
}

// roleOf is a person's role by their groups; unspecified means no access.
func roleOf(c store.Connection, groups []string) cloudv1.TenantRole {
	in := make(map[string]bool, len(groups))
	for _, g := range groups {
		in[g] = true
	}
	for _, m := range c.GroupMappings {
		if in[m.Group] {
			return m.Role
		}
	}
	return c.DefaultRole
}

// enter makes or finds the user, brings the role up to date and opens a session.
func (s *Service) enter(ctx context.Context, w http.ResponseWriter, r *http.Request, f flow, who person) error {
	var opened session.Opened
	var refusal *problem
	err := s.Store.Service(ctx, func(tx *store.Tx) error {
		refusal = nil
		conn, err := tx.GetConnection(ctx, f.TenantID, f.ConnectionID)
		if errors.Is(err, store.ErrNotFound) || err == nil && changedSince(conn, f) {
			refusal = stale("Single sign-on was changed while you were signing in. Sign in again.")
			return nil
		}
		if err != nil {
			return err
		}
		opened, refusal, err = s.admit(ctx, tx, conn, f, who, s.policy.Session(r.Header))
		return err
	})
	s.Wake()
	switch {
	case err != nil:
		return fmt.Errorf("enter by single sign-on: %w", err)
	case refusal != nil:
		return refusal
	}
	s.policy.SetSession(w.Header(), opened.Token, opened.ExpiresAt)
	return nil
}

func (s *Service) admit(ctx context.Context, tx *store.Tx, conn store.Connection, f flow, who person, came string) (session.Opened, *problem, error) {
	now := s.Now()
	role := roleOf(conn, who.groups)
	gone, err := s.removedPerson(ctx, tx, conn, who)
	if err != nil {
		return session.Opened{}, nil, err
	}
	if gone {
		return session.Opened{}, wasRemoved(f.Tenant), nil
	}
	u, known, err := s.user(ctx, tx, conn, who, role)
	if err != nil || !known && role == cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED {
		return session.Opened{}, noRoleUnless(err), err
	}
	c := access.From(ctx)
	c.TenantID, c.Tenant, c.UserID, c.KeyID, c.Name, c.OnlyTenantID, c.BySSO = f.TenantID, f.Tenant, u.ID, "", label(who), f.TenantID, true
	ctx = access.With(ctx, c)
	if admitted, err := s.bringUpToDate(ctx, tx, conn, u, role); err != nil || !admitted {
		return session.Opened{}, noRoleUnless(err), err
	}
	opened, err := session.Open(ctx, tx, s.IDs, now, u.ID, f.TenantID, came)
	if err != nil {
		return opened, nil, err
	}
	c.SessionID = opened.ID
	target := change.Target{Type: "session", ID: opened.ID, Name: label(who), TenantID: f.TenantID}
	return opened, nil, change.Make(access.With(ctx, c), s.Kit, tx, "session.create", change.Only(target), nil)
}

func noRoleUnless(err error) *problem {
	if err != nil {
		return nil
	}
	return noRole()
}

// label names a person in the audit log.
func label(who person) string {
	if who.email != "" {
		return who.email
	}
	return who.subject
}

// user finds the user of (connection, issuer, subject), or makes one, unless there is no
// role for them. Users with the same address are other people.
func (s *Service) user(ctx context.Context, tx *store.Tx, conn store.Connection, who person, role cloudv1.TenantRole) (u store.User, known bool, _ error) {
	now := s.Now()
	id, err := tx.GetIdentity(ctx, conn.TenantID, conn.ID, conn.Issuer, who.subject)
	if err == nil {
		if u, err = tx.GetUser(ctx, id.UserID); err != nil {
			return u, false, err
		}
		if u.HomeTenant != conn.TenantID {
			return u, false, fmt.Errorf("identity of user %s is in tenant %s, but the user isn't", u.ID, conn.TenantID)
		}
		u.Email, u.Name, u.SeenAt = who.email, who.name, now
		return u, true, tx.UpdateUser(ctx, u)
	}
	if !errors.Is(err, store.ErrNotFound) || role == cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED {
		return u, false, ignoreMissing(err)
	}
	u = store.User{ID: s.IDs.New(ids.User, now), Email: who.email, Name: who.name, HomeTenant: conn.TenantID, CreatedAt: now, SeenAt: now}
	if err := tx.InsertUser(ctx, u); err != nil {
		return u, false, err
	}
	err = tx.InsertIdentity(ctx, store.Identity{
		TenantID: conn.TenantID, ConnectionID: conn.ID, Issuer: conn.Issuer, Subject: who.subject, UserID: u.ID, CreatedAt: now,
	})
	if errors.Is(err, store.ErrExists) { // The same person signs in twice at this moment.
		return u, false, stale("You're signing in twice at the same time. Sign in again.")
	}
	return u, true, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// bringUpToDate sets the membership to what the provider's groups say now. It returns
// false if there is none any more.
func (s *Service) bringUpToDate(ctx context.Context, tx *store.Tx, conn store.Connection, u store.User, role cloudv1.TenantRole) (bool, error) {
	m, err := tx.GetMembership(ctx, conn.TenantID, u.ID)
	if errors.Is(err, store.ErrNotFound) {
		if role == cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED {
			return false, nil
		}
		m = store.Membership{TenantID: conn.TenantID, UserID: u.ID, Role: role, ConnectionID: conn.ID, CreatedAt: s.Now(), Version: 1}
		return true, change.Make(ctx, s.Kit, tx, "member.create", change.InsertMember(m, u), change.Fields{"role": {After: access.RoleName(role)}})
	}
	if err != nil || m.Role == role {
		return err == nil, err
	}
	if err := members.CheckLastOwner(ctx, tx, m, role); err != nil {
		if _, ok := fault.As(err); !ok {
			return false, err
		}
		// Without an owner, nobody could repair the tenant.
		s.Log.WarnContext(ctx, "the last owner keeps the role, although the provider's groups no longer give it", "tenant", m.TenantID, "user", m.UserID, "connection", conn.ID)
		return true, nil
	}
	// There is nobody to ask which keys to keep, so none are.
	if role == cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED {
		_, err := members.Remove(ctx, s.Kit, tx, m, u, members.Keep{})
		return false, err
	}
	_, err = members.SetRole(ctx, s.Kit, tx, &m, u, role, members.Keep{})
	return true, err
}

// removedPerson is checked before a user is made.
func (s *Service) removedPerson(ctx context.Context, tx *store.Tx, conn store.Connection, who person) (bool, error) {
	id, err := tx.GetIdentity(ctx, conn.TenantID, conn.ID, conn.Issuer, who.subject)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	return s.removed(ctx, tx, conn, id.UserID, who.email)
}

// removed reports whether this person was removed from the tenant, as this user or
// another with the same address, and not invited since.
func (s *Service) removed(ctx context.Context, tx *store.Tx, conn store.Connection, userID, email string) (bool, error) {
	gone, err := tx.IsRemoved(ctx, conn.TenantID, userID, email)
	if err != nil || !gone {
		return false, err
	}
	open, err := tx.ListInvitations(ctx, conn.TenantID, store.Page{Limit: members.InvitationsMax})
	if err != nil {
		return true, err
	}
	for _, i := range open {
		if email != "" && i.Email == email && s.Now().Before(i.ExpiresAt) {
			return false, tx.DeleteRemovals(ctx, conn.TenantID, userID, email)
		}
	}
	return true, nil
}

func wasRemoved(tenant string) *problem {
	return refused(nil, "you were removed from %s; to come back, ask an owner or admin to invite you", tenant)
}

// finishTrial stores the result of a trial, and shows it.
func (s *Service) finishTrial(w http.ResponseWriter, r *http.Request, conn store.Connection, who person, err error) {
	if conn.ID == "" {
		s.fail(w, r, err, true, "")
		return
	}
	t := trial{Subject: who.subject, Email: who.email, Groups: who.groups, Role: roleOf(conn, who.groups), Claims: who.claims}
	if err == nil && t.Role == cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED {
		err = nobodyGetsIn(conn, who)
		if !who.hasGroups {
			t.MissingClaim = conn.GroupsClaim
		}
	} else if err != nil {
		t = trial{}
	}
	if err != nil {
		t.Problem = trialText(err)
	}
	t.Succeeded = err == nil
	s.note(r.Context(), conn, t)
	if err != nil {
		s.fail(w, r, err, true, "")
		return
	}
	s.showTrial(w, r, conn, t)
}

// nobodyGetsIn fails a trial that went well at the provider and gives nobody a role: it
// says which claim was missing, or what stood in it.
func nobodyGetsIn(conn store.Connection, who person) *problem {
	if !who.hasGroups {
		return refused(nil, "the sign-in works, but it gives nobody a role: the provider sent no claim %q, and there is no default role. It sent: %s. "+
			"Have the provider add the claim to the ID token or userinfo, use the name of another claim, or set a default role", conn.GroupsClaim, listed(who.claims))
	}
	return refused(nil, "the sign-in works, but it gives you no role: the claim %q contains %s, none of these groups is mapped, and there is no default role. "+
		"Map one of these groups, or set a default role", conn.GroupsClaim, listed(who.groups))
}

// listed writes some names that a provider chose.
func listed(names []string) string {
	const shown = 20
	if len(names) == 0 {
		return "nothing"
	}
	text := strings.Join(names[:min(shown, len(names))], ", ")
	if len(names) > shown {
		text += ", …"
	}
	return clip(text)
}

// trialText adds what the provider said to what we say of it: whoever tries a connection
// manages it.
func trialText(err error) string {
	p := problemOf(err)
	if p.said == "" {
		return p.text
	}
	return p.text + " (" + p.said + ")"
}

const trialGroupsMax = 100

// note keeps a trial's result if the settings are still those that were tried.
func (s *Service) note(ctx context.Context, conn store.Connection, t trial) {
	t.At, t.Settings = s.Now(), conn.Settings
	t.Groups = t.Groups[:min(len(t.Groups), trialGroupsMax)]
	text, err := json.Marshal(t)
	if err == nil {
		err = s.Store.Tenant(context.WithoutCancel(ctx), conn.TenantID, func(tx *store.Tx) error {
			now, err := tx.GetConnection(ctx, conn.TenantID, conn.ID)
			if err != nil {
				return err
			}
			tried, err := next(now)
			if err != nil || tried.Settings != conn.Settings {
				return err
			}
			tried.LastTest = string(text)
			if t.Succeeded {
				tried.Tested = tried.Settings
			}
			if now.Staged != "" {
				if err := stage(now, &tried); err != nil {
					return err
				}
			}
			return tx.UpdateConnection(ctx, &tried)
		})
	}
	if err != nil {
		s.Log.ErrorContext(ctx, "record the result of a test sign-in", "connection", conn.ID, "error", err)
	}
}

package sso

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/members"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// noRole is for a person whom the provider knows and who has no role here.
func noRole() *problem {
	return refused(nil, "you're signed in at your identity provider, but none of your groups has a role here. Ask your administrator to add you to a mapped group, or to set a default role for single sign-on")
}

// roleOf is the id of a person's role by their groups; empty means no access.
func roleOf(c store.Connection, groups []string) string {
	in := make(map[string]bool, len(groups))
	for _, g := range groups {
		in[g] = true
	}
	for _, m := range c.GroupMappings {
		if in[m.Group] {
			return string(m.Role)
		}
	}
	return c.DefaultRole
}

// enter makes or finds the user, brings the role up to date and opens a session.
func (s *Service) enter(ctx context.Context, w http.ResponseWriter, r *http.Request, f flow, who person) error {
	var opened session.Opened
	err := s.Store.Service(ctx, func(tx *store.Tx) error {
		conn, err := tx.GetConnection(ctx, f.TenantID, f.ConnectionID)
		if errors.Is(err, store.ErrNotFound) || err == nil && changedSince(conn, f) {
			return stale("Single sign-on was changed while you were signing in. Sign in again.")
		}
		if err != nil {
			return err
		}
		opened, err = s.admit(ctx, tx, conn, f, who, s.policy.Session(r.Header))
		return err
	})
	s.Wake()
	if err != nil {
		return fmt.Errorf("enter by single sign-on: %w", err)
	}
	s.policy.SetSession(w.Header(), opened.Token, opened.ExpiresAt)
	return nil
}

func (s *Service) admit(ctx context.Context, tx *store.Tx, conn store.Connection, f flow, who person, came string) (opened session.Opened, err error) {
	roleID := roleOf(conn, who.groups)
	if err := s.checkRemoved(ctx, tx, conn, f.Tenant, who); err != nil {
		return opened, err
	}
	_, managed, err := s.managed(ctx, tx, conn, who)
	if err != nil {
		return opened, err
	}
	u, err := s.user(ctx, tx, conn, who, roleID, managed)
	if err != nil {
		return opened, err
	}
	c := access.From(ctx)
	c.TenantID, c.Tenant, c.UserID, c.KeyID, c.OwnerID, c.Name, c.OnlyTenantID, c.BySSO = f.TenantID, f.Tenant, u.ID, "", "", label(who), f.TenantID, true
	ctx = access.With(ctx, c)
	if err := s.bringUpToDate(ctx, tx, conn, u, roleID, managed); err != nil {
		return opened, err
	}
	if opened, err = session.Open(ctx, tx, s.IDs, s.Now(), u.ID, f.TenantID, came); err != nil {
		return opened, err
	}
	c.SessionID = opened.ID
	target := change.Target{Type: "session", ID: opened.ID, Name: label(who), TenantID: f.TenantID}
	return opened, change.Make(access.With(ctx, c), s.Kit, tx, "session.create", change.AuditOnly(target), nil)
}

// label names a person in the audit log.
func label(who person) string { return cmp.Or(who.email, who.subject) }

// user finds the user of (connection, issuer, subject), or makes one, unless there is no
// role for them. Users with the same address are other people.
func (s *Service) user(ctx context.Context, tx *store.Tx, conn store.Connection, who person, roleID string, managed bool) (u store.User, _ error) {
	now := s.Now()
	id, err := tx.GetIdentity(ctx, conn.TenantID, conn.ID, conn.Issuer, who.subject)
	if err == nil {
		return s.again(ctx, tx, id, who, managed)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return u, err
	}
	if roleID == "" {
		return u, store.CommitDespite(noRole())
	}
	u = store.User{ID: s.IDs.New(ids.User, now), Email: who.email, Name: who.name, HomeTenant: conn.TenantID, CreatedAt: now, SeenAt: now}
	if err := tx.InsertUser(ctx, u); err != nil {
		return u, err
	}
	err = s.tie(ctx, tx, conn, who, u.ID)
	if errors.Is(err, store.ErrExists) { // The same person signs in twice at this moment.
		return u, stale("You're signing in twice at the same time. Sign in again.")
	}
	return u, err
}

// again writes what the provider says now of somebody who signed in before. What the directory
// says of a user who is managed by it, the provider doesn't change.
func (s *Service) again(ctx context.Context, tx *store.Tx, id store.Identity, who person, managed bool) (u store.User, _ error) {
	u, err := tx.GetUser(ctx, id.UserID)
	if err != nil {
		return u, err
	}
	if u.HomeTenant != id.TenantID {
		return u, fmt.Errorf("identity of user %s is in tenant %s, but the user isn't", u.ID, id.TenantID)
	}
	id.VouchedEmail = who.vouched()
	if err := tx.UpdateIdentity(ctx, id); err != nil {
		return u, err
	}
	u.SeenAt = s.Now()
	if !managed {
		u.Email, u.Name = who.email, who.name
	}
	return u, tx.UpdateUser(ctx, u)
}

// bringUpToDate sets the membership to what the provider's groups say now. If there is none
// any more, that is kept, and the person is refused, unless a directory manages them: then
// their roles may come from its groups.
func (s *Service) bringUpToDate(ctx context.Context, tx *store.Tx, conn store.Connection, u store.User, roleID string, managed bool) error {
	role, err := rights.NewReader(tx, conn.TenantID).Role(ctx, roleID)
	if err != nil {
		return err
	}
	m, err := tx.GetMembership(ctx, conn.TenantID, u.ID)
	if errors.Is(err, store.ErrNotFound) {
		if roleID == "" {
			return store.CommitDespite(noRole())
		}
		if err := roomFor(ctx, tx, conn.TenantID, s.Now()); err != nil {
			return err
		}
		m = store.Membership{TenantID: conn.TenantID, UserID: u.ID, ConnectionID: conn.ID, CreatedAt: s.Now(), Version: 1}
		given := principals.Bindings(s.Kit, access.From(ctx), conn.TenantID, u.ID, conn.ID, []rights.Role{role}, s.Now())
		return change.Make(ctx, s.Kit, tx, "member.create", change.InsertMember(m, u, given...), change.Fields{"roles": {After: []string{role.Name}}})
	}
	if err != nil {
		return err
	}
	switch {
	case roleID == "" && managed:
		err = members.SetRoles(ctx, s.Kit, tx, &m, u, nil, conn.ID)
	case roleID == "": // There is nobody to ask about keys of service accounts, so they stay.
		_, err = members.Remove(ctx, s.Kit, tx, m, u, nil)
	default:
		err = members.SetRoles(ctx, s.Kit, tx, &m, u, []rights.Role{role}, conn.ID)
	}
	if f, ok := fault.As(err); ok && f.Reason == "LAST_OWNER" {
		// Without an owner, nobody could repair the tenant.
		s.Log.WarnContext(ctx, "the last owner keeps the role, although the provider's groups no longer give it", "tenant", m.TenantID, "user", m.UserID, "connection", conn.ID)
		return nil
	}
	if err == nil && roleID == "" && !managed {
		return store.CommitDespite(noRole())
	}
	return err
}

// roomFor refuses, in words for who signs in, a member more than the tenant's plan allows.
func roomFor(ctx context.Context, tx *store.Tx, tenantID string, now time.Time) error {
	err := plans.Another(ctx, tx, tenantID, now, plans.Members, 0)
	if f, ok := fault.As(err); ok {
		return refused(err, "you can't join: %s. Ask an owner or admin", f.Message)
	}
	return err
}

// checkRemoved refuses, before a user is made, a person who was removed from the tenant, as
// this user or another with the same address, and not invited since. An invitation is for
// whoever has the address, so it counts only for one that the provider vouches for.
func (s *Service) checkRemoved(ctx context.Context, tx *store.Tx, conn store.Connection, tenant string, who person) error {
	id, err := tx.GetIdentity(ctx, conn.TenantID, conn.ID, conn.Issuer, who.subject)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	gone, err := tx.IsRemoved(ctx, conn.TenantID, id.UserID, who.email)
	if err != nil || !gone {
		return err
	}
	open, err := tx.ListInvitations(ctx, conn.TenantID, store.Page{Limit: members.InvitationsMax})
	if err != nil {
		return err
	}
	for _, i := range open {
		if vouched := who.vouched(); vouched != "" && i.Email == vouched && s.Now().Before(i.ExpiresAt) {
			return tx.DeleteRemovals(ctx, conn.TenantID, id.UserID, who.email)
		}
	}
	return wasRemoved(tenant, who)
}

// wasRemoved says what it takes to come back, and nothing of who is invited.
func wasRemoved(tenant string, who person) *problem {
	const how = "you were removed from %s; to come back, ask an owner or admin to invite you"
	if who.unverified {
		return refused(nil, how+". Your identity provider must also say that it has verified your email address (email_verified)", tenant)
	}
	return refused(nil, how, tenant)
}

// finishTrial stores the result of a trial, and shows it.
func (s *Service) finishTrial(w http.ResponseWriter, r *http.Request, conn store.Connection, who person, err error) {
	if conn.ID == "" {
		s.fail(w, r, err, true, "")
		return
	}
	t := trial{Subject: who.subject, Email: who.email, Groups: who.groups, Role: store.RoleID(roleOf(conn, who.groups)), Claims: who.claims}
	if err == nil && t.Role == "" {
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
	if !who.hasGroups && isSAML(conn) {
		return refused(nil, "the sign-in works, but it gives nobody a role: the provider sent no attribute %q, and there is no default role. It sent: %s. "+
			"Have the provider send the attribute, use the name of another attribute, or set a default role", conn.GroupsClaim, listed(who.claims))
	}
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
				tried.SharedRedirect = false // The provider knows the tenant's own.
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

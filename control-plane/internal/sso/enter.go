package sso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/members"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// noRole is who is known to the provider and nobody here.
func noRole() *problem {
	return refused(nil, "your company's provider knows you, but none of your groups gives you a role here. Ask your administrator to add you to one, or to set a default role for single sign-on")
}

// roleOf is what a person becomes; unspecified: no entry.
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
	err := s.Store.Service(ctx, func(tx store.Tx) error {
		refusal = nil
		conn, err := tx.GetConnection(ctx, f.TenantID, f.ConnectionID)
		if errors.Is(err, store.ErrNotFound) || err == nil && changedSince(conn, f) {
			refusal = stale("Single sign-on was changed while you were at the provider. Start again.")
			return nil
		}
		if err != nil {
			return err
		}
		opened, refusal, err = s.admit(ctx, tx, conn, f, who, s.policy.Session(r.Header))
		return err
	})
	s.Woken()
	switch {
	case err != nil:
		return fmt.Errorf("enter by single sign-on: %w", err)
	case refusal != nil:
		return refusal
	}
	s.policy.SetSession(w.Header(), opened.Token, opened.ExpiresAt)
	return nil
}

func (s *Service) admit(ctx context.Context, tx store.Tx, conn store.Connection, f flow, who person, came string) (session.Opened, *problem, error) {
	now := s.Now()
	role := roleOf(conn, who.groups)
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
	target := audit.Target{Type: "session", ID: opened.ID, Name: label(who)}
	return opened, nil, audit.Record(access.With(ctx, c), tx, s.IDs, now, "session.create", target, nil)
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
// role for them. Users of the same address are other people.
func (s *Service) user(ctx context.Context, tx store.Tx, conn store.Connection, who person, role cloudv1.TenantRole) (u store.User, known bool, _ error) {
	now := s.Now()
	id, err := tx.GetIdentity(ctx, conn.TenantID, conn.ID, conn.Issuer, who.subject)
	if err == nil {
		if u, err = tx.GetUser(ctx, id.UserID); err != nil {
			return u, false, err
		}
		if u.HomeTenant != conn.TenantID {
			return u, false, fmt.Errorf("identity of user %s stands in tenant %s, whose user it is not", u.ID, conn.TenantID)
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
		return u, false, stale("You are signing in twice at the same time. Start again.")
	}
	return u, true, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// bringUpToDate makes the membership what the provider's groups say today. False: there
// is none any more.
func (s *Service) bringUpToDate(ctx context.Context, tx store.Tx, conn store.Connection, u store.User, role cloudv1.TenantRole) (bool, error) {
	now := s.Now()
	m, err := tx.GetMembership(ctx, conn.TenantID, u.ID)
	if errors.Is(err, store.ErrNotFound) {
		if role == cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED {
			return false, nil
		}
		m = store.Membership{TenantID: conn.TenantID, UserID: u.ID, Role: role, ConnectionID: conn.ID, CreatedAt: now, Version: 1}
		if err := tx.InsertMembership(ctx, m); err != nil {
			return false, err
		}
		return true, audit.Record(ctx, tx, s.IDs, now, "member.create", members.Target(u), audit.Changes{"role": {After: roleName(role)}})
	}
	if err != nil || m.Role == role {
		return err == nil, err
	}
	if err := members.CheckLastOwner(ctx, tx, m, role); err != nil {
		if _, ok := fault.As(err); !ok {
			return false, err
		}
		// A tenant without an owner could be helped by nobody.
		s.Log.WarnContext(ctx, "the last owner keeps a role that the provider's groups no longer give", "tenant", m.TenantID, "user", m.UserID, "connection", conn.ID)
		return true, nil
	}
	if role == cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED {
		return false, members.Remove(ctx, tx, s.IDs, now, m, u)
	}
	before := m.Role
	m.Role = role
	if err := tx.UpdateMembership(ctx, &m); err != nil {
		return false, err
	}
	if err := members.CutOff(ctx, tx, s.IDs, now, m.TenantID, m.UserID); err != nil {
		return false, err
	}
	if err := members.Withdraw(ctx, tx, s.IDs, now, m, u, role); err != nil {
		return false, err
	}
	return true, audit.Record(ctx, tx, s.IDs, now, "member.update", members.Target(u),
		audit.Changes{"role": {Before: roleName(before), After: roleName(role)}})
}

// finishTrial writes down what a trial found, and shows it.
func (s *Service) finishTrial(w http.ResponseWriter, r *http.Request, conn store.Connection, who person, err error) {
	if conn.ID == "" {
		s.fail(w, r, err, true, "")
		return
	}
	t := trial{Subject: who.subject, Email: who.email, Groups: who.groups, Role: roleOf(conn, who.groups)}
	if err != nil {
		t = trial{Problem: trialText(err)}
	}
	t.Succeeded = err == nil
	s.note(r.Context(), conn, t)
	if err != nil {
		s.fail(w, r, err, true, "")
		return
	}
	s.showTrial(w, r, conn, t)
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
		err = s.Store.Tenant(context.WithoutCancel(ctx), conn.TenantID, func(tx store.Tx) error {
			now, err := tx.GetConnection(ctx, conn.TenantID, conn.ID)
			if err != nil || now.Settings != conn.Settings {
				return err
			}
			now.LastTest = string(text)
			if t.Succeeded {
				now.Tested = now.Settings
			}
			return tx.UpdateConnection(ctx, &now)
		})
	}
	if err != nil {
		s.Log.ErrorContext(ctx, "note the result of a trial sign-in", "connection", conn.ID, "error", err)
	}
}

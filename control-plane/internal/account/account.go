package account

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/members"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Service is the use cases of a person's own account.
type Service struct{ kit.Kit }

// New makes a Service.
func New(k kit.Kit) *Service { return &Service{Kit: k} }

// person refuses keys, which have no account.
func person(ctx context.Context) (access.Caller, error) {
	c := access.From(ctx)
	if !c.SignedIn() {
		return c, fault.New(fault.Invalid, "NO_SESSION", "this is about a person's account, and a key has none; sign in instead")
	}
	return c, nil
}

// own lists the caller's sessions that count, as far as the calling one reaches.
func (s *Service) own(ctx context.Context, tx *store.Tx, c access.Caller) ([]store.Session, error) {
	all, err := tx.ListSessionsOfUser(ctx, c.UserID, c.OnlyTenantID)
	now := s.Now()
	return slices.DeleteFunc(all, func(v store.Session) bool { return v.Pending != "" || session.Ended(v, now) }), err
}

// ListSessions lists where the caller is signed in.
func (s *Service) ListSessions(ctx context.Context, _ *cloudv1.ListSessionsRequest) (*cloudv1.ListSessionsResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	res := &cloudv1.ListSessionsResponse{}
	return res, s.Store.ReadService(ctx, func(tx *store.Tx) error {
		all, err := s.own(ctx, tx, c)
		if err != nil {
			return err
		}
		access, err := tx.ListAccess(ctx, c.UserID)
		if err != nil {
			return err
		}
		for _, v := range all {
			res.Sessions = append(res.Sessions, message(v, c, access))
		}
		return nil
	})
}

func message(v store.Session, c access.Caller, own []store.Access) *cloudv1.Session {
	m := &cloudv1.Session{
		Id: v.ID, Kind: cloudv1.SessionKind_SESSION_KIND_BROWSER, ClientName: v.Client, UserAgent: v.UserAgent, Ip: v.Peer,
		CreatedAt: timestamppb.New(v.CreatedAt), LastSeenAt: timestamppb.New(v.SeenAt), ExpiresAt: timestamppb.New(v.ExpiresAt),
		Current: v.ID == c.SessionID,
	}
	switch {
	case v.Kind == store.SessionCLI:
		m.Kind = cloudv1.SessionKind_SESSION_KIND_CLI
	case c.BySSO: // A user of a provider has no other way to sign in.
		m.Kind = cloudv1.SessionKind_SESSION_KIND_SSO
	}
	for _, a := range own {
		if a.Tenant.ID == v.TenantID {
			m.Tenant = a.Tenant.Name
		}
	}
	return m
}

// RevokeSession ends a session of the caller's.
func (s *Service) RevokeSession(ctx context.Context, r *cloudv1.RevokeSessionRequest) (*cloudv1.RevokeSessionResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		all, err := s.own(ctx, tx, c)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(v store.Session) bool { return v.ID == r.GetSessionId() })
		if i < 0 {
			return fault.Missing("session")
		}
		return s.end(ctx, tx, c, all[i])
	})
	if err != nil {
		return nil, err
	}
	s.Wake()
	if r.GetSessionId() == c.SessionID && !c.ByCLI {
		cookies.From(ctx).SetSession("", s.Now())
	}
	return &cloudv1.RevokeSessionResponse{}, nil
}

// RevokeOtherSessions ends all of the caller's sessions but the calling one.
func (s *Service) RevokeOtherSessions(ctx context.Context, _ *cloudv1.RevokeOtherSessionsRequest) (*cloudv1.RevokeOtherSessionsResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	res := &cloudv1.RevokeOtherSessionsResponse{}
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		res.SessionsEnded = 0
		all, err := s.own(ctx, tx, c)
		if err != nil {
			return err
		}
		others := slices.DeleteFunc(all, func(v store.Session) bool { return v.ID == c.SessionID })
		res.SessionsEnded = int32(len(others))
		return s.end(ctx, tx, c, others...)
	})
	if err == nil {
		s.Wake()
	}
	return res, err
}

// end deletes sessions, and cuts off the tokens for jobs made so far, since nobody knows
// in which session each was made. The caller's own browser gets a new one by itself.
func (s *Service) end(ctx context.Context, tx *store.Tx, c access.Caller, ended ...store.Session) error {
	if len(ended) == 0 {
		return nil
	}
	for _, v := range ended {
		if err := tx.DeleteSession(ctx, v.Digest); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	own, err := tx.ListAccess(ctx, c.UserID)
	if err != nil {
		return err
	}
	for _, a := range own {
		cut := false
		for _, v := range ended {
			if v.TenantID != "" && v.TenantID != a.Tenant.ID {
				continue
			}
			r := change.AuditOnly(change.Target{Type: "session", ID: v.ID, Name: c.Name, TenantID: a.Tenant.ID})
			if !cut {
				r, cut = r.CutOff(c.UserID), true
			}
			if err := change.Make(ctx, s.Kit, tx, "session.end", r, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// LeaveTenant ends the caller's membership. It leaves no removal: whoever goes by
// themselves may come back the way they came.
func (s *Service) LeaveTenant(ctx context.Context, r *cloudv1.LeaveTenantRequest) (*cloudv1.LeaveTenantResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	res := &cloudv1.LeaveTenantResponse{}
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		own, err := tx.ListAccess(ctx, c.UserID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(own, func(a store.Access) bool {
			return (a.Tenant.ID == r.GetTenant() || a.Tenant.Name == r.GetTenant()) && (c.OnlyTenantID == "" || c.OnlyTenantID == a.Tenant.ID)
		})
		if i < 0 {
			return fault.Missing("tenant")
		}
		c.TenantID, c.Tenant = own[i].Tenant.ID, own[i].Tenant.Name
		res.RevokedKeys, err = s.leave(access.With(ctx, c), tx, own[i].Membership)
		return err
	})
	if err == nil {
		s.Wake()
	}
	return res, err
}

func (s *Service) leave(ctx context.Context, tx *store.Tx, m store.Membership) (revoked []string, _ error) {
	u, err := tx.GetUser(ctx, m.UserID)
	if err != nil {
		return nil, err
	}
	return members.Remove(ctx, s.Kit, tx, m, u, nil)
}

package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/flood"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/urls"
)

const (
	// life of a link.
	life = 15 * time.Minute

	purpose     = "login"
	tokenPrefix = "corvo_login_"
	// confirmPath is a page of the console that calls FinishLogin with the token.
	confirmPath = "/signin/confirm"
	signupPath  = "/signup"
)

// Limits are how many links are mailed; 0: no limit.
type Limits struct {
	EmailPerHour    int
	PeerPerHour     int
	GlobalPerMinute int
}

// DefaultLimits stop a mail flood.
func DefaultLimits() Limits { return Limits{EmailPerHour: 10, PeerPerHour: 60, GlobalPerMinute: 600} }

// Needs are what a Service is built of.
type Needs struct {
	Store  store.Store
	IDs    *ids.Maker
	Now    func() time.Time
	Log    *slog.Logger
	Seal   *seal.Box
	URLs   urls.URLs
	Limits Limits
	// Woken is called after a commit that left work for the background loops.
	Woken func()
}

// Service is the use cases of signing in and out.
type Service struct{ Needs }

// New makes a Service.
func New(n Needs) *Service { return &Service{Needs: n} }

// StartLogin mails a link, if the address is somebody's.
func (s *Service) StartLogin(ctx context.Context, r *cloudv1.StartLoginRequest) (*cloudv1.StartLoginResponse, error) {
	email, err := mail.Address(r.GetEmail())
	if err != nil {
		return nil, fault.InvalidField("email", "%s", err)
	}
	now := s.Now()
	var refusal *fault.Error
	err = s.Store.Service(ctx, func(tx store.Tx) (err error) {
		if refusal, err = flood.Count(ctx, tx, now, s.limits(ctx, email)...); err != nil || refusal != nil {
			return err
		}
		return s.mailLink(ctx, tx, email, now)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("start login: %w", err)
	case refusal != nil:
		return nil, refusal
	}
	s.Woken()
	return &cloudv1.StartLoginResponse{ExpiresAt: timestamppb.New(now.Add(life))}, nil
}

func (s *Service) limits(ctx context.Context, email string) []flood.Limit {
	return []flood.Limit{
		{Bucket: "login.peer:" + flood.Peer(access.From(ctx).Peer), Window: time.Hour, Max: s.Limits.PeerPerHour, What: "sign-in mails from your network"},
		{Bucket: "login.email:" + email, Window: time.Hour, Max: s.Limits.EmailPerHour, What: "sign-in mails for this address"},
		{Bucket: "login.all", Window: time.Minute, Max: s.Limits.GlobalPerMinute, What: "sign-ins at the moment"},
	}
}

// mailLink writes the same rows for known and unknown addresses: a token (one that
// nobody was told, and that names nobody, for the unknown) and a letter.
func (s *Service) mailLink(ctx context.Context, tx store.Tx, email string, now time.Time) error {
	u, err := tx.GetUserByEmail(ctx, email)
	known := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	token, err := s.newLink(ctx, tx, u.ID, now)
	if err != nil {
		return err
	}
	letter, err := mail.NoAccount(email, s.URLs.Console(signupPath), life, now)
	if known {
		letter, err = mail.Login(email, s.URLs.Link(confirmPath, token), life, now)
	}
	if err != nil {
		return err
	}
	return mail.Put(ctx, tx, s.Seal, s.IDs, now, "", u.ID, letter)
}

func (s *Service) newLink(ctx context.Context, tx store.Tx, userID string, now time.Time) (token string, _ error) {
	token, digest := seal.NewToken(tokenPrefix)
	err := tx.InsertToken(ctx, store.Token{Digest: digest, Purpose: purpose, Subject: userID, CreatedAt: now, ExpiresAt: now.Add(life)})
	return token, err
}

// SignInLink makes a link for the owner of an address without mailing it: for the
// operator's terminal.
func (s *Service) SignInLink(ctx context.Context, email string) (string, error) {
	email, err := mail.Address(email)
	if err != nil {
		return "", fault.InvalidField("email", "%s", err)
	}
	var token string
	err = s.Store.Service(ctx, func(tx store.Tx) error {
		u, err := tx.GetUserByEmail(ctx, email)
		if err != nil {
			return err
		}
		token, err = s.newLink(ctx, tx, u.ID, s.Now())
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make a sign-in link for %s: %w", email, err)
	}
	return s.URLs.Link(confirmPath, token), nil
}

// FinishLogin trades a link's token for a session.
func (s *Service) FinishLogin(ctx context.Context, r *cloudv1.FinishLoginRequest) (*cloudv1.FinishLoginResponse, error) {
	if r.GetToken() == "" {
		return nil, fault.InvalidField("token", "give the token of the mail's link")
	}
	now := s.Now()
	var refusal *fault.Error
	var opened session.Opened
	var res *cloudv1.FinishLoginResponse
	err := s.Store.Service(ctx, func(tx store.Tx) error {
		t, err := tx.UseToken(ctx, seal.Digest(r.GetToken()), purpose, now)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if refusal = worthless(t, err, now); refusal != nil {
			return nil
		}
		res, opened, err = s.signIn(ctx, tx, t.Subject, now)
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("finish login: %w", err)
	case refusal != nil:
		return nil, refusal
	}
	cookies.From(ctx).SetSession(opened.Token, opened.ExpiresAt)
	return res, nil
}

// worthless tells why a token signs nobody in; nil if it does.
func worthless(t store.Token, err error, now time.Time) *fault.Error {
	switch {
	case err != nil || t.Subject == "":
		return fault.New(fault.NotFound, "LINK_UNKNOWN", "this sign-in link is not known here: it is incomplete, or long gone; ask for a new one")
	case !t.UsedAt.IsZero():
		return fault.New(fault.Conflict, "LINK_USED", "this sign-in link was used already; it works once. Ask for a new one if you are not signed in")
	case !now.Before(t.ExpiresAt):
		return fault.New(fault.Conflict, "LINK_EXPIRED", "this sign-in link has expired: it works for %d minutes; ask for a new one", int(life.Minutes()))
	}
	return nil
}

func (s *Service) signIn(ctx context.Context, tx store.Tx, userID string, now time.Time) (*cloudv1.FinishLoginResponse, session.Opened, error) {
	u, err := tx.GetUser(ctx, userID)
	if err != nil {
		return nil, session.Opened{}, err
	}
	u.SeenAt = now
	if err := tx.UpdateUser(ctx, u); err != nil {
		return nil, session.Opened{}, err
	}
	opened, err := session.Open(ctx, tx, s.IDs, now, u.ID, "", cookies.From(ctx).Came())
	if err != nil {
		return nil, session.Opened{}, err
	}
	own, err := tx.ListAccess(ctx, u.ID)
	if err != nil {
		return nil, session.Opened{}, err
	}
	c := access.From(ctx)
	c.UserID, c.Name, c.SessionID = u.ID, u.Email, opened.ID
	res := &cloudv1.FinishLoginResponse{}
	for _, a := range own {
		res.Tenants = append(res.Tenants, a.Tenant.Name)
		target := audit.Target{Type: "session", ID: opened.ID, Name: u.Email, TenantID: a.TenantID}
		if err := audit.Record(access.With(ctx, c), tx, s.IDs, now, "session.create", target, nil); err != nil {
			return nil, session.Opened{}, err
		}
	}
	return res, opened, nil
}

// Logout ends this session, or all of the user's with the tokens made for them.
func (s *Service) Logout(ctx context.Context, r *cloudv1.LogoutRequest) (*cloudv1.LogoutResponse, error) {
	c, jar := access.From(ctx), cookies.From(ctx)
	if c.UserID == "" {
		return nil, fault.New(fault.Invalid, "NO_SESSION", "a key has no session to end; revoke the key instead")
	}
	now, ended := s.Now(), 0
	err := s.Store.Service(ctx, func(tx store.Tx) (err error) {
		if r.GetEverywhere() {
			ended, err = s.logoutEverywhere(ctx, tx, c.UserID, now)
			return err
		}
		ended = 1
		return session.End(ctx, tx, jar.Came())
	})
	if err != nil {
		return nil, fmt.Errorf("log out: %w", err)
	}
	jar.SetSession("", now)
	if r.GetEverywhere() {
		s.Woken()
	}
	return &cloudv1.LogoutResponse{SessionsEnded: int32(ended)}, nil
}

// logoutEverywhere also cuts off the tokens with which browsers read jobs.
func (s *Service) logoutEverywhere(ctx context.Context, tx store.Tx, userID string, now time.Time) (int, error) {
	ended, err := tx.DeleteSessionsOfUser(ctx, userID, "")
	if err != nil {
		return 0, err
	}
	own, err := tx.ListAccess(ctx, userID)
	if err != nil {
		return 0, err
	}
	for _, a := range own {
		row := store.Outbox{TenantID: a.TenantID, ID: s.IDs.New(ids.Outbox, now), Kind: store.OutboxUser, Subject: userID, CreatedAt: now, DueAt: now}
		if err := tx.InsertOutbox(ctx, row); err != nil {
			return 0, err
		}
		target := audit.Target{Type: "user", ID: userID, Name: access.From(ctx).Name, TenantID: a.TenantID}
		if err := audit.Record(ctx, tx, s.IDs, now, "session.end_all", target, nil); err != nil {
			return 0, err
		}
	}
	return ended, nil
}

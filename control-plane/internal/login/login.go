package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// life of a link.
	life = 15 * time.Minute

	purpose     = "login"
	tokenPrefix = "corvo_login_"
	// startedPrefix is of the cookie of the browser that asked for a link.
	startedPrefix = "corvo_started_"
	// confirmPath is a page of the console that calls FinishLogin with the token.
	confirmPath = "/signin/confirm"
	signupPath  = "/signup"
)

// DefaultLimits stop a mail flood.
func DefaultLimits() ratelimit.EmailLimits {
	return ratelimit.EmailLimits{PeerPerHour: 60, NetworkPerHour: 300, EmailPerHour: 10, PerAddress: 5, AddressWindow: addressWindow}
}

// addressWindow is shorter than the life of a link: when an address gets no more mail in
// a window, the links mailed in it still work. So strangers who use up what an address may
// have do not keep its owner out; they have sent what the owner asked for.
const addressWindow = 10 * time.Minute

// Needs are what a Service is built of.
type Needs struct {
	kit.Kit
	Limits ratelimit.EmailLimits
	// Invitations are those that a sign-in may accept.
	Invitations Invitations
}

// Invitations looks invitations up by the digest of their token, and accepts them.
type Invitations interface {
	// OpenInvitation refuses one that cannot be accepted any more.
	OpenInvitation(ctx context.Context, tx *store.Tx, digest string) (store.Invitation, store.Tenant, error)
	Join(ctx context.Context, tx *store.Tx, t store.Tenant, u store.User, i store.Invitation, sessionID string) error
}

// Service is the use cases of signing in and out.
type Service struct{ Needs }

// New makes a Service.
func New(n Needs) *Service { return &Service{Needs: n} }

// asked is what a link was asked for; it is kept with the link's token.
type asked struct {
	// Browser is the digest of the cookie that the asking browser was given.
	Browser string `json:"browser,omitempty"`
	// Invitation is the digest of the token of an invitation that is accepted with it.
	Invitation string `json:"invitation,omitempty"`
}

// StartLogin mails a link, if the address is somebody's.
func (s *Service) StartLogin(ctx context.Context, r *cloudv1.StartLoginRequest) (*cloudv1.StartLoginResponse, error) {
	now := s.Now()
	started, browser := seal.NewToken(startedPrefix)
	what := asked{Browser: browser}
	email, err := mail.Address(r.GetEmail())
	if r.GetInvitation() != "" {
		what.Invitation = seal.Digest(r.GetInvitation())
	} else if err != nil {
		return nil, fault.InvalidField("email", "%s", err)
	}
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		var joins string
		if what.Invitation != "" {
			i, t, err := s.Invitations.OpenInvitation(ctx, tx, what.Invitation)
			if err != nil {
				return err
			}
			email, joins = i.Email, t.Name
		}
		words := [3]string{
			"sign-in emails requested from your network", "sign-in emails for this address requested from your network", "sign-in emails for this address",
		}
		if err := ratelimit.Count(ctx, tx, now, s.Limits.Limits("login", access.From(ctx).Peer, email, words)...); err != nil {
			return err
		}
		return s.mailLink(ctx, tx, email, joins, what, now)
	})
	if err != nil {
		return nil, err
	}
	s.Wake()
	cookies.From(ctx).SetStarted(started, now.Add(life))
	return &cloudv1.StartLoginResponse{ExpiresAt: timestamppb.New(now.Add(life))}, nil
}

// mailLink writes the same rows for known and unknown addresses: a token (one that
// nobody was told, and that names nobody, for the unknown) and an email.
func (s *Service) mailLink(ctx context.Context, tx *store.Tx, email, joins string, what asked, now time.Time) error {
	u, err := tx.GetUserByEmail(ctx, email)
	known := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	token, err := s.newLink(ctx, tx, u.ID, what, now)
	if err != nil {
		return err
	}
	msg, err := s.message(email, token, joins, known, now)
	if err != nil {
		return err
	}
	return mail.Put(ctx, s.Kit, tx, "", u.ID, msg)
}

func (s *Service) message(email, token, joins string, known bool, now time.Time) (mail.Message, error) {
	link := s.URLs.Link(confirmPath, token)
	switch {
	case !known:
		return mail.NoAccount(email, s.URLs.Console(signupPath), life, now)
	case joins != "":
		return mail.LoginInvited(email, joins, link, life, now)
	}
	return mail.Login(email, link, life, now)
}

func (s *Service) newLink(ctx context.Context, tx *store.Tx, userID string, what asked, now time.Time) (token string, _ error) {
	data, err := json.Marshal(what)
	if err != nil {
		return "", fmt.Errorf("keep what a link is for: %w", err)
	}
	token, digest := seal.NewToken(tokenPrefix)
	err = tx.InsertToken(ctx, store.Token{Digest: digest, Purpose: purpose, Subject: userID, Data: string(data), CreatedAt: now, ExpiresAt: now.Add(life)})
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
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		u, err := tx.GetUserByEmail(ctx, email)
		if err != nil {
			return err
		}
		token, err = s.newLink(ctx, tx, u.ID, asked{}, s.Now())
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make a sign-in link for %s: %w", email, err)
	}
	return s.URLs.Link(confirmPath, token), nil
}

// PreviewLogin tells whose account a link opens, and whether this browser asked for it: a
// page that signs somebody in without saying as whom could be sent to them.
func (s *Service) PreviewLogin(ctx context.Context, r *cloudv1.PreviewLoginRequest) (*cloudv1.PreviewLoginResponse, error) {
	if r.GetToken() == "" {
		return nil, errNoToken
	}
	res := &cloudv1.PreviewLoginResponse{}
	return res, s.Store.ReadService(ctx, func(tx *store.Tx) error {
		t, err := tx.GetToken(ctx, seal.Digest(r.GetToken()), purpose)
		if err := worthless(t, err, s.Now()); err != nil {
			return err
		}
		u, err := tx.GetUser(ctx, t.Subject)
		if err != nil {
			return err
		}
		what, err := askedOf(t)
		if err != nil {
			return err
		}
		res.Email = u.Email
		res.StartedHere = what.Browser != "" && seal.Digest(cookies.From(ctx).Started()) == what.Browser
		_, to, err := s.invitation(ctx, tx, what)
		res.Joins = to.Name
		return err
	})
}

var errNoToken = fault.InvalidField("token", "use the token from the link in the email")

func askedOf(t store.Token) (what asked, _ error) {
	if err := json.Unmarshal([]byte(t.Data), &what); err != nil {
		return what, fmt.Errorf("read what a link is for: %w", err)
	}
	return what, nil
}

// invitation gives the invitation that comes with a link and its tenant. One that was
// withdrawn since is none: the link still signs in.
func (s *Service) invitation(ctx context.Context, tx *store.Tx, what asked) (i store.Invitation, t store.Tenant, err error) {
	if what.Invitation == "" {
		return i, t, nil
	}
	i, t, err = s.Invitations.OpenInvitation(ctx, tx, what.Invitation)
	if _, refused := fault.As(err); refused {
		return store.Invitation{}, store.Tenant{}, nil
	}
	return i, t, err
}

// FinishLogin trades a link's token for a session.
func (s *Service) FinishLogin(ctx context.Context, r *cloudv1.FinishLoginRequest) (*cloudv1.FinishLoginResponse, error) {
	if r.GetToken() == "" {
		return nil, errNoToken
	}
	now := s.Now()
	var opened session.Opened
	var res *cloudv1.FinishLoginResponse
	err := s.Store.Service(ctx, func(tx *store.Tx) error {
		t, err := tx.UseToken(ctx, seal.Digest(r.GetToken()), purpose, now)
		if err := worthless(t, err, now); err != nil {
			return err
		}
		what, err := askedOf(t)
		if err != nil {
			return err
		}
		res, opened, err = s.signIn(ctx, tx, t.Subject, what, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	cookies.From(ctx).SetSession(opened.Token, opened.ExpiresAt)
	return res, nil
}

// worthless says why a token that was looked for does not sign in; nil if it does. What
// was used stays used.
func worthless(t store.Token, err error, now time.Time) error {
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case err != nil || t.Subject == "":
		return store.CommitDespite(fault.New(fault.NotFound, "LINK_UNKNOWN", "this sign-in link is incomplete or too old; request a new one"))
	case !t.UsedAt.IsZero():
		return store.CommitDespite(fault.New(fault.Conflict, "LINK_USED", "this sign-in link has already been used; if you aren't signed in, request a new one"))
	case !now.Before(t.ExpiresAt):
		return store.CommitDespite(fault.New(fault.Conflict, "LINK_EXPIRED", "this sign-in link expired after %d minutes; request a new one", int(life.Minutes())))
	}
	return nil
}

func (s *Service) signIn(ctx context.Context, tx *store.Tx, userID string, what asked, now time.Time) (*cloudv1.FinishLoginResponse, session.Opened, error) {
	pending, err := json.Marshal(what)
	if err != nil {
		return nil, session.Opened{}, fmt.Errorf("keep what a link is for: %w", err)
	}
	opened, err := session.OpenByMail(ctx, tx, s.IDs, now, userID, cookies.From(ctx).Came(), string(pending))
	if err != nil {
		return nil, session.Opened{}, err
	}
	if opened.HalfOpen {
		return &cloudv1.FinishLoginResponse{SecondFactorRequired: true}, opened, nil
	}
	res, err := s.enter(ctx, tx, userID, what, opened.ID, now)
	return res, opened, err
}

// FinishProved finishes a sign-in whose second factor was shown: the half-open session
// gives way to a whole one.
func (s *Service) FinishProved(ctx context.Context, tx *store.Tx, half store.Session) (*cloudv1.FinishLoginResponse, session.Opened, error) {
	var what asked
	if err := json.Unmarshal([]byte(half.Pending), &what); err != nil {
		return nil, session.Opened{}, fmt.Errorf("read what a sign-in is for: %w", err)
	}
	now := s.Now()
	opened, err := session.OpenProved(ctx, tx, s.IDs, now, half)
	if err != nil {
		return nil, session.Opened{}, err
	}
	res, err := s.enter(ctx, tx, half.UserID, what, opened.ID, now)
	return res, opened, err
}

// enter does what belongs to a sign-in that is finished.
func (s *Service) enter(ctx context.Context, tx *store.Tx, userID string, what asked, sessionID string, now time.Time) (*cloudv1.FinishLoginResponse, error) {
	u, err := tx.GetUser(ctx, userID)
	if err != nil {
		return nil, err
	}
	u.SeenAt = now
	if err := tx.UpdateUser(ctx, u); err != nil {
		return nil, err
	}
	res := &cloudv1.FinishLoginResponse{}
	i, t, err := s.invitation(ctx, tx, what)
	if err == nil && t.ID != "" {
		res.Joined = t.Name
		err = s.Invitations.Join(ctx, tx, t, u, i, sessionID)
	}
	if err != nil {
		return nil, err
	}
	own, err := tx.ListAccess(ctx, u.ID)
	if err != nil {
		return nil, err
	}
	c := access.From(ctx)
	c.UserID, c.Name, c.SessionID = u.ID, u.Email, sessionID
	for _, a := range own {
		res.Tenants = append(res.Tenants, a.Tenant.Name)
		target := change.Target{Type: "session", ID: sessionID, Name: u.Email, TenantID: a.TenantID}
		if err := change.Make(access.With(ctx, c), s.Kit, tx, "session.create", change.AuditOnly(target), nil); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// Logout ends this session, or all of the user's with the tokens made for them.
func (s *Service) Logout(ctx context.Context, r *cloudv1.LogoutRequest) (*cloudv1.LogoutResponse, error) {
	c, jar := access.From(ctx), cookies.From(ctx)
	if !c.SignedIn() {
		return nil, fault.New(fault.Invalid, "NO_SESSION", "a key has no session to sign out of; revoke the key instead")
	}
	now, ended := s.Now(), 0
	err := s.Store.Service(ctx, func(tx *store.Tx) (err error) {
		if r.GetEverywhere() {
			ended, err = s.logoutEverywhere(ctx, tx, c)
			return err
		}
		ended = 1
		return session.EndOfUser(ctx, tx, c.UserID, c.SessionID)
	})
	if err != nil {
		return nil, err
	}
	if !c.ByCLI { // A program's call may come with the cookie of nobody.
		jar.SetSession("", now)
	}
	if r.GetEverywhere() {
		s.Wake()
	}
	return &cloudv1.LogoutResponse{SessionsEnded: int32(ended)}, nil
}

// logoutEverywhere also cuts off the tokens with which browsers read jobs.
// A session that is good in one tenant only ends others of its kind: it must not reach
// further than it is good for.
func (s *Service) logoutEverywhere(ctx context.Context, tx *store.Tx, c access.Caller) (int, error) {
	ended, err := tx.DeleteSessionsOfUser(ctx, c.UserID, c.OnlyTenantID)
	if err != nil {
		return 0, err
	}
	own, err := tx.ListAccess(ctx, c.UserID)
	if err != nil {
		return 0, err
	}
	for _, a := range own {
		if c.OnlyTenantID != "" && a.TenantID != c.OnlyTenantID {
			continue
		}
		target := change.Target{Type: "user", ID: c.UserID, Name: c.Name, TenantID: a.TenantID}
		if err := change.Make(ctx, s.Kit, tx, "session.end_all", change.AuditOnly(target).CutOff(c.UserID), nil); err != nil {
			return 0, err
		}
	}
	return ended, nil
}

package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// IdleMax ends a session nobody used.
	IdleMax = 14 * 24 * time.Hour
	// LifeMax ends a session however much it is used.
	LifeMax = 30 * 24 * time.Hour
	// LimitedLifeMax is LifeMax for a session that is good in one tenant only.
	LimitedLifeMax = 12 * time.Hour

	// CLILife ends a program's session that nobody used. Each use begins it anew.
	CLILife = 30 * 24 * time.Hour

	// halfOpenLife is how long somebody may take to show the second factor.
	halfOpenLife = 10 * time.Minute

	// proofLife is how long a second factor counts for dangerous methods.
	proofLife = 10 * time.Minute

	// touchEvery is how exactly idleness is measured: a write per request would be a
	// fsync per request.
	touchEvery = 5 * time.Minute
	// userAgentMax bounds text that a client chooses.
	userAgentMax = 300

	tokenPrefix = "corvo_session_"
	// cliPrefix is followed by hex alone, so that logs redact such a token as they do keys.
	cliPrefix = "corvo_cli_"
)

// ErrNone says that a token stands for no session, or for one that ended.
var ErrNone = errors.New("no such session")

// ErrStepUp asks a person who has a second factor to show it.
var ErrStepUp = fault.New(fault.Denied, "STEP_UP_REQUIRED",
	"this needs your second factor, shown in the last %d minutes; show it and try again", int(proofLife.Minutes()))

// Proved reports whether a second factor that was shown at a time still counts for dangerous
// methods.
func Proved(at, now time.Time) bool { return now.Sub(at) < proofLife }

// Opened is a new session: its token and when it ends at the latest.
type Opened struct {
	ID        string
	Token     string
	ExpiresAt time.Time
	// HalfOpen: the second factor is missing.
	HalfOpen bool
}

// OpenByMail is Open for whoever followed a mailed link. Somebody who has a second factor
// gets a session that can do nothing but show it; pending, which isn't empty, is kept with
// it. Where to is decided in OpenProved.
func OpenByMail(ctx context.Context, tx *store.Tx, maker *ids.Maker, now time.Time, userID, replaces, pending string) (Opened, error) {
	has, err := tx.HasFactor(ctx, userID)
	if err != nil {
		return Opened{}, err
	}
	if !has {
		return Open(ctx, tx, maker, now, userID, "", replaces)
	}
	if err := End(ctx, tx, replaces); err != nil {
		return Opened{}, err
	}
	token, digest := seal.NewToken(tokenPrefix)
	opened, err := insert(ctx, tx, maker, token, store.Session{
		Digest: digest, UserID: userID, Kind: store.SessionBrowser, Pending: pending, CreatedAt: now, ExpiresAt: now.Add(halfOpenLife),
	})
	opened.HalfOpen = true
	return opened, err
}

// OpenProved makes the whole session in the place of a half-open one.
func OpenProved(ctx context.Context, tx *store.Tx, maker *ids.Maker, now time.Time, half store.Session) (Opened, error) {
	if err := EndOfUser(ctx, tx, half.UserID, half.ID); err != nil {
		return Opened{}, err
	}
	opened, err := Open(ctx, tx, maker, now, half.UserID, half.TenantID, "")
	if err != nil {
		return Opened{}, err
	}
	return opened, tx.ProveSession(ctx, seal.Digest(opened.Token), now)
}

// Open makes a session of a user. onlyTenantID limits it to the tenant whose provider
// vouched for the user, or whose invitation made them; it is empty for a sign-in by mail.
// The session that the call came with ends.
func Open(ctx context.Context, tx *store.Tx, maker *ids.Maker, now time.Time, userID, onlyTenantID, replaces string) (Opened, error) {
	if err := End(ctx, tx, replaces); err != nil {
		return Opened{}, err
	}
	life := LifeMax
	if onlyTenantID != "" {
		life = LimitedLifeMax
	}
	token, digest := seal.NewToken(tokenPrefix)
	return insert(ctx, tx, maker, token, store.Session{
		TenantID: onlyTenantID, Digest: digest, UserID: userID, Kind: store.SessionBrowser, CreatedAt: now, ExpiresAt: now.Add(life),
	})
}

// OpenCLI makes a session of a program that the holder of another session approved. It
// reaches no further than that one. If that one is good in a single tenant, it lives no
// longer either: the provider decides again at the next sign-in.
func OpenCLI(ctx context.Context, tx *store.Tx, maker *ids.Maker, now time.Time, approved store.Session, client string) (Opened, error) {
	s := store.Session{
		TenantID: approved.TenantID, UserID: approved.UserID, Kind: store.SessionCLI, Client: client, CreatedAt: now, ExpiresAt: now.Add(CLILife),
	}
	if s.TenantID != "" {
		s.ExpiresAt = approved.ExpiresAt
	}
	var secret [32]byte
	rand.Read(secret[:]) // Never fails: the runtime ends the process instead.
	token := cliPrefix + hex.EncodeToString(secret[:])
	s.Digest = seal.Digest(token)
	return insert(ctx, tx, maker, token, s)
}

func insert(ctx context.Context, tx *store.Tx, maker *ids.Maker, token string, s store.Session) (Opened, error) {
	caller := access.From(ctx)
	s.ID, s.SeenAt = maker.New(ids.Session, s.CreatedAt), s.CreatedAt
	s.Peer, s.UserAgent = caller.Peer, cut(caller.UserAgent, userAgentMax)
	if err := tx.InsertSession(ctx, s); err != nil {
		return Opened{}, fmt.Errorf("open session of %s: %w", s.UserID, err)
	}
	return Opened{ID: s.ID, Token: token, ExpiresAt: s.ExpiresAt}, nil
}

// Find gives the session that a browser's token stands for, or ErrNone. One that lacks the
// second factor is none.
func Find(ctx context.Context, tx *store.Tx, token string, now time.Time) (store.Session, error) {
	s, err := FindAlsoHalf(ctx, tx, token, now)
	if err == nil && s.Pending != "" {
		return store.Session{}, ErrNone
	}
	return s, err
}

// FindAlsoHalf is Find for the gate, which lets a session that lacks the second factor do
// nothing but show it.
func FindAlsoHalf(ctx context.Context, tx *store.Tx, token string, now time.Time) (store.Session, error) {
	return find(ctx, tx, token, store.SessionBrowser, now)
}

// FindCLI gives the session that a program's token stands for, or ErrNone. Neither kind of
// token counts in the place of the other.
func FindCLI(ctx context.Context, tx *store.Tx, token string, now time.Time) (store.Session, error) {
	return find(ctx, tx, token, store.SessionCLI, now)
}

// IsCLI reports whether text has the form of a program's token.
func IsCLI(text string) bool { return strings.HasPrefix(text, cliPrefix) }

func find(ctx context.Context, tx *store.Tx, token string, kind store.SessionKind, now time.Time) (store.Session, error) {
	if token == "" {
		return store.Session{}, ErrNone
	}
	s, err := tx.GetSession(ctx, seal.Digest(token))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Session{}, ErrNone
	case err != nil:
		return store.Session{}, fmt.Errorf("find session: %w", err)
	case s.Kind != kind || Ended(s, now):
		return store.Session{}, ErrNone
	}
	idle, life, err := tx.SessionLimits(ctx, s.UserID, s.TenantID)
	switch {
	case err != nil:
		return store.Session{}, fmt.Errorf("find session: %w", err)
	case idle > 0 && !now.Before(s.SeenAt.Add(idle)), life > 0 && !now.Before(s.CreatedAt.Add(life)):
		return store.Session{}, ErrNone
	}
	return s, nil
}

// Ended reports whether a session no longer counts.
func Ended(s store.Session, now time.Time) bool {
	return !now.Before(s.ExpiresAt) || s.Kind == store.SessionBrowser && !now.Before(s.SeenAt.Add(IdleMax))
}

// Expiry is when a session ends at the latest, if it is used now.
func Expiry(s store.Session, now time.Time) time.Time {
	if s.Kind == store.SessionCLI && s.TenantID == "" {
		return now.Add(CLILife)
	}
	return s.ExpiresAt
}

// TouchDue reports whether the session's use should be noted now, with TouchSession.
func TouchDue(s store.Session, now time.Time) bool { return now.Sub(s.SeenAt) >= touchEvery }

// End ends the session of a token; no token and no session are fine.
func End(ctx context.Context, tx *store.Tx, token string) error {
	if token == "" {
		return nil
	}
	if err := tx.DeleteSession(ctx, seal.Digest(token)); err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

// EndOfUser ends a user's session by its id; one that has ended already is fine.
func EndOfUser(ctx context.Context, tx *store.Tx, userID, id string) error {
	s, err := tx.GetSessionOfUser(ctx, userID, id)
	if err == nil {
		err = tx.DeleteSession(ctx, s.Digest)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("end session %s: %w", id, err)
	}
	return nil
}

func cut(s string, limit int) string {
	if len(s) > limit {
		return s[:limit]
	}
	return s
}

package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
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

	// touchEvery is how exactly idleness is measured: a write per request would be a
	// fsync per request.
	touchEvery = 5 * time.Minute
	// userAgentMax bounds text that a client chooses.
	userAgentMax = 300

	tokenPrefix = "corvo_session_"
)

// ErrNone says that a token stands for no session, or for one that ended.
var ErrNone = errors.New("no such session")

// Opened is a new session: the token for the browser and when it ends at the latest.
type Opened struct {
	ID        string
	Token     string
	ExpiresAt time.Time
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
	caller := access.From(ctx)
	token, digest := seal.NewToken(tokenPrefix)
	s := store.Session{
		TenantID: onlyTenantID, Digest: digest, ID: maker.New(ids.Session, now), UserID: userID,
		Peer: caller.Peer, UserAgent: cut(caller.UserAgent, userAgentMax),
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(life),
	}
	if err := tx.InsertSession(ctx, s); err != nil {
		return Opened{}, fmt.Errorf("open session of %s: %w", userID, err)
	}
	return Opened{ID: s.ID, Token: token, ExpiresAt: s.ExpiresAt}, nil
}

// Find gives the session that a token stands for, or ErrNone.
func Find(ctx context.Context, tx *store.Tx, token string, now time.Time) (store.Session, error) {
	if token == "" {
		return store.Session{}, ErrNone
	}
	s, err := tx.GetSession(ctx, seal.Digest(token))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Session{}, ErrNone
	case err != nil:
		return store.Session{}, fmt.Errorf("find session: %w", err)
	case Ended(s, now):
		return store.Session{}, ErrNone
	}
	return s, nil
}

// Ended reports whether a session no longer counts.
func Ended(s store.Session, now time.Time) bool {
	return !now.Before(s.ExpiresAt) || !now.Before(s.SeenAt.Add(IdleMax))
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

func cut(s string, limit int) string {
	if len(s) > limit {
		return s[:limit]
	}
	return s
}

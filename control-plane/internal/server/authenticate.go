package server

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

var (
	errNoCredential = fault.New(fault.Unauthenticated, "UNAUTHENTICATED",
		"sign in, or send a management key: Authorization: Bearer corvo_mg_…")
	// errBadKey is for every key that is not good, whether it never was one, was
	// revoked or has expired.
	errBadKey = fault.New(fault.Unauthenticated, "UNAUTHENTICATED",
		"this management key isn't valid: it may be mistyped, revoked or expired")
	errJobsKey = fault.New(fault.Unauthenticated, "KEY_FOR_JOBS",
		"this is an API key for jobs (corvo_dp_…), which works at the tenant URL; this API needs a management key (corvo_mg_…)")
	errBadSession = fault.New(fault.Unauthenticated, "SESSION_ENDED",
		"your session has ended; sign in again")
)

// caller adds to a bare caller who it is. A credential in the header wins over a cookie:
// a program that sends one means it. byCookie tells that a browser sent the
// credential by itself, so that the call needs a proof of its origin.
func (g *gate) caller(ctx context.Context, h http.Header, bare access.Caller) (_ access.Caller, byCookie bool, _ error) {
	if values := h.Values("Authorization"); len(values) > 0 {
		c, err := g.byKey(ctx, values, bare)
		return c, false, err
	}
	if token := g.policy.Session(h); token != "" {
		c, err := g.bySession(ctx, token, bare)
		return c, true, err
	}
	return access.Caller{}, false, errNoCredential
}

func (g *gate) byKey(ctx context.Context, values []string, bare access.Caller) (access.Caller, error) {
	scheme, text, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return access.Caller{}, errNoCredential
	}
	key, err := apikey.Parse(strings.TrimSpace(text))
	switch {
	case err != nil:
		return access.Caller{}, errBadKey
	case key.Kind() == apikey.DataPlane:
		return access.Caller{}, errJobsKey
	}
	k, t, err := g.findKey(ctx, key.ID())
	if err != nil {
		return access.Caller{}, err
	}
	now := g.Now()
	// All checks are always made, so that an unknown key takes as long as a wrong
	// secret.
	good := matches(k.Versions, key, now)
	if !good || k.Kind != cloudv1.KeyKind_KEY_KIND_MANAGEMENT || key.Kind() != apikey.Management || !k.RevokedAt.IsZero() || ended(k.ExpiresAt, now) {
		return access.Caller{}, errBadKey
	}
	bare.TenantID, bare.Tenant, bare.Plan, bare.Role = t.ID, t.Name, t.Plan, k.TenantRole
	bare.KeyID, bare.Name = k.ID, k.Name
	return bare, nil
}

// findKey returns a key without secrets and an empty tenant for an unknown id. It makes
// the same queries as for a known one.
func (g *gate) findKey(ctx context.Context, id string) (k store.Key, t store.Tenant, _ error) {
	err := g.Store.ReadService(ctx, func(tx *store.Tx) error {
		var noKey, noTenant error
		k, noKey = tx.FindKey(ctx, id)
		t, noTenant = tx.GetTenant(ctx, k.TenantID)
		return errors.Join(noKey, noTenant)
	})
	if errors.Is(err, store.ErrNotFound) {
		return store.Key{}, store.Tenant{}, nil
	}
	if err != nil {
		return store.Key{}, store.Tenant{}, fmt.Errorf("look up key: %w", err)
	}
	return k, t, nil
}

// matches compares in constant time with every valid secret, always as many times as
// a key can have secrets.
func matches(versions []store.KeyVersion, key apikey.Key, now time.Time) bool {
	const versionsMax = 2
	digest := key.Digest()
	found := 0
	for i := range max(versionsMax, len(versions)) {
		var v store.KeyVersion
		if i < len(versions) {
			v = versions[i]
		}
		stored := make([]byte, len(digest))
		copy(stored, v.Digest)
		same := subtle.ConstantTimeCompare(stored, digest[:])
		if len(v.Digest) == len(digest) && !ended(v.ExpiresAt, now) {
			found |= same
		}
	}
	return found == 1
}

func ended(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

func (g *gate) bySession(ctx context.Context, token string, bare access.Caller) (access.Caller, error) {
	var s store.Session
	var u store.User
	now := g.Now()
	err := g.Store.ReadService(ctx, func(tx *store.Tx) (err error) {
		if s, err = session.Find(ctx, tx, token, now); err != nil {
			return err
		}
		u, err = tx.GetUser(ctx, s.UserID)
		return err
	})
	switch {
	case errors.Is(err, session.ErrNone) || errors.Is(err, store.ErrNotFound):
		return access.Caller{}, errBadSession
	case err != nil:
		return access.Caller{}, fmt.Errorf("look up session: %w", err)
	}
	if session.TouchDue(s, now) {
		if err := g.Store.Service(ctx, func(tx *store.Tx) error { return tx.TouchSession(ctx, s.Digest, now, s.ExpiresAt) }); err != nil {
			return access.Caller{}, fmt.Errorf("note that a session is used: %w", err)
		}
	}
	bare.UserID, bare.Name, bare.SessionID = u.ID, u.Email, s.ID
	bare.OnlyTenantID, bare.BySSO = s.TenantID, u.HomeTenant != ""
	return bare, nil
}

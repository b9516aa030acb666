package server

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/refusals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
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
	errWrongNetwork = fault.New(fault.Denied, "WRONG_NETWORK",
		"this management key doesn't work from your network; use it from one of its networks, or ask whoever manages it to add yours")
	errAccountOff = fault.New(fault.Unauthenticated, "SERVICE_ACCOUNT_DISABLED",
		"the service account of this key is disabled; an admin of the tenant can enable it")
	errBadSession = fault.New(fault.Unauthenticated, "SESSION_ENDED",
		"your session has ended; sign in again")
)

// caller adds to a bare caller who it is. A credential in the header wins over a cookie:
// a program that sends one means it. byCookie tells that a browser sent the
// credential by itself, so that the call needs a proof of its origin.
func (g *gate) caller(ctx context.Context, h http.Header, bare access.Caller) (_ access.Caller, byCookie bool, _ error) {
	if values := h.Values("Authorization"); len(values) > 0 {
		c, err := g.byBearer(ctx, values, bare)
		return c, false, err
	}
	if token := g.policy.Session(h); token != "" {
		c, err := g.bySession(ctx, token, session.FindAlsoHalf, bare)
		return c, true, err
	}
	return access.Caller{}, false, errNoCredential
}

func (g *gate) byBearer(ctx context.Context, values []string, bare access.Caller) (access.Caller, error) {
	scheme, text, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return access.Caller{}, errNoCredential
	}
	text = strings.TrimSpace(text)
	if session.IsCLI(text) {
		return g.bySession(ctx, text, session.FindCLI, bare)
	}
	return g.byKey(ctx, text, bare)
}

func (g *gate) byKey(ctx context.Context, text string, bare access.Caller) (access.Caller, error) {
	key, err := apikey.Parse(text)
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
	if !good || !opensAPI(k.Kind, key.Kind()) || !k.RevokedAt.IsZero() || ended(k.ExpiresAt, now) {
		if t.ID != "" {
			g.refusals.Note(refusals.Refusal{
				Action: refusals.SignIn, Caller: bare, Target: change.Target{Type: "key", ID: k.ID, Name: k.Name, TenantID: t.ID},
				Field: "reason", Value: whyBad(good, k, now),
			})
		}
		return access.Caller{}, errBadKey
	}
	if !clientnet.NetworksOf(k.CIDRs).Has(bare.Peer) {
		return access.Caller{}, errWrongNetwork
	}
	if err := g.noteUse(ctx, k, key); err != nil {
		return access.Caller{}, err
	}
	return g.asKey(ctx, k, t, bare)
}

// opensAPI: a key's text and its record must agree that it is for this API.
func opensAPI(kind cloudv1.KeyKind, written apikey.Kind) bool {
	return kind == cloudv1.KeyKind_KEY_KIND_MANAGEMENT && written == apikey.Management ||
		kind == cloudv1.KeyKind_KEY_KIND_PERSONAL && written == apikey.Personal ||
		kind == cloudv1.KeyKind_KEY_KIND_TEMPORARY && written == apikey.Temporary
}

// usedEvery is how exactly the last use of a key is known: a write per request would be a
// fsync per request.
const usedEvery = 5 * time.Minute

// noteUse writes that a secret of a key was used, if that isn't known.
func (g *gate) noteUse(ctx context.Context, k store.Key, shown apikey.Key) error {
	digest, now, last := shown.Digest(), g.Now(), k.LastUsedAt
	if len(k.Versions) > 1 && now.Sub(last) < usedEvery { // Perhaps the other one was.
		uses, err := store.Get(ctx, g.Store.ReadService, func(tx *store.Tx) (map[store.KeyUse]time.Time, error) {
			return tx.KeyUses(ctx, k.TenantID, k.ID, k.ID)
		})
		if err != nil {
			return fmt.Errorf("read when a key was used: %w", err)
		}
		last = uses[store.KeyUse{KeyID: k.ID, Digest: hex.EncodeToString(digest[:])}]
	}
	if now.Sub(last) < usedEvery {
		return nil
	}
	if err := g.Store.Tenant(ctx, k.TenantID, func(tx *store.Tx) error { return tx.TouchKey(ctx, k.TenantID, k.ID, digest[:], now) }); err != nil {
		return fmt.Errorf("note that a key is used: %w", err)
	}
	return nil
}

// asKey is a caller with the rights of a key.
func (g *gate) asKey(ctx context.Context, k store.Key, t store.Tenant, bare access.Caller) (access.Caller, error) {
	err := g.Store.ReadTenant(ctx, t.ID, func(tx *store.Tx) (err error) {
		if bare.Rights, err = rights.OfKey(ctx, tx, k); err != nil {
			return err
		}
		if k.Kind == cloudv1.KeyKind_KEY_KIND_PERSONAL {
			bare.UserID = k.OwnerID
			return nil
		}
		account, err := tx.GetServiceAccount(ctx, t.ID, k.OwnerID)
		if errors.Is(err, store.ErrNotFound) || err == nil && account.Disabled {
			return errAccountOff
		}
		return err
	})
	if errors.Is(err, errAccountOff) {
		return access.Caller{}, errAccountOff
	}
	if err != nil {
		return access.Caller{}, fmt.Errorf("read the rights of a key: %w", err)
	}
	bare.TenantID, bare.Tenant, bare.Plan = t.ID, t.Name, t.Plan
	bare.KeyID, bare.OwnerID, bare.Name = k.ID, k.OwnerID, k.Name
	return bare, nil
}

// whyBad is for the tenant's own log; the caller is not told.
func whyBad(secret bool, k store.Key, now time.Time) string {
	switch {
	case !k.RevokedAt.IsZero():
		return "revoked"
	case ended(k.ExpiresAt, now):
		return "expired"
	case !secret:
		return "wrong secret"
	}
	return "not a management key"
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

// findSession is session.FindAlsoHalf or session.FindCLI.
type findSession func(context.Context, *store.Tx, string, time.Time) (store.Session, error)

func (g *gate) bySession(ctx context.Context, token string, find findSession, bare access.Caller) (access.Caller, error) {
	var s store.Session
	var u store.User
	now := g.Now()
	err := g.Store.ReadService(ctx, func(tx *store.Tx) (err error) {
		if s, err = find(ctx, tx, token, now); err != nil {
			return err
		}
		if s.TenantID != "" { // It ends with its tenant.
			if _, err = tx.GetTenant(ctx, s.TenantID); err != nil {
				return err
			}
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
		if err := g.Store.Service(ctx, func(tx *store.Tx) error { return tx.TouchSession(ctx, s.Digest, now, session.Expiry(s, now)) }); err != nil {
			return access.Caller{}, fmt.Errorf("note that a session is used: %w", err)
		}
	}
	bare.UserID, bare.Name, bare.SessionID, bare.SignedInAt = u.ID, u.Email, s.ID, s.CreatedAt
	bare.OnlyTenantID, bare.BySSO, bare.ByCLI = s.TenantID, u.HomeTenant != "", s.Kind == store.SessionCLI
	bare.HalfOpen, bare.ProvedAt = s.Pending != "", s.ProvedAt
	return bare, nil
}

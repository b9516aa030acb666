package directory

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/scim"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// callsRate is more than Entra and Okta send in their first sync of a large company.
var callsRate = ratelimit.Rate{PerSecond: 50, Burst: 1000}

const (
	// usedEvery is how exactly the last call is known: a write per request would be a fsync
	// per request. errorEvery is the same for a refused one.
	usedEvery  = time.Minute
	errorEvery = 5 * time.Second
	errorMax   = 500 // Bytes.
)

// door lets directories in.
type door struct {
	*Service
	protocol *scim.Handler
	// calls are per tenant; guesses are those with a bad token, good the tokens that were not.
	calls   *ratelimit.Buckets
	guesses *ratelimit.Anonymous
	good    *ratelimit.Recent
	scans   scans

	mu    sync.Mutex
	noted map[string]time.Time // Guarded by mu; by connection, and by connection and "!" for errors.
}

func newDoor(s *Service) *door {
	d := &door{
		Service: s, calls: ratelimit.NewBuckets(callsRate), guesses: ratelimit.NewAnonymous(), good: ratelimit.NewRecent(), noted: map[string]time.Time{},
		scans: scans{running: map[string]int{}},
	}
	d.protocol = &scim.Handler{
		Backend: func(r *http.Request) scim.Backend { return of(r.Context()) }, URL: s.URL(), Log: s.Log, Note: d.note,
	}
	return d
}

// Handler answers directories, under /scim/.
func (s *Service) Handler() http.Handler { return s.door }

type contextKey struct{}

// of gives the directory that calls.
func of(ctx context.Context) *directory {
	d, _ := ctx.Value(contextKey{}).(*directory)
	return d
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, err := d.authenticate(r)
	if err != nil {
		e := refusalOf(err)
		if e == nil {
			d.Log.ErrorContext(r.Context(), "directory sync: look up token", "error", err)
			e = scim.Refuse(http.StatusInternalServerError, "", "something went wrong on our side; try again")
		}
		if e.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="corvo"`)
		}
		scim.Write(w, e)
		return
	}
	c := access.From(r.Context())
	c.TenantID, c.Tenant, c.Plan = caller.tenant.ID, caller.tenant.Name, caller.tenant.Plan
	c.KeyID, c.Name, c.Directory = caller.token.ID, "directory of "+caller.conn.Name, caller.conn.ID
	ctx := context.WithValue(access.With(r.Context(), c), contextKey{}, caller)
	d.protocol.ServeHTTP(w, r.WithContext(ctx))
}

// errBadToken is for every token that is not good, whether it never was one, was revoked or
// has expired.
var errBadToken = scim.Refuse(http.StatusUnauthorized, "", "this token isn't valid: it may be mistyped, revoked or expired; create one for the connection and send it as Authorization: Bearer corvo_scim_…")

// authenticate goes by the token alone: it names tenant and connection, never the path.
func (d *door) authenticate(r *http.Request) (*directory, error) {
	ctx, now := r.Context(), d.Now()
	peer := access.From(ctx).Peer
	values := r.Header.Values("Authorization")
	shown := seal.Digest(strings.Join(values, "\n"))
	if refusal := d.guesses.Check(peer, now); refusal != nil && !d.good.Has(shown) {
		return nil, refusal
	}
	caller, err := d.byToken(ctx, values, now)
	if errors.Is(err, errBadToken) {
		_ = d.guesses.Take(peer, now) // Counted; this one is answered.
	}
	if err != nil {
		return nil, err
	}
	d.good.Add(shown)
	if wait := d.calls.Take(caller.tenant.ID, now); wait > 0 {
		return nil, ratelimit.TooMany("TOO_MANY_REQUESTS", "requests of directories of this tenant", wait)
	}
	return caller, nil
}

func (d *door) byToken(ctx context.Context, values []string, now time.Time) (*directory, error) {
	if len(values) != 1 {
		return nil, errBadToken
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	key, err := apikey.Parse(strings.TrimSpace(text))
	if err != nil || !strings.EqualFold(scheme, "Bearer") || key.Kind() != apikey.SCIM {
		return nil, errBadToken
	}
	caller := &directory{Service: d.Service}
	err = d.Store.ReadService(ctx, func(tx *store.Tx) error {
		var noToken, noTenant, noConnection error
		caller.token, noToken = tx.FindScimToken(ctx, key.ID())
		caller.tenant, noTenant = tx.GetTenant(ctx, caller.token.TenantID)
		caller.conn, noConnection = tx.GetConnection(ctx, caller.token.TenantID, caller.token.ConnectionID)
		return errors.Join(noToken, noTenant, noConnection)
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("look up a directory's token: %w", err)
	}
	// An unknown token takes as long as one with a wrong secret.
	digest := key.Digest()
	good := subtle.ConstantTimeCompare([]byte(hex.EncodeToString(digest[:])), []byte(caller.token.Digest)) == 1
	t := caller.token
	if err != nil || !good || !t.RevokedAt.IsZero() || !now.Before(t.ExpiresAt) || !caller.tenant.DeletedAt.IsZero() {
		return nil, errBadToken
	}
	return caller, nil
}

// refusalOf says a refusal as the protocol does; nil: err is none.
func refusalOf(err error) *scim.Error {
	if e, ok := scim.As(err); ok {
		return e
	}
	f, ok := fault.As(err)
	if !ok {
		return nil
	}
	status, word := http.StatusBadRequest, scim.InvalidValue
	switch f.Code {
	case fault.NotFound:
		status, word = http.StatusNotFound, ""
	case fault.Exists:
		status, word = http.StatusConflict, scim.Uniqueness
	case fault.Conflict, fault.Denied:
		status, word = http.StatusConflict, ""
	case fault.Exhausted:
		status, word = http.StatusTooManyRequests, ""
	case fault.Unavailable:
		status, word = http.StatusServiceUnavailable, ""
	}
	e := scim.Refuse(status, word, "%s", f.Error())
	e.RetryAfter = f.RetryAfter
	return e
}

// note records that the directory called, and what was refused. That something is not there,
// or has changed, is how directories find out.
func (d *door) note(r *http.Request, refused *scim.Error) {
	caller, now := of(r.Context()), d.Now()
	failed := refused != nil && refused.Status != http.StatusNotFound && refused.Status != http.StatusPreconditionFailed
	if !d.due(caller.conn.ID, now, failed) {
		return
	}
	ctx := context.WithoutCancel(r.Context())
	err := d.Store.Tenant(ctx, caller.tenant.ID, func(tx *store.Tx) error {
		state, err := tx.GetDirectoryState(ctx, caller.tenant.ID, caller.conn.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		state.TenantID, state.ConnectionID, state.LastCallAt = caller.tenant.ID, caller.conn.ID, now
		if failed {
			text := apikey.Redact(fmt.Sprintf("%s %s: %d %s", r.Method, r.URL.Path, refused.Status, refused.Detail))
			state.LastErrorAt, state.LastError = now, strings.ToValidUTF8(text[:min(len(text), errorMax)], "")
		}
		if err := tx.PutDirectoryState(ctx, state); err != nil {
			return err
		}
		return tx.TouchScimToken(ctx, caller.tenant.ID, caller.token.ID, now)
	})
	if err != nil && !errors.Is(err, store.ErrReference) { // The connection may be gone by now.
		d.Log.WarnContext(ctx, "note a call of directory sync", "connection", caller.conn.ID, "error", err)
	}
}

// due reports whether a call is to be noted now.
func (d *door) due(id string, now time.Time, failed bool) bool {
	every := usedEvery
	if failed {
		id, every = id+"!", errorEvery
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, known := d.noted[id]; known && now.Sub(last) < every {
		return false
	}
	const most = 10_000
	if len(d.noted) >= most {
		clear(d.noted)
	}
	d.noted[id] = now
	return true
}

package exchange

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
)

const (
	// freshFor is how long a key set is used without reading it again, goodFor while its
	// issuer does not answer.
	freshFor = 10 * time.Minute
	goodFor  = time.Hour
	// failedFor is how long an issuer that is down is not asked again.
	failedFor = 10 * time.Second
	// searchEvery is how often a key set is read again for a key that it lacks: whatever key
	// id a stranger writes is all it takes to ask.
	searchEvery = time.Minute
	// cachedMax bounds the memory for key sets.
	cachedMax = 1000
	// keysMax bounds one.
	keysMax    = 50
	rsaBitsMin = 2048
	// rsaBitsMax keeps a verification to some milliseconds: the cost grows with the square of
	// the bits, and a set has room for keys that take minutes.
	rsaBitsMax = 8192
	// sameIDMax is how many keys of one id are tried; issuers that don't rename a key when they
	// change it have two.
	sameIDMax = 4
	jwksMax   = 64 << 10
)

var (
	errUnknownKey = errors.New("none of the issuer's keys signed the token")
	errSignature  = errors.New("the token's signature isn't right")
)

// issuers reads and remembers key sets, per tenant: two tenants with the same issuer share
// nothing, so that one can't use up the other's reading.
type issuers struct {
	client *http.Client
	egress egress.Options
	now    func() time.Time

	mu  sync.Mutex
	all map[string]*cached // Guarded by mu. By tenant and issuer.
}

type cached struct {
	mu       sync.Mutex // Held while reading, so that one reads for all who wait.
	keys     []jose.JSONWebKey
	readAt   time.Time
	failed   error
	failedAt time.Time
	searched time.Time
}

func newIssuers(o egress.Options, now func() time.Time) *issuers {
	return &issuers{client: egress.NewClient(o), egress: o, now: now, all: map[string]*cached{}}
}

// verify checks a token's signature by the keys of an issuer, or by those given as a key set.
func (i *issuers) verify(ctx context.Context, tenantID, issuer, jwks string, t token) error {
	if jwks != "" {
		keys, err := readKeys([]byte(jwks))
		if err != nil {
			return fmt.Errorf("the trust's key set can't be used: %w", err)
		}
		return check(t, keys)
	}
	c := i.entry(tenantID + " " + issuer)
	keys, err := c.read(ctx, i, issuer, false)
	if err != nil {
		return err
	}
	if err = check(t, keys); !errors.Is(err, errUnknownKey) {
		return err
	}
	if keys, err = c.read(ctx, i, issuer, true); err != nil {
		return err
	}
	return check(t, keys)
}

func (i *issuers) entry(key string) *cached {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c, ok := i.all[key]; ok {
		return c
	}
	if len(i.all) >= cachedMax {
		clear(i.all) // Reading again is cheap.
	}
	c := &cached{}
	i.all[key] = c
	return c
}

// read gives an issuer's keys; search asks for them again because one was missing.
func (c *cached) read(ctx context.Context, i *issuers, issuer string, search bool) ([]jose.JSONWebKey, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := i.now()
	fresh := c.keys != nil && now.Sub(c.readAt) < freshFor
	switch {
	case search && !c.searched.IsZero() && now.Sub(c.searched) < searchEvery, !search && fresh:
		return c.keys, nil
	case c.failed != nil && now.Sub(c.failedAt) < failedFor:
		return c.lastGood(now)
	}
	if search {
		c.searched = now
	}
	// It is for all who ask meanwhile, so it doesn't end with whoever came first; the client has
	// a limit of its own.
	keys, err := i.fetch(context.WithoutCancel(ctx), issuer)
	if err != nil {
		c.failed, c.failedAt = err, now
		return c.lastGood(now)
	}
	c.keys, c.readAt, c.failed = keys, now, nil
	return keys, nil
}

func (c *cached) lastGood(now time.Time) ([]jose.JSONWebKey, error) {
	if c.keys != nil && now.Sub(c.readAt) < goodFor {
		return c.keys, nil
	}
	return nil, c.failed
}

// fetch reads an issuer's discovery document and its key set.
func (i *issuers) fetch(ctx context.Context, issuer string) ([]jose.JSONWebKey, error) {
	var said struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	raw, err := i.get(ctx, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return nil, fmt.Errorf("can't read the issuer's discovery document: %w", err)
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return nil, errors.New("the issuer's discovery document is no JSON")
	}
	if said.Issuer != issuer {
		return nil, errors.New("the issuer's discovery document is of another issuer; write it exactly as the document does")
	}
	u, err := url.Parse(said.JWKS)
	if err != nil || said.JWKS == "" || u.Fragment != "" {
		return nil, errors.New("the issuer's discovery document has no valid jwks_uri")
	}
	if err := i.egress.CheckURL(u); err != nil {
		return nil, fmt.Errorf("the issuer's discovery document has a jwks_uri that can't be used: %w", err)
	}
	if raw, err = i.get(ctx, said.JWKS); err != nil {
		return nil, fmt.Errorf("can't read the issuer's keys: %w", err)
	}
	return readKeys(raw)
}

// get reads an address. Its errors don't repeat what is there.
func (i *issuers) get(ctx context.Context, address string) (_ []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("the address isn't valid")
	}
	r.Header.Set("Accept", "application/json")
	res, err := i.client.Do(r)
	if err != nil {
		var why *url.Error
		if errors.As(err, &why) {
			err = why.Err // Without the address.
		}
		return nil, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	return io.ReadAll(res.Body)
}

// readKeys reads the keys of a set that can verify a token; others are left out.
func readKeys(raw []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, errors.New(`it must be a JSON Web Key Set: {"keys": [...]}`)
	}
	if len(set.Keys) > keysMax {
		return nil, fmt.Errorf("it has more than %d keys", keysMax)
	}
	var out []jose.JSONWebKey
	for _, text := range set.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(text, &k) == nil && verifies(k) {
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no public key that signs tokens (RSA of 2,048 to 8,192 bits, EC, Ed25519)")
	}
	return out, nil
}

// verifies: a public key for signatures, never a shared secret.
func verifies(k jose.JSONWebKey) bool {
	if k.Use != "" && k.Use != "sig" || !k.IsPublic() || !k.Valid() {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= rsaBitsMin && key.N.BitLen() <= rsaBitsMax
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// check verifies a token by the one key that its header names, or by the only one if it names
// none.
func check(t token, keys []jose.JSONWebKey) error {
	if t.kid == "" && len(keys) != 1 {
		return errUnknownKey
	}
	err, tried := errUnknownKey, 0
	for _, k := range keys {
		if t.kid != "" && k.KeyID != t.kid || k.Algorithm != "" && k.Algorithm != t.algorithm {
			continue
		}
		if tried++; tried > sameIDMax {
			break
		}
		if _, wrong := t.signed.Verify(k.Key); wrong == nil {
			return nil
		}
		err = errSignature
	}
	return err
}

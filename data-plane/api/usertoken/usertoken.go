package usertoken

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	// Life is the lifetime of the tokens that the control plane signs.
	Life = 5 * time.Minute
	// LifeMax is the longest life that a reader accepts.
	LifeMax = 10 * time.Minute
	// SkewMax is how far the signer's clock may be ahead of the reader's. The
	// expiry has no tolerance: a token lives for minutes, and a skewed clock costs
	// only part of that.
	SkewMax = 30 * time.Second
	// BytesMax bounds the text. A token of somebody with rights in whole namespaces has about
	// 500 bytes; this is one with as many patterns of queues as may travel.
	BytesMax = 10 << 10

	issuer   = "corvo-control-plane"
	audience = "corvo-data-plane"
	// typeName keeps a token for another purpose, signed with the same key, from
	// being accepted here (RFC 8725, 3.11).
	typeName  = "corvo-user+jwt"
	algorithm = "EdDSA"

	keyIDPrefix = "tk_"
	keyIDHex    = 24
	ulidChars   = 26
)

// Errors of Verify. Only ErrExpired and ErrFuture may be shown to the caller: the caller had
// a valid token and learns nothing new.
var (
	ErrMalformed  = errors.New("not a user token")
	ErrUnknownKey = errors.New("the user token names a signing key that is not known")
	ErrSignature  = errors.New("the user token's signature is wrong")
	ErrExpired    = errors.New("the user token has expired")
	// ErrFuture: a token rightly signed was issued after the reader's now, so the clock of one of
	// them is wrong and not the token.
	ErrFuture = errors.New("the user token was issued in the future")
	ErrClaims = errors.New("the user token does not say what it must")
)

// Claims is what a token says.
type Claims struct {
	TenantID    string // tn_<ulid>
	NamespaceID string // ns_<ulid>
	UserID      string // usr_<ulid>
	// Grants is what the user may do in the namespace.
	Grants permission.Here
	// IssuedAt is in milliseconds on the wire, so that a user who was cut off and let
	// in again need not wait for the next second. ExpiresAt is in whole seconds.
	IssuedAt  time.Time
	ExpiresAt time.Time
	// KeyID is the signing key's; Sign takes it as an argument of its own.
	KeyID string
}

// wireClaims are the JWT's claims.
type wireClaims struct {
	jwt.RegisteredClaims

	Tenant    string `json:"tn"`
	Namespace string `json:"ns"`
	// Grants is the text of package identity.
	Grants string `json:"grants"`
	// IssuedMS is IssuedAt in Unix milliseconds; the standard claim iat has it in whole
	// seconds.
	IssuedMS int64 `json:"iat_ms"`
}

// KeyID is the id of a signing key. It is derived from the public key, so that one
// id can never mean two keys.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return keyIDPrefix + hex.EncodeToString(sum[:])[:keyIDHex]
}

// IsKeyID reports whether id has the form that KeyID gives.
func IsKeyID(id string) bool {
	digits, ok := strings.CutPrefix(id, keyIDPrefix)
	return ok && len(digits) == keyIDHex && !strings.ContainsFunc(digits, func(c rune) bool {
		return !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f')
	})
}

// LooksLike reports whether a credential is meant as a user token and not as an
// API key.
func LooksLike(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}

// Sign makes a token. c.KeyID is not used.
func Sign(private ed25519.PrivateKey, keyID string, c Claims) (string, error) {
	if len(private) != ed25519.PrivateKeySize {
		return "", errors.New("sign user token: not an Ed25519 private key")
	}
	if !IsKeyID(keyID) {
		return "", fmt.Errorf("sign user token: %q is not a key id", keyID)
	}
	if err := c.check(); err != nil {
		return "", fmt.Errorf("sign user token: %w", err)
	}
	grants, err := identity.GrantsText(c.Grants)
	if err != nil {
		return "", fmt.Errorf("sign user token: %w: %w", ErrClaims, err)
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, wireClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Audience: jwt.ClaimStrings{audience}, Subject: c.UserID,
			IssuedAt: jwt.NewNumericDate(c.IssuedAt), ExpiresAt: jwt.NewNumericDate(c.ExpiresAt),
		},
		Tenant: c.TenantID, Namespace: c.NamespaceID, Grants: grants, IssuedMS: c.IssuedAt.UnixMilli(),
	})
	t.Header["kid"], t.Header["typ"] = keyID, typeName
	text, err := t.SignedString(private)
	if err != nil {
		return "", fmt.Errorf("sign user token: %w", err)
	}
	return text, nil
}

// Verify reads a token that one of keys signed. keys returns nil for an id it does
// not know.
func Verify(keys func(keyID string) ed25519.PublicKey, token string, now time.Time) (Claims, error) {
	// The decoder ignores line breaks, so one token would have many texts.
	if len(token) > BytesMax || strings.ContainsAny(token, "\r\n") {
		return Claims{}, ErrMalformed
	}
	// The expiry is checked last, so that only the holder of a once valid token
	// learns that it has expired.
	parser := jwt.NewParser(jwt.WithValidMethods([]string{algorithm}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())
	var wire wireClaims
	parsed, err := parser.ParseWithClaims(token, &wire, func(t *jwt.Token) (any, error) { return keyOf(t, keys) })
	if err != nil {
		return Claims{}, refused(err)
	}
	if wire.Issuer != issuer || len(wire.Audience) != 1 || wire.Audience[0] != audience || wire.NotBefore != nil {
		return Claims{}, fmt.Errorf("%w: not issued for the data plane", ErrClaims)
	}
	issued := time.UnixMilli(wire.IssuedMS)
	if wire.IssuedAt == nil || wire.ExpiresAt == nil || !issued.Truncate(time.Second).Equal(wire.IssuedAt.Time) {
		return Claims{}, fmt.Errorf("%w: no times, or two of one", ErrClaims)
	}
	grants, err := identity.ParseGrants(wire.Grants)
	if err != nil {
		return Claims{}, fmt.Errorf("%w: %w", ErrClaims, err)
	}
	keyID, _ := parsed.Header["kid"].(string)
	c := Claims{
		TenantID: wire.Tenant, NamespaceID: wire.Namespace, UserID: wire.Subject, Grants: grants,
		IssuedAt: issued, ExpiresAt: wire.ExpiresAt.Time, KeyID: keyID,
	}
	if err := c.check(); err != nil {
		return Claims{}, err
	}
	if c.IssuedAt.After(now.Add(SkewMax)) {
		return Claims{}, ErrFuture
	}
	if !now.Before(c.ExpiresAt) {
		return Claims{}, ErrExpired
	}
	return c, nil
}

// keyOf accepts exactly the header that Sign writes.
func keyOf(t *jwt.Token, keys func(string) ed25519.PublicKey) (any, error) {
	id, _ := t.Header["kid"].(string)
	if len(t.Header) != 3 || t.Header["typ"] != typeName || !IsKeyID(id) {
		return nil, ErrMalformed
	}
	key := keys(id)
	if len(key) != ed25519.PublicKeySize {
		return nil, ErrUnknownKey
	}
	return key, nil
}

// refused maps the library's error to one of ours; the library's text may quote the
// token and is dropped.
func refused(err error) error {
	switch {
	case errors.Is(err, ErrUnknownKey):
		return ErrUnknownKey
	case errors.Is(err, jwt.ErrTokenSignatureInvalid) && !errors.Is(err, jwt.ErrTokenUnverifiable):
		return ErrSignature
	default:
		return ErrMalformed
	}
}

// check reports what is wrong with the claims.
func (c Claims) check() error {
	switch life := c.ExpiresAt.Sub(c.IssuedAt); {
	case !isID("tn_", c.TenantID):
		return fmt.Errorf("%w: tenant id, want tn_ and %d characters", ErrClaims, ulidChars)
	case !isID("ns_", c.NamespaceID):
		return fmt.Errorf("%w: namespace id, want ns_ and %d characters", ErrClaims, ulidChars)
	case !isID("usr_", c.UserID):
		return fmt.Errorf("%w: user id, want usr_ and %d characters", ErrClaims, ulidChars)
	case life <= 0 || life > LifeMax:
		return fmt.Errorf("%w: a life of %v, want up to %v", ErrClaims, life, LifeMax)
	case c.Grants.None():
		return fmt.Errorf("%w: no permission in the namespace", ErrClaims)
	}
	return nil
}

func isID(prefix, id string) bool {
	ulid, ok := strings.CutPrefix(id, prefix)
	return ok && len(ulid) == ulidChars && !strings.ContainsFunc(ulid, func(c rune) bool {
		return !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z')
	})
}

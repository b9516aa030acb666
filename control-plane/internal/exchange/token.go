package exchange

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// tokenMax is several times what any issuer sends.
	tokenMax = 16 << 10
	// skewMax is how far an issuer's clock may be from ours.
	skewMax = 60 * time.Second
	// ageMax is how old a token may be, whenever it ends.
	ageMax = 24 * time.Hour
	jtiMax = 255
)

// algorithms are those a token may be signed with; never "none", never one with a shared
// secret, for which a public key could be taken.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

// token is one that was read. Nothing of it is true before its signature is verified.
type token struct {
	signed    *jose.JSONWebSignature
	kid       string
	algorithm string
	claims    map[string]any
	digest    string // Of what counts once.
}

var (
	errForm      = errors.New("this is no signed token of three parts")
	errTooLarge  = errors.New("the token is too large")
	errAlgorithm = errors.New("the token's signing algorithm isn't supported (alg)")
	errClaims    = errors.New("the token's claims can't be read")
)

// readToken reads a token's form. Its errors say nothing of what is in it.
func readToken(raw string) (token, error) {
	if len(raw) > tokenMax {
		return token{}, errTooLarge
	}
	if strings.Count(raw, ".") != 2 || !writtenOneWay(raw) {
		return token{}, errForm
	}
	signed, err := jose.ParseSignedCompact(raw, algorithms())
	var other *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &other):
		return token{}, errAlgorithm
	case err != nil || len(signed.Signatures) != 1:
		return token{}, errForm
	}
	header := signed.Signatures[0].Protected
	t := token{signed: signed, kid: header.KeyID, algorithm: header.Algorithm}
	t.claims, err = readClaims(signed.UnsafePayloadWithoutVerification())
	if err != nil {
		return token{}, err
	}
	once := "token\x00" + raw[:strings.LastIndexByte(raw, '.')] // Some signatures can be written in two ways.
	if jti := t.text("jti"); jti != "" && len(jti) <= jtiMax {
		once = "jti\x00" + jti
	}
	sum := sha256.Sum256([]byte(once))
	t.digest = hex.EncodeToString(sum[:])
	return t, nil
}

// writtenOneWay reports whether the parts of a token are base64url as RFC 7515 has it. The
// library skips line breaks and the bits that are left over at the end of a part, so that one
// signed token would have many texts, of which each would count once.
func writtenOneWay(raw string) bool {
	for part := range strings.SplitSeq(raw, ".") {
		decoded, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil || base64.RawURLEncoding.EncodeToString(decoded) != part {
			return false
		}
	}
	return true
}

// readClaims reads one JSON object whose members each have a name of their own: readers
// differ in which of two they take.
func readClaims(raw []byte) (map[string]any, error) {
	claims := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // Numbers stay as they were written.
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errClaims
	}
	for d.More() {
		name, err := d.Token()
		text, ok := name.(string)
		if _, twice := claims[text]; err != nil || !ok || twice {
			return nil, errClaims
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, errClaims
		}
		claims[text] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, errClaims
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errClaims
	}
	return claims, nil
}

// text is a claim that is a text, or nothing.
func (t token) text(claim string) string {
	s, _ := t.claims[claim].(string)
	return s
}

// when is a claim that is a time; ok is false for one that is something else.
func (t token) when(claim string) (at time.Time, ok bool) {
	n, isNumber := t.claims[claim].(json.Number)
	if !isNumber {
		return at, false
	}
	f, err := n.Float64()
	if err != nil || math.IsNaN(f) || f < 1 || f > 1<<40 {
		return at, false
	}
	whole, part := math.Modf(f)
	return time.Unix(int64(whole), int64(part*float64(time.Second))), true
}

// timely says what is wrong with a token's times; empty for nothing.
func (t token) timely(now time.Time) string {
	ends, hasEnd := t.when("exp")
	issued, hasIssued := t.when("iat")
	from, hasFrom := t.when("nbf")
	_, saysFrom := t.claims["nbf"]
	switch {
	case !hasEnd:
		return "the token doesn't say when it ends (exp)"
	case !hasIssued:
		return "the token doesn't say when it was issued (iat)"
	case !now.Before(ends.Add(skewMax)):
		return "the token has expired (exp)"
	case saysFrom && !hasFrom:
		return "the token's nbf is no time"
	case hasFrom && from.After(now.Add(skewMax)):
		return "the token isn't valid yet (nbf)"
	case issued.After(now.Add(skewMax)):
		return "the token was issued in the future (iat)"
	case now.Sub(issued) > ageMax:
		return "the token is more than a day old (iat)"
	}
	return ""
}

// isFor reports whether a token is for an audience and for no other.
func (t token) isFor(audience string) bool {
	switch a := t.claims["aud"].(type) {
	case string:
		return a == audience
	case []any:
		return len(a) == 1 && a[0] == audience
	}
	return false
}

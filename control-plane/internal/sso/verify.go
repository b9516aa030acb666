package sso

import (
	"context"
	"crypto/subtle"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
)

const (
	subjectMax = 255 // OpenID Connect Core, 2.
	groupsMax  = 5000
	claimsMax  = 100 // Of which a trial tells the names.
	idTokenMax = 32 << 10
)

// person is what a provider says about somebody, checked.
type person struct {
	subject, email, name string
	groups               []string
	// unverified: the provider says that it doesn't know whether the address is theirs.
	unverified bool
	// hasGroups: the claim was there, if only as an empty list; claims are the names of
	// all that were.
	hasGroups bool
	claims    []string
}

// vouched is the address if the provider vouches for it: without that, it is what people wrote
// about themselves, and nothing may follow from it that is another's.
func (p person) vouched() string {
	if p.unverified {
		return ""
	}
	return p.email
}

// expected is what a token must fit.
type expected struct {
	issuer, clientID, nonce string
	// begun is when the browser was sent away: the token is younger.
	begun time.Time
}

// idClaims are the claims that the library leaves to us.
type idClaims struct {
	AuthorizedParty string   `json:"azp"`
	NotBefore       *float64 `json:"nbf"`
	IssuedAt        *float64 `json:"iat"`
}

// verify checks an answer's tokens and reads who it is.
func (p *provider) verify(ctx context.Context, client *http.Client, token *oauth2.Token, want expected, groupsClaim string, now time.Time) (person, error) {
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return person{}, refused(nil, "the provider sent no ID token; allow the scope openid for this client")
	}
	if len(raw) > idTokenMax {
		return person{}, refused(nil, "the provider's ID token isn't valid: it has more than 32 KB; have the provider send only the groups that are assigned to this application")
	}
	verifier := oidc.NewVerifier(want.issuer, p.keys, &oidc.Config{
		ClientID: want.clientID, SupportedSigningAlgs: p.signed(),
		Now: func() time.Time { return now.Add(-skewMax) },
	})
	id, err := verifier.Verify(ctx, raw)
	if err != nil {
		p := keysProblem(err)
		if p == nil {
			p = refused(err, "the provider's ID token isn't valid: %s", tokenFault(err))
		}
		p.said = clip(err.Error())
		return person{}, p
	}
	if err := checkToken(id, token.AccessToken, want, now); err != nil {
		return person{}, refused(err, "the provider's ID token isn't valid: %s", err)
	}
	return p.person(ctx, client, id, token, groupsClaim)
}

// keysProblem tells a token whose key could not be had from one with a bad signature; nil if
// that isn't it. The library does not wrap the cause.
func keysProblem(err error) *problem {
	switch text := err.Error(); {
	case strings.Contains(text, errKeysTooOften.Error()):
		p := refused(err, "the provider's ID token isn't valid: its signature is by no key that is known here, and the provider's keys were read a moment ago; sign in again in a minute")
		p.retryAfter = keyFetchEvery
		return p
	case strings.Contains(text, "fetching keys"):
		return providerDown(err, "can't read the provider's keys (jwks_uri). Sign in again in a few minutes")
	}
	return nil
}

// tokenFault says what the library found, without what stands in the token.
func tokenFault(err error) string {
	var expired *oidc.TokenExpiredError
	switch text := err.Error(); {
	case errors.As(err, &expired):
		return "it has expired; check the provider's clock"
	case strings.Contains(text, "issued by a different provider"):
		return "it has another issuer (iss)"
	case strings.Contains(text, "expected audience"):
		return "it was issued for another client (aud)"
	case strings.Contains(text, "signature algorithm"):
		return "its signing algorithm isn't supported (alg)"
	}
	return "its signature doesn't match the provider's keys"
}

// checkToken makes the checks that the library leaves to its users.
func checkToken(id *oidc.IDToken, accessToken string, want expected, now time.Time) error {
	var c idClaims
	if err := id.Claims(&c); err != nil {
		return errors.New("some of its claims have the wrong type")
	}
	switch {
	case want.nonce == "" || subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(want.nonce)) != 1:
		return errors.New("it doesn't belong to this sign-in (nonce)")
	case len(id.Audience) > 1 && c.AuthorizedParty == "":
		return errors.New("it was issued for several clients and doesn't say which one asked for it (azp)")
	case c.AuthorizedParty != "" && c.AuthorizedParty != want.clientID:
		return errors.New("another client asked for it (azp)")
	case id.Subject == "" || len(id.Subject) > subjectMax || strings.ContainsFunc(id.Subject, isControl):
		return errors.New("it has no valid subject (sub)")
	case c.IssuedAt == nil:
		return errors.New("it doesn't say when it was issued (iat)")
	case id.IssuedAt.After(now.Add(skewMax)):
		return errors.New("it was issued in the future (iat); check the provider's clock")
	case id.IssuedAt.Before(want.begun.Add(-skewMax)):
		return errors.New("it was issued before this sign-in started (iat); check the provider's clock")
	case c.NotBefore != nil && time.Unix(int64(*c.NotBefore), 0).After(now.Add(skewMax)):
		return errors.New("it isn't valid yet (nbf); check the provider's clock")
	}
	if id.AccessTokenHash != "" {
		if err := id.VerifyAccessToken(accessToken); err != nil {
			return errors.New("it belongs to another access token (at_hash)")
		}
	}
	return nil
}

// person reads the claims, of the id token first; what is missing there is asked for at
// the provider's userinfo endpoint.
func (p *provider) person(ctx context.Context, client *http.Client, id *oidc.IDToken, token *oauth2.Token, groupsClaim string) (person, error) {
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return person{}, refused(err, "can't read the provider's ID token")
	}
	_, hasGroups := lookUp(claims, groupsClaim)
	if _, hasEmail := claims["email"]; (!hasGroups || !hasEmail) && p.library.UserInfoEndpoint() != "" && token.AccessToken != "" {
		more, err := p.library.UserInfo(oidc.ClientContext(ctx, client), oauth2.StaticTokenSource(token))
		if err != nil {
			return person{}, unreachable(err, "can't reach the provider's userinfo endpoint")
		}
		if more.Subject != id.Subject {
			return person{}, refused(nil, "the provider's userinfo endpoint returned another person (sub)")
		}
		added := map[string]any{}
		if err := more.Claims(&added); err != nil {
			return person{}, refused(err, "can't read the provider's userinfo")
		}
		for k, v := range added {
			if _, ok := claims[k]; !ok {
				claims[k] = v
			}
		}
	}
	groups, err := groupsOf(claims, groupsClaim)
	if err != nil {
		return person{}, err
	}
	_, hasGroups = lookUp(claims, groupsClaim)
	out := person{subject: id.Subject, groups: groups, name: displayName(claims), hasGroups: hasGroups, claims: slices.Sorted(maps.Keys(claims))}
	out.claims = out.claims[:min(len(out.claims), claimsMax)]
	out.unverified = claims["email_verified"] == false || claims["email_verified"] == "false"
	if text, ok := claims["email"].(string); ok {
		if out.email, err = mail.Address(text); err != nil {
			out.email = "" // None opens nothing.
		}
	}
	return out, nil
}

// lookUp finds a claim by its name, or by a path of names through objects
// (realm_access.roles), as some providers nest them.
func lookUp(claims map[string]any, name string) (any, bool) {
	if v, ok := claims[name]; ok {
		return v, true
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner, ok := claims[name[:i]].(map[string]any); ok {
			if v, ok := lookUp(inner, name[i+1:]); ok {
				return v, true
			}
		}
	}
	return nil, false
}

// groupsOf reads a list of groups. None at all is an empty list; one that the provider
// left out because it was too long is not.
func groupsOf(claims map[string]any, name string) ([]string, error) {
	if elsewhere, ok := claims["_claim_names"].(map[string]any); ok && elsewhere[name] != nil {
		return nil, groupsLeftOut()
	}
	v, ok := lookUp(claims, name)
	if !ok || v == nil {
		return nil, nil
	}
	if one, ok := v.(string); ok {
		return []string{one}, nil
	}
	list, ok := v.([]any)
	if !ok || len(list) > groupsMax {
		return nil, refused(nil, "the claim %q must be a list of at most %d group names", name, groupsMax)
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		g, ok := e.(string)
		if !ok {
			return nil, refused(nil, "the claim %q must be a list of group names; it contains something else", name)
		}
		if !slices.Contains(out[max(0, len(out)-1):], g) {
			out = append(out, g)
		}
	}
	return out, nil
}

// groupsLeftOut is for a person in more groups than the provider sends.
func groupsLeftOut() *problem {
	return refused(nil, "the provider left the groups out because there are too many; have it send only the groups that are assigned to this application")
}

func displayName(claims map[string]any) string {
	for _, k := range []string{"name", "preferred_username"} {
		if text, ok := claims[k].(string); ok && strings.TrimSpace(text) != "" {
			return shortName(text)
		}
	}
	return ""
}

func shortName(text string) string {
	text = clip(strings.TrimSpace(text))
	if r := []rune(text); len(r) > nameMax {
		text = string(r[:nameMax])
	}
	return text
}

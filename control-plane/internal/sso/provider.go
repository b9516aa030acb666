package sso

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
)

const (
	// freshFor is how long a discovery document is used without reading it again.
	freshFor = 10 * time.Minute
	// goodFor is how long it is used while the provider does not answer.
	goodFor = 24 * time.Hour
	// failedFor is how long a provider that is down is not asked again.
	failedFor = 10 * time.Second
	// cachedMax bounds the memory for providers.
	cachedMax = 1000

	// skewMax is how far a provider's clock may be from ours.
	skewMax = 60 * time.Second
)

// algorithms are those a token may be signed with; never "none", never one with a shared
// secret, for which a public key could be taken.
func algorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}
}

// provider is an issuer's discovered configuration.
type provider struct {
	library *oidc.Provider
	said    discovery
	keys    oidc.KeySet
	read    time.Time
}

// discovery is the part of the document that the library does not look at.
type discovery struct {
	JWKS           string   `json:"jwks_uri"`
	AuthMethods    []string `json:"token_endpoint_auth_methods_supported"`
	Challenges     []string `json:"code_challenge_methods_supported"`
	AnswersWithIss bool     `json:"authorization_response_iss_parameter_supported"`
	Algorithms     []string `json:"id_token_signing_alg_values_supported"`
	ResponseTypes  []string `json:"response_types_supported"`
}

// providers caches what was read, per connection: two tenants with the same issuer share
// nothing.
type providers struct {
	client *http.Client
	egress egress.Options
	now    func() time.Time

	mu  sync.Mutex
	all map[string]*cached // Guarded by mu. By tenant, connection and settings.
}

type cached struct {
	mu       sync.Mutex // Held while reading, so that one reads for all who wait.
	good     *provider  // Guarded by mu, like the rest.
	failed   error
	failedAt time.Time
}

func newProviders(client *http.Client, o egress.Options, now func() time.Time) *providers {
	return &providers{client: client, egress: o, now: now, all: map[string]*cached{}}
}

// get gives a connection's provider, read now if fresh is asked for.
func (p *providers) get(ctx context.Context, tenantID, connectionID string, settings int64, issuer string, fresh bool) (*provider, error) {
	c := p.entry(fmt.Sprintf("%s/%s/%d", tenantID, connectionID, settings))
	c.mu.Lock()
	defer c.mu.Unlock()
	now := p.now()
	if !fresh {
		if c.good != nil && now.Sub(c.good.read) < freshFor {
			return c.good, nil
		}
		if c.failed != nil && now.Sub(c.failedAt) < failedFor {
			return c.lastGood(now)
		}
	}
	// It is for all who ask meanwhile, so it doesn't end with whoever came first; the client has
	// a limit of its own.
	got, err := p.discover(context.WithoutCancel(ctx), issuer)
	if err != nil {
		c.failed, c.failedAt = err, now
		if fresh {
			return nil, err
		}
		return c.lastGood(now)
	}
	if c.good != nil && c.good.said.JWKS == got.said.JWKS {
		got.keys = c.good.keys // With what it has read, and the count of its readings.
	}
	c.good, c.failed = got, nil
	return got, nil
}

func (c *cached) lastGood(now time.Time) (*provider, error) {
	if c.good != nil && now.Sub(c.good.read) < goodFor {
		return c.good, nil
	}
	return nil, c.failed
}

func (p *providers) entry(key string) *cached {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.all[key]; ok {
		return c
	}
	if len(p.all) >= cachedMax {
		clear(p.all) // Reading again is cheap; only an attacker causes it.
	}
	c := &cached{}
	p.all[key] = c
	return c
}

// discover reads an issuer's document and checks all of it that we rely on.
func (p *providers) discover(ctx context.Context, issuer string) (*provider, error) {
	library, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), issuer)
	if err != nil {
		return nil, discoveryProblem(err)
	}
	got := &provider{library: library, read: p.now()}
	if err := library.Claims(&got.said); err != nil {
		return nil, discoveryProblem(err)
	}
	if err := p.check(got); err != nil {
		return nil, err
	}
	got.keys = oidc.NewRemoteKeySet(oidc.ClientContext(ctx, p.keyClient()), got.said.JWKS)
	e := library.Endpoint()
	// Made again, since the library reads the keys of signed userinfo by itself.
	got.library = (&oidc.ProviderConfig{
		IssuerURL: issuer, AuthURL: e.AuthURL, TokenURL: e.TokenURL, UserInfoURL: library.UserInfoEndpoint(), JWKSURL: got.said.JWKS, Algorithms: got.signed(),
	}).NewProvider(oidc.ClientContext(ctx, p.keyClient()))
	return got, nil
}

func (p *providers) check(got *provider) error {
	e := got.library.Endpoint()
	for name, text := range map[string]string{
		"authorization_endpoint": e.AuthURL, "token_endpoint": e.TokenURL, "jwks_uri": got.said.JWKS, "userinfo_endpoint": got.library.UserInfoEndpoint(),
	} {
		if text == "" && name == "userinfo_endpoint" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || text == "" || u.Fragment != "" {
			return providerDown(err, "its discovery document has no valid %s", name)
		}
		if err := p.egress.CheckURL(u); err != nil {
			return providerDown(err, "its discovery document has a %s that can't be used: %s", name, err)
		}
	}
	if len(got.said.Challenges) > 0 && !slices.Contains(got.said.Challenges, "S256") {
		return providerDown(nil, "the provider doesn't support PKCE with S256; turn it on for this client")
	}
	if len(got.said.ResponseTypes) > 0 && !slices.Contains(got.said.ResponseTypes, "code") {
		return providerDown(nil, "the provider doesn't support the authorization code flow; turn it on for this client")
	}
	if len(got.signed()) == 0 {
		return providerDown(nil, "the provider uses none of the supported signing algorithms: %v", algorithms())
	}
	return nil
}

// signed are the algorithms of this provider that we accept.
func (p *provider) signed() []string {
	if len(p.said.Algorithms) == 0 {
		return []string{oidc.RS256} // Mandatory for every provider.
	}
	return slices.DeleteFunc(algorithms(), func(a string) bool { return !slices.Contains(p.said.Algorithms, a) })
}

// oauth is how codes are asked for and exchanged.
func (p *provider) oauth(clientID, secret, redirectURI string, scopes []string) *oauth2.Config {
	e := p.library.Endpoint()
	// Never left to trial: a second try would send the code again.
	e.AuthStyle = oauth2.AuthStyleInHeader
	basic := len(p.said.AuthMethods) == 0 || slices.Contains(p.said.AuthMethods, "client_secret_basic")
	if secret == "" || !basic {
		e.AuthStyle = oauth2.AuthStyleInParams
	}
	all := []string{oidc.ScopeOpenID, oidc.ScopeEmail, oidc.ScopeProfile}
	for _, s := range scopes {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return &oauth2.Config{ClientID: clientID, ClientSecret: secret, Endpoint: e, RedirectURL: redirectURI, Scopes: all}
}

// Package urls owns the addresses that the control plane shows to people and programs.
// It must not know who serves them. Surprising: the secret of a one-time link stands in
// the fragment, because a browser sends that to no server, so no log can hold it.
package urls

import (
	"fmt"
	"net/url"
	"strings"
)

// URLs makes addresses.
type URLs struct {
	// Public is where the console and this API are, without a slash at the end.
	Public string
	tenant func(name string) string
}

// New checks public, and takes the form of a tenant's URL.
func New(public string, tenant func(name string) string) (URLs, error) {
	public = strings.TrimRight(public, "/")
	u, err := url.Parse(public)
	if err != nil {
		return URLs{}, fmt.Errorf("public URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return URLs{}, fmt.Errorf("public URL %q: use http(s)://host[:port]", public)
	}
	return URLs{Public: public, tenant: tenant}, nil
}

// Tenant is the base URL of a tenant's jobs.
func (u URLs) Tenant(name string) string { return strings.TrimRight(u.tenant(name), "/") }

// RedirectURI is where the OpenID providers of a tenant send people back to. No other tenant's
// provider has it, so where a code arrives tells whose it can be.
func (u URLs) RedirectURI(tenantID string) string {
	return u.Public + "/auth/oidc/" + tenantID + "/callback"
}

// SharedRedirectURI is that of all tenants, from before each had its own.
func (u URLs) SharedRedirectURI() string { return u.Public + "/auth/oidc/callback" }

// OIDCStart is where people of a tenant begin to sign in by its provider.
func (u URLs) OIDCStart(tenant string) string {
	return u.Public + "/auth/oidc/start?tenant=" + url.QueryEscape(tenant)
}

// SAMLACS is where the SAML provider of a connection sends people back to.
func (u URLs) SAMLACS(connection string) string {
	return u.Public + "/auth/saml/" + connection + "/acs"
}

// SAMLMetadata is a SAML connection's metadata, and its entity id.
func (u URLs) SAMLMetadata(connection string) string {
	return u.Public + "/auth/saml/" + connection + "/metadata"
}

// Console is a page of the console; path begins with a slash.
func (u URLs) Console(path string) string { return u.Public + path }

// Link is a one-time link: the token in the fragment of a page of the console.
func (u URLs) Link(path, token string) string {
	return u.Public + path + "#token=" + url.QueryEscape(token)
}

// Secure reports whether browsers come over TLS.
func (u URLs) Secure() bool { return strings.HasPrefix(u.Public, "https://") }

// Package sso owns single sign-on by a tenant's own identity provider, by OpenID Connect or
// SAML 2.0: the connections, their trial, and the browser's way to the provider and back.
//
// It must not know other ways to sign in. A provider is its tenant's and is trusted for
// nothing else. A user is (connection, issuer, subject), made at the first sign-in and
// belonging to that tenant alone; an address that a provider tells is shown, and compared only
// with what the tenant itself says (its removals and invitations, its directory), so no
// provider can speak for the address of somebody elsewhere. One that the provider doesn't
// vouch for opens nothing there either. Roles come from the connection's own table of groups,
// at every sign-in.
//
// A sign-in is one-time state in the database, tied to the browser by a cookie of its own.
// It dies with its first use, whatever becomes of it. The library checks signature,
// issuer, audience and expiry; the rest (nonce, azp, at_hash, iat, iss of the answer) is
// checked here, in verify.go. A SAML response is read by the room saml; here it is tied to
// its request and browser, and its assertion is used up (samlflow.go).
//
// Surprising: turning a connection off, or changing what a trial must repeat, ends the
// sessions that it opened; deleting it removes its members, since nobody could ever
// sign in as them again.
package sso

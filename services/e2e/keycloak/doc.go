// Package keycloak signs people in through a real Keycloak, by OpenID Connect and by SAML:
// an identity provider that others wrote, with its own idea of the standards. `make
// test-keycloak` fetches it and runs this; without it, every test here is skipped.
package keycloak

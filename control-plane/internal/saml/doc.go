// Package saml owns what SAML 2.0 says on the wire: an identity provider's response and a
// connection's settings go in, a verified assertion or a refusal comes out. It also writes
// requests and our metadata, and reads a provider's.
//
// It must not know a store, a tenant or a browser: whether a response was used before, and
// whose browser brought it, is the caller's to check.
//
// A response passes four steps. Its bytes and its tree must have one exact shape (bytes.go,
// shape.go): what is not listed there is refused, so nothing can be wrapped, hidden or said
// twice. Each signature must be made with a pinned certificate (signature.go); what the
// response says about its key is thrown away. The assertion is then read from the bytes that
// were signed, parsed anew (assertion.go). At last crewjam/saml reads the response by itself,
// and both readers must agree (library.go).
//
// Surprising: whatever is wrong with an encrypted assertion before its signature is known to
// be good has the same reason, so that nobody can decrypt by asking.
package saml

// Package egress owns calls to addresses that customers chose, for example of their
// identity provider: it gives an HTTP client that reaches the public internet and
// nothing else.
//
// It must not know what is fetched. A name is resolved once, every address it has must be
// a public one, and the connection goes to an address that was checked, not to the name:
// a name that resolves differently in between changes nothing.
//
// Surprising: redirects are refused, not followed. Nothing we call this way needs one, and
// each would be another address that a stranger chose.
package egress

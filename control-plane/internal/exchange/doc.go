// Package exchange owns machines without a stored secret: which tokens of which outside
// issuers a tenant accepts (a trust), and giving a key of some minutes for such a token.
//
// It must not know sign-in of people, nor what keys may do; a key that it gives is one of the
// trust's service account, and rights, cell and end of it are those of every key. An issuer
// is trusted by one tenant for one service account and nothing else: its tokens are compared
// with the trust's conditions, never read for roles.
//
// What strangers send is looked at in this order: size and form; the issuer, which must be
// that of a trust before anything is fetched; audience and times; the conditions; the networks;
// the signature, by keys of that issuer or pasted ones, never by what the token's header names
// (jku, x5u, jwk). All that fails gets one answer, and the tenant's audit log the reason. A
// reason repeats what the trust says and never what the token says, so that a stranger with a
// token of a public issuer can't write into the log.
//
// Surprising: a condition alone does not make a trust. Everybody in the world has a token of
// GitHub's issuer, so one of the conditions must name an owner (pinned). And a token counts
// once: a table, not memory, says so, for all replicas and over restarts. A database that was
// restored from a copy has forgotten the tokens exchanged since; none older than a day counts.
//
// A change of a trust ends the keys it gave, except of what keys don't have: its name and how
// long the next ones live. Who tightens a condition does not want to ask what got in before.
package exchange

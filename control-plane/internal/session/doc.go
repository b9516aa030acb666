// Package session owns how long a signed-in browser or program stays signed in: opening a
// session, telling whether one still counts, and ending it.
//
// It must not know how somebody proved who they are, nor what a cookie is. Nobody is
// handed a session that existed before: every sign-in makes a new one and ends the one
// the browser came with, so a planted session is worth nothing.
//
// Surprising: a session that is good in one tenant only lives for hours. A tenant's
// identity provider decides about roles at every sign-in, so this is how long somebody
// keeps a role whose group was taken away there; and whoever came by an invitation shows
// with the next sign-in that the mailbox is theirs. And a session that reaches several tenants
// lives as long as the strictest of their policies allows: its use in one of them must not keep
// it fresh for another.
package session

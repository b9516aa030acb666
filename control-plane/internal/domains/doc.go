// Package domains owns the domains that tenants claim: the TXT record that proves one, the
// loop that looks for it again and again, and what follows from it: where people with an
// address of a verified domain sign in.
//
// A domain is verified for one tenant at a time. Another tenant takes it over only if its own
// record is in DNS and the holder's is not: whoever rules the DNS decides, and nobody learns
// who the other one is. A released domain is claimed anew with a new record, so that a record
// that was left behind proves nothing. A verified domain whose record is gone stays verified
// for a week, in which its owners get emails: a mistake in a zone must not change how a
// company signs in. Only an answer of DNS counts as "gone"; while DNS does not answer, nothing
// changes, since a takeover needs an answer anyway.
//
// It must not know how people sign in, or who they are: it goes by the part of an address
// after the last @, and links no account to any other. Surprising: a name means itself
// alone. Who has proved example.com has proved nothing about a.example.com, which may be
// somebody else's.
package domains

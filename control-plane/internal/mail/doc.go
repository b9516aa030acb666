// Package mail owns the emails that the service writes and how they leave: their words,
// as text and as HTML, the rules for an address, the outbox row that carries one, and
// the way to an SMTP server.
//
// It must not know why somebody is written to. Handlers never send: an email is a row
// of the transaction that caused it, sealed, because it holds a link that signs in.
//
// Surprising: an email whose link has expired by the time the SMTP server answers again
// is dropped, not sent: it would only make its reader try something that cannot work.
package mail

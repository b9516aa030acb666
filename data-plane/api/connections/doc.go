// Package connections bounds how many connections a server holds: one that waits for a
// request is closed when there are too many. And it goes on accepting them when that fails.
//
// It must not know requests or credentials: an owner is whatever name the server gives a
// connection once it knows whose it is.
//
// Surprising: a new connection is nearly always let in, and an older one closed for it.
// A limit that keeps new ones out, such as netutil.LimitListener's, lets anybody keep
// everybody out by opening connections and saying nothing.
package connections

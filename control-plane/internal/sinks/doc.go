// Package sinks owns where a tenant's audit log is sent: the sinks that it sets up, the three
// ways to them (HTTPS, S3, syslog over TLS), and the loop that sends.
//
// It must not know who writes entries. Surprising: entries arrive in the order of the chain,
// each at least once, and whatever a sink does holds up nobody's change: the loop reads what
// is written long after it was committed, and a sink that fails is only asked less and less
// often.
package sinks

// Package identity owns what a call inside a cell says about its caller, with what it
// may do in its namespace, and the signature that proves it.
//
// The proxy authenticates an API key once and writes the outcome into X-Corvo-*
// headers, signed with the cell's secret for one path and less than two minutes. A
// node trusts these headers only after Verify; without a valid signature they mean
// nothing, X-Corvo-Proxy-Stream included.
//
// It must not know keys, HTTP routes or error codes.
//
// Surprising: the signature covers the decoded path (url.URL.Path), because that
// is what routers match, and not the method or the body: it proves who calls, not
// what the bytes are. A network that is not trusted needs the cell's mutual TLS.
package identity

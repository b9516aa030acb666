// Package forward carries one HTTP request to another process and its response
// back: proxy to node, node to leader, unary and bidirectional streams alike.
//
// It owns the copying, the removal of hop-by-hop headers and the transport with
// its pings. It must not know tenants, leaders or what a body means: the caller
// picks the target and signs the headers.
//
// Surprising: it exists because httputil.ReverseProxy leaves a worker stream
// hanging when the far side dies or ends it first while the client's request body
// is still open (golang/go#80085, golang/go#78973). Here the outgoing body is a
// pipe that the forwarder itself closes, so that neither side can hold the other.
package forward

// Package conformance holds the rules of jobs and queues as clients see them, each
// as a short program that runs over every protocol: HTTP/JSON, Connect, gRPC and the
// worker stream. A rule that holds on one path and not on another is a bug.
//
// It is a client: it knows the contract and nothing of the server, so that it can
// be pointed at any address (`corvo conformance --server URL`), also at a tenant that
// is at work. It must not import anything of the engine. The surprising fact: rules
// use queues of their own with names that nobody else has, and never sleep; they wait
// for what the rule is about.
package conformance

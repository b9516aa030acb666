// Package ingress serves the public port of the service. Host and path decide whether the
// data plane or the control plane answers a request. Where the control plane is another
// process, its requests are forwarded there.
//
// It must not know keys, sessions or any use case: the plane that answers authenticates
// the request.
//
// Surprising: a tenant's host never reaches the console, not even for /healthz, so that
// cookies and scripts of one can't reach the other.
package ingress

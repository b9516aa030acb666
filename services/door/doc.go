// Package door is the one public port of the service: by host and path it decides
// whether a request is the data plane's, the control plane's or the development
// mailbox's, and carries what is the control plane's to another process where the
// two are apart.
//
// It must not know keys, sessions or any use case: whoever it hands a request to
// authenticates it.
//
// Surprising: a tenant's host never reaches the console, not even for /healthz. A
// cookie or a script of one must have no way to the other.
package door

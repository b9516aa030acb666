// Package server is the control plane's wire: Connect and JSON calls, browsers'
// redirects, the console's files and health, behind one handler.
//
// It owns who calls (authenticate), in which tenant and with which right (gate), and how
// a refusal looks. It must not know what any call does: use cases are handed in as
// Methods, and the gate reads permission and tenant from the proto.
//
// Surprising: a credential is checked before the body is read, but the tenant after,
// because it is a field of the request. Unknown and foreign tenants are found by the same
// look-up in the caller's own memberships, so there is nothing to tell them apart by.
package server

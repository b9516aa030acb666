// Package operators owns who operates the service, and what operators see and change beside
// its host: tenants with their figures, plans, overrides, and how the ledger compares with
// what was paid for.
//
// What an operator changes of a tenant is in that tenant's audit log; the rest is in the
// operators' log. Figures of tenants are stored by a loop, so that a list of ten thousand
// computes none.
//
// It must not know jobs, their payloads, or any way to act in a tenant; and it makes nothing
// that a room owns: plans, usage and stripe do. Surprising: no call makes an operator. The
// commands on the host do, and each call asks the database again.
package operators

// Package tenancy owns the use cases of a tenant's own things: the tenant, its
// namespaces and API keys, reading its audit log, who the caller is, and tokens with
// which a browser reads jobs.
//
// It must not know the wire, nor cells: a change is a row, its audit row and an outbox row
// in one transaction, and somebody else carries it on. The caller's permission for the RPC
// is already checked; what depends on the request (never grant more than one holds) is
// checked here.
//
// Surprising: a call that wants its change to be usable when it returns does not ask the
// cell either. It watches the database for the generation that every proxy confirmed.
package tenancy

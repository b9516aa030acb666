// Package store keeps the control plane's records, in SQLite or PostgreSQL: one schema,
// one set of statements, one conformance suite that both must pass.
//
// A transaction is opened for one tenant, or for the service itself (sign-in, sign-up,
// background loops). Every statement about a tenant's table names the tenant, and on
// PostgreSQL row-level security checks it a second time. Records come and go as plain
// structs; times are time.Time here and Unix nanoseconds in the tables; the zero time
// is "never" or "not yet".
//
// A program opens one Store and does everything in transactions: see the example. Use
// cases write through package change, which adds the audit entry and the outbox rows.
//
// It must not know rules: who may do what, which names are good, what follows from a
// change. Surprising: a changed record is written with the version it was read at, so
// that a lost update is ErrStale and never silent.
package store

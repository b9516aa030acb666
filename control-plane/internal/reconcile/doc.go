// Package reconcile carries changes from the database to where they take effect:
// tenants, namespaces, keys and ended users to their cell, emails to the mail server.
// The other way it fetches what cells know: acts and refusals for the audit log, when keys
// were last used, and what was counted for billing. It also sweeps what has expired.
//
// An outbox row says only that something changed. The loop that takes it reads the
// records as they are now, writes them to the cell as a new generation of the tenant,
// waits until every proxy has applied it, and records that. Everything may be repeated,
// by any number of control planes at once: a claim on a row ends by time, generations
// of a tenant only grow, and records are read in the transaction that draws the
// generation, so that the cell refuses a late loop, which then reads again.
//
// Each cell is asked on its own: one that is away, or has no leader, holds up no other.
//
// The server makes one Loop; use cases get its Wake, Await and CollectActs: see the example.
//
// It must not know use cases, nor what an email says. It never deletes anything in a
// cell: a thing ends there because its record says that it has ended.
//
// Surprising: the records of one tenant travel together, in one entry of the cell's log,
// with what they stand on. So their order in the outbox does not matter, and a sign-up
// costs the cell one entry.
package reconcile

// Package cell owns the desired state of one cell and the membership of its raft
// groups: tenants, namespaces and the shard each lives on, key digests, limits
// and nodes. All of it is replicated in the meta group (raft group 1), which
// every node of the cell carries, so that a proxy or node restarted while the
// control plane is dead serves from its own copy. Sightings, when keys were last used and
// who was refused, and readings, what proxies counted, are in a node's memory alone.
//
// Machine is the deterministic part, View an immutable copy of its state in memory,
// Cell the running group, Membership the changes of who belongs to which group,
// Handler and Client the protocol corvo.cell.v1 between the processes of a cell.
//
// The example starts them in their order, and follows the view. Apply writes, on the
// leader only.
//
// It must not know what a job is, nor check API keys: it stores digests and
// hands them out.
//
// Surprising: the meta group has no commands of its own. Its log entries are
// ApplyRequests as they came in, and a watcher receives the very records that were
// stored. DESIGN.md says why.
package cell

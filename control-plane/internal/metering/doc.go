// Package metering owns the ledger: how readings of sources become what is billed for an hour,
// exactly once, and when an hour is closed.
//
// A source, a shard or a proxy, tells how much it has counted in an hour so far. Of what it
// tells within one epoch the largest numbers are kept, so that readings may be lost, doubled
// and reordered. Epochs of a proxy, which are its runs, add up. Another epoch of a shard is a
// cell that was recovered, perhaps from an older state: of it counts what exceeds both its
// first reading and what the epochs before said, so that nothing is billed twice.
//
// An hour of a cell closes when every source has told of all of it. What comes later makes
// another revision of the row, in the transaction that writes the reading.
//
// It must not know cells, prices or who asks. Surprising: nothing here ever lowers a number. A
// source that says less than before is an alarm, never a credit.
package metering

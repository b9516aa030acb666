// Package calibrate measures what a machine can do without a job queue: how long its
// disk takes to sync, how many batches a store commits, how many entries raft applies.
// Figures of a node are read beside these limits.
//
// It must not know jobs, or what is measured against its figures.
//
// Surprising: raft is measured as it stands in a node, with our log and a state
// machine that stores nothing, because a limit of other code would not limit ours.
package calibrate

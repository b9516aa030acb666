// Package history is the checker of every fault run: what clients of the service were
// told, in the order of one clock, and the rules that no such history may break.
// Nothing acknowledged may be lost (INV-1), no finished job handed out again and no two
// leases complete one job (INV-3), and every second run of a job must have its cause in
// the job's own record (INV-4).
//
// Of all queues, every lease that was handed out and all work on it must have its start among the
// events (CheckHandOuts).
//
// And what the service says of itself at the end: all events of a namespace are replayed, and
// compared with its jobs, lists, batches, chains and schedules (INV-4 to INV-15, INV-19). A
// Register is for calls that must look as if each happened at one moment (INV-18). Replicas
// compares what nodes say of themselves while the faults happen (INV-16, INV-17).
//
// It must not know how faults are made, nor anything of the product beside the Go SDK, the
// wire and what a node answers its cell.
//
// Surprising: acknowledgements are read from the bytes of the worker's stream, below the
// SDK. What the SDK believes is part of what is tested.
package history

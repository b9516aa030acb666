// Package bench measures a Corvo server the way a stranger would: from outside,
// over the public protocols, with a fixed amount of work, and with a proof that
// the numbers are of a queue that kept its promises.
//
// It owns the load generator, the sampling of the server's CPU and memory, and
// the ledger that compares what was accepted with what was handed out. A run in
// which a job was lost, handed out twice or came from nowhere is INVALID however
// fast it was.
//
// It must not know the engine: no package of the server is imported but the one that
// calibrates the machine, and a spawned server is a separate process with its own CPU
// account. Other queues are measured by another program, so that their clients are not
// part of this one.
//
// The surprising fact: the generator shares the machine with the server, so its
// own cost is part of every number. Payloads and items are built once, calls of plain
// HTTP are written by hand and ids found in their answers without decoding them, and
// callers that share a stream ride in common frames, one in flight at a time.
package bench

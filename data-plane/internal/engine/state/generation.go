package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// passGeneration makes what is there of a queue's name a thing of the past; the rows
// are removed piece by piece.
func (x *entry) passGeneration(q *queueRecord) {
	q.gen = max(x.index, q.gen+1) // Never used before: it grows with the log.
	mark := records.SweepMark{Gen: q.gen, At: x.now}
	x.txn.Set(x.m.space.Sweep(q.key.ns, q.key.name), mark.Encode())
	x.txn.DeleteRange(x.m.space.ReadyOf(q.key.ns, q.key.name))
	x.out.Sweep = true
}

// sweepMark reads whether a queue's name is still to be swept.
func (x *entry) sweepMark(ns job.Namespace, queue string) (records.SweepMark, bool) {
	return find(x, x.m.space.Sweep(ns, queue), "sweep mark", records.DecodeSweepMark)
}

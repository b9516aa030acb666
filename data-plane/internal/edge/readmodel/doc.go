// Package readmodel owns the searchable copy of jobs: one SQLite file per
// namespace, projected from the change feed on the node that leads the
// namespace's shard, and the queries over it.
//
// It may be late and says by how much; it must not lie, drop or decide anything.
// It must not know protocols, raft or who proposes: it reads committed state and
// the feed, and nothing ever waits for it. A file is never the only copy of
// anything, so one that is damaged or of another version is deleted and rebuilt
// from the state in the background, while queries answer what is there.
//
// A node opens one folder, and each shard that it leads runs a projector over it:
//
//	models, err := readmodel.OpenDir(dir, logger)
//	p := readmodel.NewProjector(models, store, hub, logger)
//	p.Run(ctx)                                    // In a goroutine, until the lead is lost.
//	page, err := p.List(ctx, ns, reader, &filter) // By any number of callers meanwhile.
//
// The surprising fact: events only say which jobs changed. A row's content is read
// from the state after them. So a job that went through three states since
// the last round is one write, repetition is harmless, and a rebuild and the feed
// can write the same file in any order.
package readmodel

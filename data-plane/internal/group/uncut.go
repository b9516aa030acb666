package group

import "fmt"

// uncut is the log under raft: it stops the node instead of cutting off entries that
// the state has applied. Applied entries were committed, and raft never takes a
// committed entry back; a leader who asks for it was elected by nodes that have
// forgotten. What is on disk then may be the only full copy.
type uncut struct {
	LogStore
	applied func() uint64
	covered func() (uint64, error)
	fatal   func(from, last uint64)
}

// DeleteRange deletes a prefix, which is compaction, or a suffix above what was
// applied. A log that ends before the applied index lies below an installed snapshot,
// and nothing of it counts any more.
func (l *uncut) DeleteRange(from, to uint64) error {
	first, err := l.FirstIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	last, err := l.LastIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	applied := l.applied()
	if to < last || from > applied || last < applied {
		return l.LogStore.DeleteRange(from, to)
	}
	covered, err := l.covered()
	if err != nil {
		return err
	}
	if from == first && to <= covered { // Compaction of the whole log.
		return l.LogStore.DeleteRange(from, to)
	}
	l.fatal(from, last)
	return ErrCutApplied
}

func (g *Group) cannotCut(from, last uint64) {
	g.fatal(fmt.Errorf("group %d: %w: the leader wants entries %d to %d replaced, and %d is applied; keep this folder: it may be the only one that has them",
		g.id, ErrCutApplied, from, last, g.AppliedIndex()))
}

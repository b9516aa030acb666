package group

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// cutLog notes how far the state is, and makes it durable and lets raft cut its log
// once enough bytes were applied; entries hold hundreds of jobs, so counting entries would not bound anything.
func (g *Group) cutLog() {
	defer g.wg.Done()
	tick := time.NewTicker(snapshotPoll)
	defer tick.Stop()
	var lastBytes, lastIndex uint64
	for {
		select {
		case <-tick.C:
		case <-g.stop:
			return
		}
		if err := g.log.noteRest(); err != nil {
			g.logger.Warn("log", "err", err)
		}
		bytes, index := g.fsm.bytes.Load(), g.AppliedIndex()
		if bytes-lastBytes < snapshotBytes {
			continue
		}
		if err := g.snapshot(bytes-lastBytes, index-lastIndex); err != nil {
			g.logger.Warn("snapshot", "err", err)
			continue
		}
		lastBytes, lastIndex = bytes, index
	}
}

func (g *Group) snapshot(bytes, entries uint64) error {
	keep := min(max(trailingBytes/max(bytes/max(entries, 1), 1), trailingMin), trailingEntries)
	g.reload.Lock()
	rc := raft.ReloadableConfig{
		TrailingLogs: keep, SnapshotInterval: 2 * time.Minute, SnapshotThreshold: snapshotThreshold,
		HeartbeatTimeout: g.raft.ReloadableConfig().HeartbeatTimeout, ElectionTimeout: g.raft.ReloadableConfig().ElectionTimeout,
	}
	err := g.raft.ReloadConfig(rc)
	g.reload.Unlock()
	if err != nil {
		return fmt.Errorf("set trailing logs: %w", err)
	}
	return g.Snapshot()
}

// Snapshot makes the state durable and lets raft cut its log.
func (g *Group) Snapshot() error {
	if err := g.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("snapshot group %d: %w", g.id, err)
	}
	return nil
}

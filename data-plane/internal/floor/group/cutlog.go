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
	var lastBytes uint64
	for {
		select {
		case <-tick.C:
		case <-g.stop:
			return
		}
		if err := g.log.noteRest(); err != nil {
			g.logger.Warn("log", "err", err)
		}
		bytes := g.fsm.bytes.Load()
		if bytes-lastBytes < snapshotBytes {
			continue
		}
		if err := g.snapshot(trailingBytes); err != nil {
			g.logger.Warn("snapshot", "err", err)
			continue
		}
		lastBytes = bytes
	}
}

// snapshot makes the state durable and cuts the log to its newest entries, of so many
// bytes. Raft counts them in entries, and these are of any size: so they are looked up.
func (g *Group) snapshot(trailing uint64) error {
	keep, err := g.log.NewestWithin(trailing)
	if err != nil {
		return fmt.Errorf("measure the log: %w", err)
	}
	g.reload.Lock()
	rc := raft.ReloadableConfig{
		TrailingLogs: min(keep, trailingEntries), SnapshotInterval: 2 * time.Minute, SnapshotThreshold: snapshotThreshold,
		HeartbeatTimeout: g.raft.ReloadableConfig().HeartbeatTimeout, ElectionTimeout: g.raft.ReloadableConfig().ElectionTimeout,
	}
	err = g.raft.ReloadConfig(rc)
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

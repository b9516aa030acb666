package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
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
		if err := errors.Join(g.log.noteRest(), g.keepForSlowest()); err != nil {
			g.logger.Warn("log", "err", err)
		}
		bytes := g.fsm.bytes.Load()
		if bytes-lastBytes < min(snapshotBytes, g.logBytes()) {
			continue
		}
		if err := g.snapshot(); err != nil {
			g.logger.Warn("snapshot", "err", err)
			continue
		}
		lastBytes = bytes
	}
}

// snapshot makes the state durable and cuts the log.
func (g *Group) snapshot() error {
	keep, err := g.trailing()
	if err != nil {
		return err
	}
	if err := g.keepEntries(keep); err != nil {
		return err
	}
	return g.Snapshot()
}

// trailing is how many of the newest entries stay in the log: what so many bytes hold,
// and what the slowest voter lacks as far as the budget goes. Raft counts entries, and these
// are of any size: so they are looked up.
func (g *Group) trailing() (uint64, error) {
	budget := g.logBytes()
	usual, err := g.log.NewestWithin(min(g.trailingBytes, budget))
	if err != nil {
		return 0, fmt.Errorf("measure the log: %w", err)
	}
	usual = min(usual, trailingEntries)
	lacks := g.lacks()
	if lacks <= usual || g.health.Level() > health.Fit {
		return usual, nil
	}
	most, err := g.log.NewestWithin(budget)
	if err != nil {
		return 0, fmt.Errorf("measure the log: %w", err)
	}
	return max(usual, min(lacks, most)), nil
}

// Forget cuts the log through an entry and removes what it held from the disk, so that
// nothing of those entries is left in this replica but what they did. It reports whether
// that is done: what a voter still lacks stays.
func (g *Group) Forget(ctx context.Context, through uint64) (done bool, err error) {
	last := g.raft.LastIndex()
	if keep := last - min(last, through); g.lacks() <= keep {
		if err := g.keepEntries(keep); err != nil {
			return false, err
		}
		err := g.takeSnapshot()
		if errors.Is(err, raft.ErrNothingNewToSnapshot) {
			err = g.cutThrough(min(through, g.began.index))
		}
		// Raft cuts by itself, too: for that it is left what it began with.
		if err := errors.Join(err, g.keepEntries(trailingEntries)); err != nil {
			return false, err
		}
	}
	first, err := g.log.FirstIndex()
	if err != nil || first != 0 && first <= through {
		return false, err
	}
	return true, g.log.Compact(ctx)
}

// lacks is how many entries the slowest voter has not said to have.
func (g *Group) lacks() uint64 {
	last := g.raft.LastIndex()
	lacks := uint64(0)
	for id, has := range g.said() {
		if id != g.nodeID {
			lacks = max(lacks, last-min(last, has))
		}
	}
	return lacks
}

// said is how far each voter has said it is; those that never said anything are not in it.
func (g *Group) said() map[string]uint64 {
	out := make(map[string]uint64)
	for _, s := range g.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		if has, known := g.committed(string(s.ID)); known {
			out[string(s.ID)] = has
		}
	}
	return out
}

// keepForSlowest raises what raft leaves when it cuts the log by itself, and notices
// voters for which that was not enough.
func (g *Group) keepForSlowest() error {
	if err := g.noteBehind(); err != nil {
		return err
	}
	if g.lacks() <= trailingEntries/2 {
		return nil
	}
	keep, err := g.trailing()
	if err != nil || keep <= g.raft.ReloadableConfig().TrailingLogs {
		return err
	}
	return g.keepEntries(keep)
}

// noteBehind finds the voters that the log cannot bring up to date any more.
func (g *Group) noteBehind() error {
	first, err := g.log.FirstIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	var behind []string
	for id, has := range g.said() {
		if first > 0 && has+1 < first && id != g.nodeID {
			behind = append(behind, fmt.Sprintf("%s (at %d, the log begins at %d)", id, has, first))
		}
	}
	slices.Sort(behind)
	why := ""
	if len(behind) > 0 {
		why = "too far behind for the log, so it gets the whole state: " + strings.Join(behind, ", ")
	}
	if old := g.behind.Swap(&why); why != "" && (old == nil || *old == "") && g.Leading() {
		g.logger.Warn("the log that is kept isn't enough for a voter; --log-bytes-max bounds it", "why", why)
	}
	return nil
}

// Behind is which voters need the whole state, or "".
func (g *Group) Behind() string {
	if why := g.behind.Load(); why != nil {
		return *why
	}
	return ""
}

// keepEntries sets what raft leaves of the log.
func (g *Group) keepEntries(keep uint64) error {
	g.reload.Lock()
	defer g.reload.Unlock()
	usual := g.raft.ReloadableConfig()
	rc := raft.ReloadableConfig{
		TrailingLogs: keep, SnapshotInterval: 2 * time.Minute, SnapshotThreshold: snapshotThreshold,
		HeartbeatTimeout: usual.HeartbeatTimeout, ElectionTimeout: usual.ElectionTimeout,
	}
	if err := g.raft.ReloadConfig(rc); err != nil {
		return fmt.Errorf("set trailing logs: %w", err)
	}
	return nil
}

// Snapshot makes the state durable and lets raft cut its log.
func (g *Group) Snapshot() error {
	if err := g.takeSnapshot(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return err
	}
	return nil
}

func (g *Group) takeSnapshot() error {
	if err := g.raft.Snapshot().Error(); err != nil {
		return fmt.Errorf("snapshot group %d: %w", g.id, err)
	}
	return nil
}

// cutThrough cuts the log through an entry as raft does behind a snapshot, which it makes of nothing
// that it has not seen applied since the start. The entry is at or below where the state was then: that is
// the snapshot that raft was told of, so it needs nothing of the log before it.
func (g *Group) cutThrough(through uint64) error {
	if err := g.fsm.raise(g.began.index, g.began.term); err != nil {
		return fmt.Errorf("make group %d durable: %w", g.id, err)
	}
	first, err := g.log.FirstIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	last, err := g.log.LastIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	if through = min(through, last); first == 0 || first > through {
		return nil
	}
	return g.log.DeleteRange(first, through)
}

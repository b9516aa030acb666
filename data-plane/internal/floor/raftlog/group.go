package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/raft"
)

var (
	_ raft.LogStore    = (*Group)(nil)
	_ raft.StableStore = (*Group)(nil)
)

// Group is the log and the stable values of one raft group.
//
// It does not implement raft.MonotonicLogStore, although its log never has a
// gap. The library would then empty the log of a follower after every snapshot
// it installs, entries above the snapshot included, and a follower may have
// acknowledged those. See StoreLogs for how a gap is closed instead.
type Group struct {
	store *Store
	id    uint32

	// write serialises StoreLogs and DeleteRange: raft calls the first from its
	// main goroutine and the second also from its snapshot goroutine. Whoever put its token
	// in writes. No mutex: it is held while the disk works, which in virtual time only a
	// wait for a channel lets pass.
	write chan struct{}

	// mu guards what follows. It is never held across a commit, so readers do
	// not wait for the disk.
	mu      sync.RWMutex
	first   uint64 // 0 when the log is empty.
	last    uint64 // 0 when the log is empty. Durable: its commit has returned.
	before  uint64 // Cumulative bytes just before first.
	through uint64 // Cumulative bytes through last.
	tail    tail
	broken  error // What was wrong with the log at Open.
}

func newGroup(s *Store, id uint32) *Group {
	g := &Group{store: s, id: id, write: make(chan struct{}, 1), tail: tail{bytesMax: s.opts.TailBytes}}
	if err := g.load(); err != nil {
		g.broken = fmt.Errorf("load raft log of group %d: %w", id, err)
	}
	return g
}

// load finds the ends of the log on disk.
func (g *Group) load() (err error) {
	if err := g.store.enter(); err != nil {
		return err
	}
	defer g.store.life.RUnlock()
	lower, upper := entrySpan(g.id)
	it, err := g.store.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.First() {
		return it.Error()
	}
	first, cumulative, err := g.entryAt(it)
	if err != nil {
		return err
	}
	g.first, g.before = first.Index, cumulative-entryBytes(&first)
	if !it.Last() {
		return it.Error()
	}
	last, cumulative, err := g.entryAt(it)
	if err != nil {
		return err
	}
	g.last, g.through = last.Index, cumulative
	return nil
}

func (g *Group) entryAt(it *pebble.Iterator) (raft.Log, uint64, error) {
	if len(it.Key()) != entryKeyBytes {
		return raft.Log{}, 0, fmt.Errorf("%w: entry key of %d bytes", ErrCorrupt, len(it.Key()))
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return raft.Log{}, 0, err
	}
	return g.decode(it.Key(), value)
}

func (g *Group) decode(key, value []byte) (raft.Log, uint64, error) {
	log, cumulative, err := decodeEntry(key, value)
	log.Index = entryIndex(key)
	if err != nil {
		return log, 0, fmt.Errorf("group %d index %d: %w", g.id, log.Index, err)
	}
	return log, cumulative, nil
}

// FirstIndex returns the index of the oldest entry, 0 if there is none.
func (g *Group) FirstIndex() (uint64, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.first, g.broken
}

// LastIndex returns the index of the newest durable entry, 0 if there is none.
func (g *Group) LastIndex() (uint64, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.last, g.broken
}

// Bytes returns what the group's entries occupy, keys included.
func (g *Group) Bytes() uint64 {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.through - g.before
}

// GetLog reads one entry into log. The Data and Extensions it sets may be shared
// with other readers and must not be changed.
func (g *Group) GetLog(index uint64, log *raft.Log) error {
	g.mu.RLock()
	broken, stored := g.broken, g.first != 0 && index >= g.first && index <= g.last
	cached := stored && g.tail.get(index, log)
	g.mu.RUnlock()
	switch {
	case broken != nil:
		return broken
	case !stored:
		return raft.ErrLogNotFound
	case cached:
		g.store.tailReads.Add(1)
		return nil
	}
	if err := g.store.enter(); err != nil {
		return err
	}
	defer g.store.life.RUnlock()
	read, _, err := g.read(index)
	if err != nil {
		return err
	}
	*log = read
	return nil
}

// read gets an entry and its cumulative bytes from Pebble. The caller has
// entered the store: entering twice would deadlock with a Close in between.
func (g *Group) read(index uint64) (raft.Log, uint64, error) {
	g.store.pebbleReads.Add(1)
	key := entryKey(g.id, index)
	value, closer, err := g.store.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		// Compaction may have passed between the bounds check and the read.
		return raft.Log{}, 0, raft.ErrLogNotFound
	}
	if err != nil {
		return raft.Log{}, 0, fmt.Errorf("read group %d index %d: %w", g.id, index, err)
	}
	log, cumulative, err := g.decode(key, value)
	return log, cumulative, errors.Join(err, closer.Close())
}

// StoreLog stores one entry.
func (g *Group) StoreLog(log *raft.Log) error { return g.StoreLogs([]*raft.Log{log}) }

// StoreLogs stores consecutive entries in one batch and returns when it is
// durable.
//
// An entry that leaves a gap behind the last stored one replaces the whole log
// in the same batch. Raft appends past a gap only after a snapshot up to it, so
// everything before the gap is covered by that snapshot and may even be from a
// history that lost. An entry at or below the last index is a bug of the caller:
// raft truncates a conflicting suffix first.
func (g *Group) StoreLogs(logs []*raft.Log) error { return g.storeLogs(logs, nil, nil) }

// StoreLogsAnd is StoreLogs and SetUint64 in one batch, with one sync.
func (g *Group) StoreLogsAnd(logs []*raft.Log, key []byte, value uint64) error {
	return g.storeLogs(logs, stableKey(g.id, key), binary.BigEndian.AppendUint64(nil, value))
}

func (g *Group) storeLogs(logs []*raft.Log, key, value []byte) error {
	if len(logs) == 0 {
		return nil
	}
	defer g.store.opts.Watch(OpStoreLogs)()
	g.write <- struct{}{}
	defer func() { <-g.write }()
	if err := g.store.enter(); err != nil {
		return err
	}
	defer g.store.life.RUnlock()

	// Only holders of write change these, so they cannot move below.
	first, last, through, err := g.ends()
	if err != nil {
		return err
	}
	if err := checkOrder(g.id, last, logs); err != nil {
		return err
	}
	batch := g.store.db.NewBatchWithSize(batchBytes(logs))
	replaced := last != 0 && logs[0].Index > last+1
	if replaced {
		g.store.opts.Logger.Warn("raft log restarts after a snapshot",
			"group", g.id, "dropped_from", first, "dropped_to", last, "restart", logs[0].Index)
		if err := g.deleteKeys(batch, first, last); err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	base := through
	through, err = g.put(batch, logs, through)
	if err == nil && key != nil {
		err = batch.Set(key, seal(key, value), nil)
	}
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	if err := g.store.commit(batch); err != nil {
		return err
	}
	g.store.entries.Add(uint64(len(logs)))
	g.store.entryBytes.Add(through - base)

	g.mu.Lock()
	defer g.mu.Unlock()
	if replaced {
		g.tail.clear()
	}
	if replaced || g.first == 0 {
		g.first, g.before = logs[0].Index, base
	}
	g.last, g.through = logs[len(logs)-1].Index, through
	g.tail.add(logs)
	return nil
}

func (g *Group) ends() (first, last, through uint64, err error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.first, g.last, g.through, g.broken
}

func checkOrder(group uint32, last uint64, logs []*raft.Log) error {
	if logs[0].Index == 0 || logs[0].Index <= last {
		return fmt.Errorf("group %d: entry %d would overwrite the log, which ends at %d", group, logs[0].Index, last)
	}
	for i, log := range logs[1:] {
		if log.Index != logs[i].Index+1 {
			return fmt.Errorf("group %d: entry %d follows entry %d in one call", group, log.Index, logs[i].Index)
		}
	}
	return nil
}

func batchBytes(logs []*raft.Log) int {
	n := 64 // The batch's own header, rounded up.
	for _, log := range logs {
		n += int(entryBytes(log)) + 16
	}
	return n
}

// put encodes logs straight into batch and returns the new cumulative bytes.
func (g *Group) put(batch *pebble.Batch, logs []*raft.Log, cumulative uint64) (uint64, error) {
	key := make([]byte, 0, entryKeyBytes)
	for _, log := range logs {
		n := entryBytes(log)
		cumulative += n
		key = appendEntryKey(key[:0], g.id, log.Index)
		op := batch.SetDeferred(entryKeyBytes, int(n)-entryKeyBytes)
		copy(op.Key, key)
		value, err := appendEntry(op.Value[:0], key, log, cumulative)
		if err != nil {
			return 0, err
		}
		if len(value) != len(op.Value) {
			panic(fmt.Sprintf("raftlog: group %d index %d encodes to %d bytes, %d reserved", g.id, log.Index, len(value), len(op.Value)))
		}
		if err := op.Finish(); err != nil {
			return 0, fmt.Errorf("encode group %d index %d: %w", g.id, log.Index, err)
		}
	}
	return cumulative, nil
}

func (g *Group) deleteKeys(batch *pebble.Batch, from, to uint64) error {
	if err := batch.DeleteRange(entryKey(g.id, from), entryKey(g.id, to+1), nil); err != nil {
		return fmt.Errorf("delete group %d indexes %d to %d: %w", g.id, from, to, err)
	}
	return nil
}

// DeleteRange deletes entries from lo to hi, both included, from one end of the
// log or all of it, and returns when that is durable.
func (g *Group) DeleteRange(lo, hi uint64) error {
	defer g.store.opts.Watch(OpDeleteRange)()
	g.write <- struct{}{}
	defer func() { <-g.write }()
	if err := g.store.enter(); err != nil {
		return err
	}
	defer g.store.life.RUnlock()

	first, last, _, err := g.ends()
	if err != nil {
		return err
	}
	lo, hi = max(lo, first), min(hi, last)
	switch {
	case first == 0 || lo > hi:
		return nil
	case hi == last:
		return g.deleteSuffix(lo)
	case lo == first:
		return g.deletePrefix(hi)
	default:
		return fmt.Errorf("group %d: deleting %d to %d would leave a hole in %d to %d", g.id, lo, hi, first, last)
	}
}

func (g *Group) deleteSuffix(from uint64) error {
	first, last, _, err := g.ends()
	if err != nil {
		return err
	}
	through := uint64(0)
	if from > first {
		if through, err = g.cumulative(from - 1); err != nil {
			return err
		}
	}
	g.mu.Lock()
	g.tail.dropFrom(from)
	g.mu.Unlock()
	if err := g.commitDelete(from, last); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if from == first {
		g.first, g.last, g.before, g.through = 0, 0, 0, 0
		return nil
	}
	g.last, g.through = from-1, through
	return nil
}

func (g *Group) deletePrefix(to uint64) error {
	first, _, _, err := g.ends()
	if err != nil {
		return err
	}
	before, err := g.cumulative(to)
	if err != nil {
		return err
	}
	if err := g.commitDelete(first, to); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.first, g.before = to+1, before
	g.tail.dropThrough(to)
	return nil
}

func (g *Group) commitDelete(from, to uint64) error {
	batch := g.store.db.NewBatch()
	if err := g.deleteKeys(batch, from, to); err != nil {
		return errors.Join(err, batch.Close())
	}
	return g.store.commit(batch)
}

// Compact removes from the disk what was deleted from this group's log. The bytes are gone
// from the tables; a file of the write-ahead log that Pebble keeps for reuse may still have
// some until it is written over.
func (g *Group) Compact(ctx context.Context) error {
	if err := g.store.enter(); err != nil {
		return err
	}
	defer g.store.life.RUnlock()
	if err := g.store.db.Compact(ctx, entryKey(g.id, 0), entryKey(g.id, math.MaxUint64), false); err != nil {
		return fmt.Errorf("compact the log of group %d: %w", g.id, err)
	}
	return nil
}

// NewestWithin returns how many of the newest entries fit into bytes. It doesn't wait for those
// that are being stored: what is stored or deleted meanwhile may count or not.
func (g *Group) NewestWithin(bytes uint64) (uint64, error) {
	if err := g.store.enter(); err != nil {
		return 0, err
	}
	defer g.store.life.RUnlock()
	first, last, through, err := g.ends()
	if err != nil || first == 0 {
		return 0, err
	}
	beyond, err := g.beyond(bytes, first, last, through)
	return last - beyond, err
}

// beyond returns the last entry from first up to to that lies outside the newest
// bytes of the log, whose entries have through bytes, or first-1 if none does.
func (g *Group) beyond(bytes, first, to, through uint64) (uint64, error) {
	var failed error
	n := sort.Search(int(to-first)+1, func(i int) bool {
		before, err := g.cumulativeBefore(first, first+uint64(i))
		if errors.Is(err, raft.ErrLogNotFound) {
			return false // It was deleted: those before the newest are.
		}
		failed = errors.Join(failed, err)
		return through-before <= bytes
	})
	return first + uint64(n) - 1, failed
}

// cumulativeBefore returns the cumulative bytes of everything before index.
func (g *Group) cumulativeBefore(first, index uint64) (uint64, error) {
	if index > first {
		return g.cumulative(index - 1)
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.before, nil
}

func (g *Group) cumulative(index uint64) (uint64, error) {
	_, cumulative, err := g.read(index)
	if err != nil {
		return 0, fmt.Errorf("size group %d up to %d: %w", g.id, index, err)
	}
	return cumulative, nil
}

// Set stores a stable value and returns when it is durable. It does not return once the store
// has failed, on whatever goroutine: raft panics when its term can't be stored, and that would
// end the process before the failure does, with another status.
func (g *Group) Set(key, value []byte) error {
	defer g.store.opts.Watch(OpSet)()
	defer func() {
		if err := g.store.Err(); err != nil {
			g.store.fail(err)
		}
	}()
	if err := g.store.enter(); err != nil {
		return err
	}
	defer g.store.life.RUnlock()
	if err := g.store.commitStable(stableKey(g.id, key), value); err != nil {
		return fmt.Errorf("set %q of group %d: %w", key, g.id, err)
	}
	return nil
}

// Get returns a stable value, nil if there is none.
func (g *Group) Get(key []byte) ([]byte, error) {
	if err := g.store.enter(); err != nil {
		return nil, err
	}
	defer g.store.life.RUnlock()
	value, err := g.store.readStable(stableKey(g.id, key))
	if err != nil {
		return nil, fmt.Errorf("get %q of group %d: %w", key, g.id, err)
	}
	return value, nil
}

// SetUint64 stores a number as a stable value.
func (g *Group) SetUint64(key []byte, value uint64) error {
	return g.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 returns a stable number, 0 if there is none.
func (g *Group) GetUint64(key []byte) (uint64, error) {
	value, err := g.Get(key)
	if err != nil || value == nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: %q of group %d has %d bytes, not a number", ErrCorrupt, key, g.id, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

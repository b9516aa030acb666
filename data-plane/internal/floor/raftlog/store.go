package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
)

// formatVersion is at least pebble.FormatWALSyncChunks: with sync chunks, a flipped
// bit in the synced part of a WAL can be told from a torn tail; without them the
// replay silently ends there. Raising it is one-way.
const formatVersion = pebble.FormatWALSyncChunks

const (
	defaultTailBytes  = 4 << 20
	defaultCacheBytes = 8 << 20
	// Pebble keeps a spare one, and a start replays one. A larger one gains nothing, as entries are
	// written once and in order; 8 MB costs a tenth with payloads of 1 kB.
	defaultMemTableBytes = 16 << 20

	// memTablesMax bounds memory while flushes lag; a full set stalls commits.
	memTablesMax = 8

	// l0FilesStop is high because a stalled append costs an election, and layers of files that hardly
	// overlap cost little: only the last file of each, which also has the stable values, lies over later ones.
	l0FilesStop = 1000

	// Half as many layers of new files are merged together. The longer they lie, the more of them was
	// cut before it is written again; but a read of an old entry may have to look into each.
	l0Compaction = 16

	// lBaseMax is more than any log: entries are written in order, so a level between the first and
	// the last would only have each of them written once more.
	lBaseMax = 1 << 40

	// exitStorageFailed is EX_IOERR of sysexits(3).
	exitStorageFailed = 74
)

// Names of the operations given to Options.Watch.
const (
	OpStoreLogs   = "raftlog.store_logs"
	OpDeleteRange = "raftlog.delete_range"
	OpSet         = "raftlog.set"
	OpProbe       = "raftlog.probe"
)

// ErrClosed answers every call after Close.
var ErrClosed = errors.New("raft log is closed")

// Options of a Store. The zero value is the durable default.
type Options struct {
	FS     vfs.FS       // Nil means the operating system's.
	Logger *slog.Logger // Nil means slog.Default().

	// Relaxed commits without a sync. A crash of the process or the machine
	// then loses acknowledged entries, votes and terms: single nodes only.
	Relaxed bool

	// AcceptLoss opens a store although acknowledged entries are or may be
	// missing: a relaxed one whose machine went down, or one whose newest write-ahead log
	// is damaged. Of that everything from the damage on is dropped; a copy is kept beside it.
	AcceptLoss bool

	// Watch is called as a synced write begins and the returned function as it
	// ends, so that a watchdog fires while the write is still blocked. Nil turns
	// it off.
	Watch func(op string) (end func())

	// OnDiskSlow is Pebble's own report of a file operation that has been going
	// on for 5 s; it also covers flushes and compactions, which Watch does not see.
	OnDiskSlow func(vfs.DiskSlowInfo)

	// OnFatal ends the process after a failed write or sync (rule R6). It must
	// not return. Nil logs the error and exits with status 74.
	OnFatal func(error)

	TailBytes     int    // Entries kept in memory per group; 0 means 4 MiB, negative none.
	CacheBytes    int64  // Pebble's block cache; 0 means 8 MiB.
	MemTableBytes uint64 // Size of a Pebble memtable; 0 means 16 MiB.

	bootID string // Of the machine; tests set another.
}

// Metrics are counts since Open.
type Metrics struct {
	Commits      uint64 // Write batches committed; concurrent ones share a sync.
	Syncs        uint64 // Syncs of files, nearly all of the write-ahead log.
	Entries      uint64 // Entries stored.
	EntryBytes   uint64 // Bytes of those entries, keys included.
	WALBytes     uint64 // Bytes Pebble wrote to its write-ahead log.
	TailReads    uint64 // Entries read from memory.
	PebbleReads  uint64 // Entries read from Pebble.
	StorageBytes uint64 // Bytes on disk now, write-ahead log included.
}

// Store is the log store of one node. All methods may be called concurrently.
type Store struct {
	db   *pebble.DB
	fs   *disk.CountingFS
	opts Options
	sync *pebble.WriteOptions

	// life is held shared by every operation and exclusively by Close, which
	// therefore waits for writes in flight.
	life   sync.RWMutex
	closed bool // Guarded by life.

	// turn is held to hand a batch to Pebble, which does one at a time anyway, under a mutex that it
	// holds over a sync when it begins another write-ahead log. Virtual time stands still
	// while anybody waits for a mutex (services/sim).
	turn chan struct{}

	mu     sync.Mutex // Guards groups.
	groups map[uint32]*Group

	failure atomic.Pointer[error] // The first failed write; nothing is written after it.

	commits, entries, entryBytes, tailReads, pebbleReads atomic.Uint64
}

// ErrInUse: another process has the store open.
var ErrInUse = errors.New("in use by another process")

// Open opens or creates the store in dir.
func Open(dir string, opts Options) (*Store, error) {
	s := &Store{opts: withDefaults(opts), sync: pebble.Sync, turn: make(chan struct{}, 1), groups: map[uint32]*Group{}}
	failFast := disk.FailFast(disk.Prewriting(disk.Yielding(disk.OrderedMarkers(s.opts.FS))), func(err error) { s.end(fmt.Errorf("raft log: %w", err)) })
	s.fs = disk.Counting(failFast)
	if opts.Relaxed {
		s.sync = pebble.NoSync
	}
	if err := s.checkDamage(dir); err != nil {
		return nil, fmt.Errorf("open raft log %s: %w", dir, err)
	}
	cache := pebble.NewCache(s.opts.CacheBytes)
	defer cache.Unref()

	db, err := pebble.Open(dir, s.pebbleOptions(cache))
	if errors.Is(err, syscall.EAGAIN) { // The lock on the directory is held.
		return nil, fmt.Errorf("open raft log %s: %w", dir, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("open raft log %s: %w", dir, err)
	}
	s.db = db
	err = s.checkLayout()
	if err == nil {
		err = s.checkRelaxed()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open raft log %s: %w", dir, err), db.Close())
	}
	return s, nil
}

func withDefaults(o Options) Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Watch == nil {
		o.Watch = func(string) func() { return func() {} }
	}
	if o.OnDiskSlow == nil {
		o.OnDiskSlow = func(vfs.DiskSlowInfo) {}
	}
	if o.bootID == "" {
		o.bootID = bootID()
	}
	if o.TailBytes == 0 {
		o.TailBytes = defaultTailBytes
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = defaultMemTableBytes
	}
	return o
}

func (s *Store) pebbleOptions(cache *pebble.Cache) *pebble.Options {
	most := max(1, runtime.NumCPU()/2)
	o := &pebble.Options{
		Cache:                       cache,
		FS:                          s.fs,
		FormatMajorVersion:          formatVersion,
		Logger:                      pebbleLogger{s},
		MemTableSize:                s.opts.MemTableBytes,
		MemTableStopWritesThreshold: memTablesMax,
		L0CompactionThreshold:       l0Compaction,
		LBaseMaxBytes:               lBaseMax,
		L0StopWritesThreshold:       l0FilesStop,
		CompactionConcurrencyRange:  func() (int, int) { return 1, most },
		WALMinSyncInterval:          func() time.Duration { return 0 },
		EventListener: &pebble.EventListener{
			DiskSlow:        s.opts.OnDiskSlow,
			BackgroundError: func(err error) { s.fail(fmt.Errorf("raft log background work: %w", err)) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				s.fail(fmt.Errorf("raft log: damaged file %s: %w", info.Path, info.Details))
			},
		},
	}
	// Most entries are deleted before a compaction reads them: compressing them
	// would spend processor time on the path of a flush for nothing.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	if most == 1 {
		o.Experimental.CompactionScheduler = disk.OneCompaction()
	}
	// Disk health checks are only added by default when FS is nil.
	o.WithFSDefaults()
	return o
}

// layoutVersion is the version of our keys and values, apart from Pebble's.
const layoutVersion = 1

func (s *Store) checkLayout() error {
	key := stableKey(ownGroup, []byte("layout"))
	value, err := s.readStable(key)
	if err != nil {
		return fmt.Errorf("read layout version: %w", err)
	}
	switch {
	case value == nil:
		if err := s.commitStable(key, binary.BigEndian.AppendUint64(nil, layoutVersion)); err != nil {
			return err
		}
		// Pebble begins a new store's first write-ahead log before it raises the
		// format version, so that log has no sync chunks. A flush begins the
		// second.
		return s.db.Flush()
	case len(value) != 8 || binary.BigEndian.Uint64(value) != layoutVersion:
		return fmt.Errorf("layout version %x is not %d: written by another version", value, layoutVersion)
	}
	return nil
}

// Group returns the store of one raft group, always the same value for an id. Group
// 0 is reserved. If the group's log on disk is damaged, each of its methods returns
// that error.
func (s *Store) Group(id uint32) *Group {
	if id == ownGroup {
		panic("raftlog: group 0 is reserved")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.groups[id]
	if !ok {
		g = newGroup(s, id)
		s.groups[id] = g
	}
	return g
}

// SyncProbe does what a raft append does, a write and a sync, to see whether the
// disk responds. It is synced even when the store is relaxed.
func (s *Store) SyncProbe() error {
	defer s.opts.Watch(OpProbe)()
	if err := s.enter(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	now := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	batch := s.db.NewBatch()
	if err := batch.Set(stableKey(ownGroup, []byte("probe")), now, nil); err != nil {
		return errors.Join(err, batch.Close())
	}
	return s.commitWith(batch, pebble.Sync)
}

// Metrics returns the counts so far.
func (s *Store) Metrics() Metrics {
	m := Metrics{
		Commits:     s.commits.Load(),
		Syncs:       uint64(s.fs.FileSyncs()),
		Entries:     s.entries.Load(),
		EntryBytes:  s.entryBytes.Load(),
		TailReads:   s.tailReads.Load(),
		PebbleReads: s.pebbleReads.Load(),
	}
	if s.enter() == nil {
		defer s.life.RUnlock()
		p := s.db.Metrics()
		m.WALBytes = p.WAL.BytesWritten
		m.StorageBytes = p.DiskSpaceUsage()
	}
	return m
}

// Err returns the failure that stopped the store, or nil.
func (s *Store) Err() error {
	if p := s.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Close waits for operations in flight and closes the store. Later calls answer
// ErrClosed.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.opts.Relaxed && s.Err() == nil {
		err = s.setRelaxed("")
	}
	if err := errors.Join(err, s.db.Close()); err != nil {
		return fmt.Errorf("close raft log: %w", err)
	}
	return nil
}

// enter begins an operation. The caller unlocks s.life for reading if it
// returned nil.
func (s *Store) enter() error {
	s.life.RLock()
	err := s.Err()
	if s.closed {
		err = ErrClosed
	}
	if err != nil {
		s.life.RUnlock()
	}
	return err
}

// commit writes batch and waits until it is durable. Its error is terminal.
func (s *Store) commit(batch *pebble.Batch) error { return s.commitWith(batch, s.sync) }

func (s *Store) commitWith(batch *pebble.Batch, o *pebble.WriteOptions) error {
	// Pebble panics when its write-ahead log can't be written, as on a full disk.
	defer func() {
		if r := recover(); r != nil {
			s.fail(fmt.Errorf("commit to raft log: %v", r))
		}
	}()
	if err := s.write(batch, o); err != nil {
		s.fail(fmt.Errorf("commit to raft log: %w", err))
	}
	// Pebble may have failed on another goroutine while this one waited.
	if err := s.Err(); err != nil {
		return err
	}
	s.commits.Add(1)
	if err := batch.Close(); err != nil {
		return fmt.Errorf("close raft log batch: %w", err)
	}
	return nil
}

// write gives up its turn before it waits for the sync, so that concurrent batches share one.
func (s *Store) write(batch *pebble.Batch, o *pebble.WriteOptions) error {
	if err := s.hand(batch, o); err != nil || !o.Sync {
		return err
	}
	return batch.SyncWait()
}

func (s *Store) hand(batch *pebble.Batch, o *pebble.WriteOptions) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }() // Pebble may panic.
	if !o.Sync {
		return batch.Commit(o)
	}
	return s.db.ApplyNoSyncWait(batch, o)
}

// commitStable writes one stable value with its checksum.
func (s *Store) commitStable(key, value []byte) error {
	batch := s.db.NewBatch()
	if err := batch.Set(key, seal(key, value), nil); err != nil {
		return errors.Join(err, batch.Close())
	}
	return s.commit(batch)
}

// readStable returns a copy of a stable value, or nil if there is none.
func (s *Store) readStable(key []byte) ([]byte, error) {
	sealed, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value, err := openSealed(key, sealed)
	return value, errors.Join(err, closer.Close())
}

func seal(key, value []byte) []byte {
	sealed := append(make([]byte, 0, len(value)+crc32.Size), value...)
	return binary.BigEndian.AppendUint32(sealed, checksum(key, value))
}

func openSealed(key, sealed []byte) ([]byte, error) {
	n := len(sealed) - crc32.Size
	if n < 0 || checksum(key, sealed[:n]) != binary.BigEndian.Uint32(sealed[n:]) {
		return nil, fmt.Errorf("%w: stable value %q", ErrCorrupt, key)
	}
	return append([]byte{}, sealed[:n]...), nil
}

// fail records the first failure and ends the process. After a failed fsync the
// kernel may have dropped the dirty pages, so a retry that succeeds proves
// nothing: there is no way to carry on.
func (s *Store) fail(err error) {
	s.end(err)
	panic(fmt.Sprintf("raftlog: OnFatal returned after: %v", err))
}

// end returns only if OnFatal does, in a test: then Pebble hears of the error, too.
func (s *Store) end(err error) {
	s.failure.CompareAndSwap(nil, &err)
	if s.opts.OnFatal != nil {
		s.opts.OnFatal(err)
		return
	}
	s.opts.Logger.Error("raft log cannot be written; ending the process", "error", err)
	os.Exit(exitStorageFailed)
}

// pebbleLogger turns Pebble's log lines into slog records. Fatalf does not
// return, which Pebble relies on: it would answer a failed commit with nil.
type pebbleLogger struct{ s *Store }

func (l pebbleLogger) Infof(format string, args ...any)  { l.log(slog.LevelDebug, format, args) }
func (l pebbleLogger) Errorf(format string, args ...any) { l.log(slog.LevelError, format, args) }
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.s.fail(fmt.Errorf("raft log: %w", fmt.Errorf(format, args...)))
}

func (l pebbleLogger) log(level slog.Level, format string, args []any) {
	if l.s.opts.Logger.Enabled(context.Background(), level) {
		l.s.opts.Logger.Log(context.Background(), level, "pebble", "store", "raftlog", "text", fmt.Sprintf(format, args...))
	}
}

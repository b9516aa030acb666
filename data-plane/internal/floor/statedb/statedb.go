// Package statedb owns the node's state store: one Pebble shared by all raft
// groups of the node, in which no commit is synced. The raft log is what makes
// an operation durable; after a crash the store is some prefix of what it was,
// and because every batch carries its group's applied index the log refills
// exactly the rest.
//
// Apply uses it in this order:
//
//	txn := db.Group(id).NewTxn()
//	for _, entry := range entries {
//		// Reads and writes of the entry go through txn.
//		digest, err = txn.EndEntry(digest, entry.Index)
//	}
//	err = txn.SetApplied(key, record) // How far the state is, in the same batch.
//	err = txn.Commit()                // Or Discard; never synced.
//
// It knows nothing of raft or jobs: a group is a four-byte key prefix, and a Txn
// is the one batch through which all changes of a run of log entries go. The
// surprising fact: a Txn never uses Pebble's indexed batch; it keeps its own map
// of what it wrote, which is both faster and the source of the digest.
package statedb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/storefiles"
)

// Options of a store. The zero value is usable.
type Options struct {
	// FS defaults to the operating system's.
	FS vfs.FS
	// CacheBytes is Pebble's block cache, in which memtables are reserved too.
	CacheBytes int64
	// MemTableBytes is the size of one memtable.
	MemTableBytes uint64
	Logger        *slog.Logger

	// Watch is called as a write begins and the returned function as it ends, so
	// that a watchdog fires while the write is still blocked. Nil turns it off.
	Watch func(op string) (end func())
	// OnDiskSlow is Pebble's report of a slow file operation; it also covers
	// flushes and compactions, which Watch does not see.
	OnDiskSlow func(vfs.DiskSlowInfo)
	// OnFatal ends the process after a failed write, flush or compaction, or when
	// a table is found damaged (R6). It must not return. Nil panics.
	OnFatal func(error)
}

// OpCommit is the operation given to Options.Watch.
const OpCommit = "statedb.commit"

const (
	// Room for two memtables; blocks that it has no room for are in the system's cache of files.
	defaultCacheBytes = 96 << 20
	// The larger, the more jobs end before their keys leave it: against 32 MB, 48 save a tenth of a
	// busy server's time. 64 save little more, and a start beside a million jobs then takes more
	// than the 0.5 s it may.
	defaultMemTableBytes = 48 << 20
	// Layers of new files before they are merged. With 8, a lifecycle is a tenth faster on an empty
	// server and a sixth slower beside 10 M jobs, whose heads are then looked for in more files.
	l0Compaction = 4
	bloomBits    = 10
	// logBytesPerSync are added to the write-ahead log until the system is told to write them out. Nobody
	// waits for that, but Pebble syncs a log whole before it begins the next one, with a mutex that every
	// commit takes: what is left for then, all groups of the node wait for.
	logBytesPerSync = 1 << 20
)

// DB is the state store of one node.
type DB struct {
	pebble *pebble.DB
	fs     vfs.FS
	dir    string
	watch  func(op string) (end func())
	fatal  func(error)
	txns   sync.Pool // Of spent *Txn.
	// turn is held to hand a batch to Pebble, as in the raft log (raftlog.Store): Pebble makes the next
	// write-ahead log under a mutex, for which nobody should wait (services/sim).
	turn chan struct{}

	exports *exports
}

// ErrNotFound is returned by Get for a key that is not there.
var ErrNotFound = pebble.ErrNotFound

// Open opens or creates the store in dir.
func Open(dir string, o Options) (*DB, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = defaultMemTableBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Watch == nil {
		o.Watch = func(string) func() { return func() {} }
	}
	if o.OnFatal == nil {
		o.OnFatal = func(err error) { panic(err) }
	}
	if err := o.FS.MkdirAll(stagingDir(o.FS, dir), 0o755); err != nil {
		return nil, fmt.Errorf("make state directory %s: %w", dir, err)
	}
	cache := pebble.NewCache(o.CacheBytes)
	defer cache.Unref()
	opts := &pebble.Options{
		FS:                          disk.FailFast(disk.Yielding(disk.OrderedMarkers(o.FS)), func(err error) { o.OnFatal(fmt.Errorf("state store: %w", err)) }),
		Cache:                       cache,
		MemTableSize:                o.MemTableBytes,
		MemTableStopWritesThreshold: 4,
		WALBytesPerSync:             logBytesPerSync,
		L0CompactionThreshold:       l0Compaction,
		L0StopWritesThreshold:       24,
		FormatMajorVersion:          pebble.FormatWALSyncChunks, // Excise needs virtual sstables or later.
		Logger:                      slogLogger{o.Logger, o.OnFatal},
		EventListener:               events(o),
	}
	opts.Experimental.CompactionScheduler = disk.OneCompaction() // One is Pebble's own default.
	// Disk health checks are only added by default when FS is nil.
	opts.WithFSDefaults()
	// The youngest levels are rewritten all the time: compressing them costs more CPU
	// than the disk they save (measured: a fifth of the server's time). The last two
	// levels hold nearly all of the data and are compressed.
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		cs := pebble.DBCompressionNone
		last := len(cs.Levels) - 1
		cs.Levels[last-1], cs.Levels[last] = block.FastestCompression, block.FastestCompression
		return cs
	})
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits) // Locks and idempotency keys are mostly absent.
	}
	if err := storefiles.CheckClosed(o.FS, dir, false); err != nil {
		return nil, fmt.Errorf("open state store %s: %w", dir, err)
	}
	db, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open state store %s: %w", dir, err)
	}
	d := &DB{pebble: db, fs: o.FS, dir: dir, watch: o.Watch, fatal: o.OnFatal, turn: make(chan struct{}, 1), exports: newExports()}
	if err := d.clearStaging(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return d, nil
}

// events ends the process when a flush or compaction fails, instead of retrying
// while the node leads. The log has what the state loses.
func events(o Options) *pebble.EventListener {
	fail := func(what string, err error) { o.OnFatal(fmt.Errorf("state store: %s: %w", what, err)) }
	e := &pebble.EventListener{
		BackgroundError: func(err error) { fail("background work", err) },
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			fail("damaged file "+info.Path, info.Details)
		},
	}
	if o.OnDiskSlow != nil {
		e.DiskSlow = o.OnDiskSlow
	}
	return e
}

// Close gives up transfers that wait or are being written and closes the store.
// Nothing may use it afterwards, but a transfer that is being read can still be
// read.
func (d *DB) Close() error {
	d.exports.close()
	return d.pebble.Close()
}

// written runs a write. Pebble panics when its write-ahead log can't be written, as on a
// full disk: that ends the process as any failed write does (R6).
func (d *DB) written(write func() error) error {
	defer func() {
		if r := recover(); r != nil {
			d.fatal(fmt.Errorf("state store: write: %v", r))
			panic(r) // Fatal returned: a test.
		}
	}()
	return write()
}

// hand runs a write when it is its turn.
func (d *DB) hand(write func() error) error {
	d.turn <- struct{}{}
	defer func() { <-d.turn }() // Pebble may panic.
	return d.written(write)
}

// Sync makes every commit so far durable.
func (d *DB) Sync() error {
	// The write-ahead log is sequential: syncing a record after the others syncs them.
	if err := d.synced(func(b *pebble.Batch) error { return b.LogData(nil, nil) }); err != nil {
		return fmt.Errorf("sync state store: %w", err)
	}
	return nil
}

// synced writes one record and waits until it is durable, with all before it. It gives up its turn
// while it waits.
func (d *DB) synced(add func(*pebble.Batch) error) error {
	b := d.pebble.NewBatch()
	err := add(b)
	if err == nil {
		err = d.hand(func() error { return d.pebble.ApplyNoSyncWait(b, pebble.Sync) })
	}
	if err == nil {
		err = b.SyncWait()
	}
	return errors.Join(err, b.Close())
}

// Metrics is Pebble's own account of the store.
func (d *DB) Metrics() *pebble.Metrics { return d.pebble.Metrics() }

// Group is the view of one raft group: keys passed to it must start with its
// prefix, and spans never leave it.
func (d *DB) Group(id uint32) *Group {
	g := &Group{db: d, id: id}
	binary.BigEndian.PutUint32(g.prefix[:], id)
	return g
}

// Group is one raft group's span of the store.
type Group struct {
	db     *DB
	id     uint32
	prefix [4]byte
}

// ID is the raft group's number.
func (g *Group) ID() uint32 { return g.id }

// Prefix leads every key of the group.
func (g *Group) Prefix() [4]byte { return g.prefix }

// Get returns a copy of the committed value of key, or ErrNotFound.
func (g *Group) Get(key []byte) ([]byte, error) { return get(g.db.pebble, g.prefix, key) }

func get(r pebble.Reader, prefix [4]byte, key []byte) ([]byte, error) {
	assertPrefix(prefix, key)
	v, closer, err := r.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, ErrNotFound
		}
		return nil, fmt.Errorf("read state key %x: %w", key, err)
	}
	out := bytes.Clone(v)
	if out == nil {
		out = []byte{}
	}
	if err := closer.Close(); err != nil {
		return nil, fmt.Errorf("read state key %x: %w", key, err)
	}
	return out, nil
}

// Scan calls f for each committed key of [from, to) in order until f returns
// false. The slices are valid only during the call.
func (g *Group) Scan(from, to []byte, f func(key, value []byte) (bool, error)) error {
	return scan(g.db.pebble, g.prefix, from, to, f)
}

// ScanBack is Scan from the end of the span to its beginning.
func (g *Group) ScanBack(from, to []byte, f func(key, value []byte) (bool, error)) error {
	return scanBack(g.db.pebble, g.prefix, from, to, f)
}

// Compact removes from the disk what was deleted from a span.
func (g *Group) Compact(ctx context.Context, from, to []byte) error {
	assertPrefix(g.prefix, from)
	if err := g.db.pebble.Compact(ctx, from, to, false); err != nil {
		return fmt.Errorf("compact state of group %d: %w", g.id, err)
	}
	return nil
}

func scan(r pebble.Reader, prefix [4]byte, from, to []byte, f func(key, value []byte) (bool, error)) error {
	return walk(r, prefix, from, to, (*pebble.Iterator).First, (*pebble.Iterator).Next, f)
}

func scanBack(r pebble.Reader, prefix [4]byte, from, to []byte, f func(key, value []byte) (bool, error)) error {
	return walk(r, prefix, from, to, (*pebble.Iterator).Last, (*pebble.Iterator).Prev, f)
}

// walk calls f for the keys of [from, to) from the one that begin finds on.
func walk(r pebble.Reader, prefix [4]byte, from, to []byte, begin, next func(*pebble.Iterator) bool, f func(key, value []byte) (bool, error)) (err error) {
	assertPrefix(prefix, from)
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("scan state from %x: %w", from, err)
	}
	defer func() {
		if cerr := it.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("scan state from %x: %w", from, cerr)
		}
	}()
	for ok := begin(it); ok; ok = next(it) {
		v, verr := it.ValueAndErr()
		if verr != nil {
			return fmt.Errorf("scan state at %x: %w", it.Key(), verr)
		}
		more, ferr := f(it.Key(), v)
		if ferr != nil || !more {
			return ferr
		}
	}
	return nil
}

// View is a read-only snapshot of the group; close it.
type View struct {
	snap   *pebble.Snapshot
	prefix [4]byte
}

// View takes a snapshot of the committed state.
func (g *Group) View() *View { return &View{snap: g.db.pebble.NewSnapshot(), prefix: g.prefix} }

// Get is Group.Get on the snapshot.
func (v *View) Get(key []byte) ([]byte, error) { return get(v.snap, v.prefix, key) }

// Scan is Group.Scan on the snapshot.
func (v *View) Scan(from, to []byte, f func(key, value []byte) (bool, error)) error {
	return scan(v.snap, v.prefix, from, to, f)
}

// ScanBack is Group.ScanBack on the snapshot.
func (v *View) ScanBack(from, to []byte, f func(key, value []byte) (bool, error)) error {
	return scanBack(v.snap, v.prefix, from, to, f)
}

// Close releases the snapshot.
func (v *View) Close() error { return v.snap.Close() }

// span is [prefix, next prefix).
func (g *Group) span() (from, to []byte) {
	from = bytes.Clone(g.prefix[:])
	to = binary.BigEndian.AppendUint32(nil, g.id+1)
	return from, to
}

// assertPrefix panics on a key outside the group's span: it would read or change
// another group.
func assertPrefix(prefix [4]byte, key []byte) {
	if len(key) < len(prefix) || !bytes.Equal(key[:len(prefix)], prefix[:]) {
		panic(fmt.Sprintf("statedb: key %x is outside group %x", key, prefix))
	}
}

// slogLogger passes Pebble's messages to slog. Fatalf ends the process: a store
// must not go on after a write error (R6).
type slogLogger struct {
	l     *slog.Logger
	fatal func(error)
}

func (s slogLogger) Infof(format string, args ...any)  { s.l.Debug(fmt.Sprintf(format, args...)) }
func (s slogLogger) Errorf(format string, args ...any) { s.l.Error(fmt.Sprintf(format, args...)) }
func (s slogLogger) Fatalf(format string, args ...any) {
	s.fatal(fmt.Errorf("state store: %w", fmt.Errorf(format, args...)))
	panic("statedb: OnFatal returned") // Pebble relies on this not returning.
}

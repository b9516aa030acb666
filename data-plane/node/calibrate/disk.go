package calibrate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
)

// Disk is where to measure.
type Disk struct {
	Dir string // Must exist.
	// SyncDelay is added to every sync, as a node's is.
	SyncDelay time.Duration
}

func (d Disk) fs() vfs.FS {
	if d.SyncDelay == 0 {
		return vfs.Default
	}
	return disk.DelayedSync(vfs.Default, d.SyncDelay)
}

const (
	syncs     = 201
	syncBytes = 4 << 10
)

// Sync is the median time of an fdatasync of 4 KB appended to a file.
func (d Disk) Sync() (median time.Duration, err error) {
	fs, path := d.fs(), filepath.Join(d.Dir, "sync")
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, fmt.Errorf("make a file to sync: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), fs.Remove(path)) }()
	block := make([]byte, syncBytes)
	took := make([]time.Duration, syncs)
	for i := range took {
		if _, err := f.Write(block); err != nil {
			return 0, fmt.Errorf("write %s: %w", path, err)
		}
		began := time.Now()
		if err := f.SyncData(); err != nil {
			return 0, fmt.Errorf("sync %s: %w", path, err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

const writeBytes = 1 << 20

// Write is how many bytes a second a file takes in pieces of 1 MiB, each synced.
func (d Disk) Write(lasting time.Duration) (perSecond float64, err error) {
	fs, path := d.fs(), filepath.Join(d.Dir, "write")
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, fmt.Errorf("make a file to write: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), fs.Remove(path)) }()
	piece := make([]byte, writeBytes)
	pieces, took, err := during(lasting, 1, func() error {
		if _, err := f.Write(piece); err != nil {
			return err
		}
		return f.SyncData()
	})
	return float64(pieces*writeBytes) / took.Seconds(), err
}

const (
	// BatchPuts is the size of a batch, as many as the jobs of a large frame.
	BatchPuts     = 64
	keyBytes      = 40
	valueBytes    = 150 // A payload of 100 bytes with what stands around it.
	memTableBytes = 64 << 20
	cacheBytes    = 192 << 20
)

// Batches is how many puts a second Pebble commits in batches of 64, each synced, by
// so many writers.
func (d Disk) Batches(writers int, lasting time.Duration) (perSecond float64, err error) {
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	fs, dir := d.fs(), filepath.Join(d.Dir, "batches")
	db, err := pebble.Open(dir, &pebble.Options{FS: fs, Cache: cache, MemTableSize: memTableBytes, Logger: quiet{},
		FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		return 0, fmt.Errorf("open a store: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close(), fs.RemoveAll(dir)) }()
	var next atomic.Uint64
	batches, took, err := during(lasting, writers, func() error { return putBatch(db, next.Add(BatchPuts)) })
	return float64(batches*BatchPuts) / took.Seconds(), err
}

func putBatch(db *pebble.DB, first uint64) error {
	key, value := make([]byte, keyBytes), make([]byte, valueBytes)
	b := db.NewBatch()
	for i := range uint64(BatchPuts) {
		binary.BigEndian.PutUint64(key, first+i)
		if err := b.Set(key, value, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(pebble.Sync), b.Close())
}

// during calls do again and again, by so many callers at the same time, and says how
// often it returned.
func during(lasting time.Duration, callers int, do func() error) (calls int64, took time.Duration, err error) {
	var count atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(began) < lasting && failed.Load() == nil {
				if err := do(); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				count.Add(1)
			}
		})
	}
	all.Wait()
	if first := failed.Load(); first != nil {
		err = *first
	}
	return count.Load(), time.Since(began), err
}

// quiet drops what Pebble tells of its work; what fails is returned.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...)) // Pebble expects no return.
}

package disk

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/nap"
)

// DelayedSync returns fs with d added before every sync: of files (Sync, SyncData
// and a full SyncTo) and of directories. The thread is held, as by a delay injected into the
// fsync and fdatasync system calls. The benchmark uses it to give a fast test disk the
// latency of a user's.
func DelayedSync(fs vfs.FS, d time.Duration) vfs.FS {
	return syncFS{fs, func(bool) { nap.Sleep(d) }}
}

// CountingFS counts the syncs of files that pass through it.
type CountingFS struct {
	vfs.FS
	files *atomic.Int64
}

// Counting returns fs with the syncs of its files counted.
func Counting(fs vfs.FS) *CountingFS {
	c := &CountingFS{files: new(atomic.Int64)}
	c.FS = syncFS{fs, func(dir bool) {
		if !dir {
			c.files.Add(1)
		}
	}}
	return c
}

// FileSyncs is how often the data of a file was synced.
func (c *CountingFS) FileSyncs() int64 { return c.files.Load() }

// Unwrap implements vfs.FS.
func (c *CountingFS) Unwrap() vfs.FS { return c.FS }

// syncFS calls before ahead of every sync. Files opened only for reading pass
// unchanged.
type syncFS struct {
	vfs.FS
	before func(dir bool)
}

func (f syncFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return syncFile{File: file, before: f.before}, nil
}

func (f syncFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(f.FS.Create(name, category))
}

func (f syncFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.wrap(f.FS.OpenReadWrite(name, category, opts...))
}

func (f syncFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(f.FS.ReuseForWrite(oldname, newname, category))
}

func (f syncFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return syncFile{File: file, before: f.before, dir: true}, nil
}

func (f syncFS) Unwrap() vfs.FS { return f.FS }

type syncFile struct {
	vfs.File
	before func(dir bool)
	dir    bool
}

func (f syncFile) Sync() error {
	f.before(f.dir)
	return f.File.Sync()
}

func (f syncFile) SyncData() error {
	f.before(f.dir)
	return f.File.SyncData()
}

// SyncTo counts only if it turns out to be a full sync. A delay after the fact
// holds the caller just as long.
func (f syncFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	if full {
		f.before(f.dir)
	}
	return full, err
}

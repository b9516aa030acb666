package statedb

import (
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// dirtyFS knows the most bytes that a write-ahead log had gathered when it was synced.
type dirtyFS struct {
	vfs.FS
	most, logs atomic.Int64
}

func (d *dirtyFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	return d.watch(name, f), err
}

func (d *dirtyFS) ReuseForWrite(from, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, name, category)
	return d.watch(name, f), err
}

func (d *dirtyFS) watch(name string, f vfs.File) vfs.File {
	if f == nil || filepath.Ext(name) != ".log" {
		return f
	}
	d.logs.Add(1)
	return &dirtyFile{File: f, of: d}
}

// dirtyFile is written and synced by one goroutine, as Pebble does.
type dirtyFile struct {
	vfs.File
	of             *dirtyFS
	written, clean int64
}

func (f *dirtyFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.written += int64(n)
	return n, err
}

func (f *dirtyFile) SyncTo(length int64) (full bool, err error) {
	full, err = f.File.SyncTo(length)
	if full { // The file system knows no part of a file.
		length = f.written
	}
	f.cleaned(length)
	return full, err
}

func (f *dirtyFile) SyncData() error {
	f.cleaned(f.written)
	return f.File.SyncData()
}

func (f *dirtyFile) cleaned(upTo int64) {
	for most := f.of.most.Load(); f.written-f.clean > most; most = f.of.most.Load() {
		f.of.most.CompareAndSwap(most, f.written-f.clean)
	}
	f.clean = max(f.clean, upTo)
}

// Pebble syncs a log before it begins the next one, and nobody commits meanwhile. A log that nobody had
// written out kept all groups of a node waiting for 20 to 27 ms, for each memtable.
func TestLog_IsWrittenOutWhileItGrows(t *testing.T) {
	t.Parallel()
	for name, fs := range map[string]vfs.FS{"disk": vfs.Default, "memory": vfs.NewMem()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &dirtyFS{FS: fs}
			db, err := Open(filepath.Join(t.TempDir(), "state"), Options{FS: d, CacheBytes: 1 << 20, MemTableBytes: 8 << 20})
			if err != nil {
				t.Fatal(err)
			}
			pour(t, db.Group(1), nil)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			// Pebble leaves the last megabyte alone. It writes a few blocks of its own at a time.
			if got, most := d.most.Load(), int64(logBytesPerSync+1<<20+256<<10); got == 0 || got > most {
				t.Errorf("a sync of one of %d logs had %d bytes to write; at most %d are expected", d.logs.Load(), got, most)
			}
			if d.logs.Load() < 4 {
				t.Errorf("%d logs were made: no memtable was full", d.logs.Load())
			}
		})
	}
}

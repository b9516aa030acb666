package disk

import (
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// prewriteBytes are written ahead at a time: enough for hundreds of small syncs, of which
	// one takes half a millisecond longer, at 500 MB/s.
	prewriteBytes = 256 << 10
	// prewriteMost is how much there may be to sync for it to be worth it: what is
	// written ahead is written twice.
	prewriteMost = 16 << 10
)

// Prewriting returns fs with zeros written ahead of what is appended to a write-ahead log (.log),
// as long as little is appended between two syncs. Syncing a file that grows also writes
// where its new blocks are, which takes half as long again as syncing blocks that were written
// before. That's why Pebble recycles its logs, but it has some of full size only after 120 MB
// of log since it was opened: days, for a node with little to do.
//
// A log that ends in zeros is nothing new to Pebble, as those it recycles end in older records.
// A zero that can't be written is left out: whether the disk is full or broken is for the append to tell.
func Prewriting(fs vfs.FS) vfs.FS { return prewriteFS{fs} }

type prewriteFS struct{ vfs.FS }

func (fs prewriteFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	if err != nil || filepath.Ext(name) != ".log" {
		return f, err
	}
	return &prewrittenFile{File: f}, nil
}

func (fs prewriteFS) ReuseForWrite(from, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(from, name, category)
	if err != nil || filepath.Ext(name) != ".log" {
		return f, err
	}
	reused := &prewrittenFile{File: f}
	if info, err := f.Stat(); err == nil {
		reused.size = info.Size()
	}
	return reused, nil
}

// Unwrap is for Pebble.
func (fs prewriteFS) Unwrap() vfs.FS { return fs.FS }

// prewrittenFile is a log that one goroutine appends to and syncs, as Pebble does.
// Zeros are only ever written behind everything that was appended.
type prewrittenFile struct {
	vfs.File
	end      int64 // Of what was appended.
	size     int64 // Of the file, at least: up to there, blocks were written before.
	unsynced int   // Bytes appended since the last sync.
}

var zeros [prewriteBytes]byte

func (f *prewrittenFile) Write(p []byte) (int, error) {
	f.unsynced += len(p)
	if end := f.end + int64(len(p)); end > f.size && f.unsynced <= prewriteMost {
		if n, err := f.WriteAt(zeros[:], end); err == nil {
			f.size = end + int64(n)
		}
	}
	n, err := f.File.Write(p)
	f.end += int64(n)
	f.size = max(f.size, f.end)
	return n, err
}

func (f *prewrittenFile) Sync() error {
	f.unsynced = 0
	return f.File.Sync()
}

func (f *prewrittenFile) SyncData() error {
	f.unsynced = 0
	return f.File.SyncData()
}

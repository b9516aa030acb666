package disk

import (
	"path/filepath"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Yielding returns fs with a yield of the processor after each write to a table (.sst).
//
// Tables are written by flushes and compactions, which compute for seconds. Go's scheduler
// has no priorities and lets a goroutine, with those it wakes, keep a processor for ten
// milliseconds, while what became runnable there waits: seen as waits of up to 38 ms of
// callers in a node with two processors. One that yields stands behind all others.
func Yielding(fs vfs.FS) vfs.FS { return yieldFS{fs} }

type yieldFS struct{ vfs.FS }

func (fs yieldFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	if err != nil || filepath.Ext(name) != ".sst" {
		return f, err
	}
	return yieldFile{f}, nil
}

// Unwrap is for Pebble.
func (fs yieldFS) Unwrap() vfs.FS { return fs.FS }

type yieldFile struct{ vfs.File }

func (f yieldFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	runtime.Gosched()
	return n, err
}

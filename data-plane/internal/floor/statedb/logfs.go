package statedb

import (
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logFS tells at once when Pebble's write-ahead log can't be written or synced, as on a
// full disk: that ends the process as any failed write does (R6). Pebble itself finds out
// later, in whatever commit or change of files comes next, and panics there, at one place
// with a lock that its own deferred unlock then frees twice: that can't be recovered and
// ends the process with the exit code of a wrong command line.
type logFS struct {
	vfs.FS
	fatal func(error)
}

func (fs logFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || filepath.Ext(name) != ".log" {
		return f, err
	}
	return logFile{f, name, fs.fatal}, nil
}

func (fs logFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return fs.wrap(name, f, err)
}

func (fs logFS) ReuseForWrite(from, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(from, name, category)
	return fs.wrap(name, f, err)
}

// Unwrap is for Pebble.
func (fs logFS) Unwrap() vfs.FS { return fs.FS }

type logFile struct {
	vfs.File
	name  string
	fatal func(error)
}

func (f logFile) failed(what string, err error) error {
	if err != nil {
		f.fatal(fmt.Errorf("state store: %s %s: %w", what, f.name, err))
	}
	return err
}

func (f logFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.failed("write", err)
}

func (f logFile) Sync() error { return f.failed("sync", f.File.Sync()) }

func (f logFile) SyncData() error { return f.failed("sync", f.File.SyncData()) }

func (f logFile) SyncTo(length int64) (full bool, err error) {
	full, err = f.File.SyncTo(length)
	return full, f.failed("sync", err)
}

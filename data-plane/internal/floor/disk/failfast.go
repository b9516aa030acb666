package disk

import (
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FailFast returns fs that tells at once when Pebble's write-ahead log can't be made, written or
// synced, as on a full disk: that ends the process as any failed write does (R6). Pebble itself
// finds out later, in whatever commit or change of files comes next, and panics there, at one place
// with a lock that its own deferred unlock then frees twice: that can't be recovered and
// ends the process with the exit code of a wrong command line.
func FailFast(fs vfs.FS, fatal func(error)) vfs.FS { return failFastFS{fs, fatal} }

type failFastFS struct {
	vfs.FS
	fatal func(error)
}

func (fs failFastFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if filepath.Ext(name) != ".log" {
		return f, err
	}
	w := failFastFile{f, name, fs.fatal}
	if err := w.failed("create", err); err != nil {
		return nil, err
	}
	return w, nil
}

func (fs failFastFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return fs.wrap(name, f, err)
}

func (fs failFastFS) ReuseForWrite(from, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(from, name, category)
	return fs.wrap(name, f, err)
}

// Unwrap is for Pebble.
func (fs failFastFS) Unwrap() vfs.FS { return fs.FS }

type failFastFile struct {
	vfs.File
	name  string
	fatal func(error)
}

func (f failFastFile) failed(what string, err error) error {
	if err != nil {
		f.fatal(fmt.Errorf("%s %s: %w", what, f.name, err))
	}
	return err
}

func (f failFastFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.failed("write", err)
}

func (f failFastFile) Sync() error { return f.failed("sync", f.File.Sync()) }

func (f failFastFile) SyncData() error { return f.failed("sync", f.File.SyncData()) }

func (f failFastFile) SyncTo(length int64) (full bool, err error) {
	full, err = f.File.SyncTo(length)
	return full, f.failed("sync", err)
}

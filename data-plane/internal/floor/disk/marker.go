package disk

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// OrderedMarkers returns fs for Pebble, which names its current manifest by the name of a
// marker file. It makes the new marker, removes the old one and then syncs the directory once.
// A file system that doesn't keep changes of a directory in order could, when power is lost in
// between, keep the marker and lose the manifest that it names, or lose both markers: the store
// could not be opened, or would be taken for a new one. So the directory is synced before
// either step, too. That is two syncs for each new manifest.
func OrderedMarkers(fs vfs.FS) vfs.FS { return markerFS{fs} }

// markerPrefix is how names of Pebble's markers begin (vfs/atomicfs).
const markerPrefix = "marker."

type markerFS struct{ vfs.FS }

// Create implements vfs.FS.
func (f markerFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.settle(name); err != nil {
		return nil, err
	}
	return f.FS.Create(name, category)
}

// Remove implements vfs.FS.
func (f markerFS) Remove(name string) error {
	if err := f.settle(name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// settle makes what was done in the directory of a marker durable.
func (f markerFS) settle(name string) error {
	if !strings.HasPrefix(f.PathBase(name), markerPrefix) {
		return nil
	}
	dir, err := f.OpenDir(f.PathDir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Unwrap implements vfs.FS.
func (f markerFS) Unwrap() vfs.FS { return f.FS }

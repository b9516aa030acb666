// Package storefiles owns what can be told about the files of a Pebble store without
// opening it, and while it is open: which of them are damaged. It looks at the write-ahead
// logs, the manifest and the tables.
//
// It must not know what a key or a value means.
//
// Surprising: Pebble takes a flipped bit in its manifest, or in the last block of its
// newest write-ahead log, for the end of that file, and then deletes the tables that it has
// not read about. So the files are looked at before Pebble opens them.
package storefiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// ErrDamaged is matched by every error about a damaged file.
var ErrDamaged = errors.New("damaged file")

// Damage is one damaged file.
type Damage struct {
	Path string
	What string // For people.
	// Offset is where it begins in a write-ahead log, if Cuttable: what is before it can be read.
	Offset int64
	unread error // Why it could not be read; nil if it was, and has the wrong content.
}

func (d *Damage) Error() string { return fmt.Sprintf("damaged file %s: %s", d.Path, d.What) }

// Is makes every Damage match ErrDamaged.
func (d *Damage) Is(target error) bool { return target == ErrDamaged }

// Unwrap returns the error of the disk that could not read the file, if that is the damage.
func (d *Damage) Unwrap() error { return d.unread }

// Cuttable: the damage is in a write-ahead log, the newest of what was written, and it is known
// where. Without the rest of that, a store is as it was before; without a manifest it is nothing.
func (d *Damage) Cuttable() bool { return strings.HasSuffix(d.Path, ".log") && d.unread == nil }

// unreadable is the error of reading a file: the file's damage, unless it is gone, or the process
// can't open any more files.
func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("check %s: %w", path, err)
	}
	return &Damage{Path: path, What: err.Error(), unread: err}
}

// CheckClosed looks at a store that nobody has open, before Pebble does: its manifest
// and its newest write-ahead log; Pebble is strict about older ones. A store whose log
// is synced has acknowledged its last record, so there one bit in that is damage, too; in
// others it is as good as a torn write. A folder that is not there is not damaged.
func CheckClosed(fsys vfs.FS, dir string, synced bool) error {
	names, manifest, err := list(fsys, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		switch path := fsys.PathJoin(dir, name); {
		case name == manifest:
			err = checkChunks(fsys, path, manifestFormat(), true, Pace{})
		case strings.HasPrefix(name, "OPTIONS-"):
			err = checkOptions(fsys, path)
		}
		if err != nil {
			return err
		}
	}
	if name, number := newestWAL(names); name != "" {
		return checkChunks(fsys, fsys.PathJoin(dir, name), walFormat(number), synced, Pace{})
	}
	return nil
}

// Pace limits how fast files are read; nil functions do not limit.
type Pace struct {
	// Wait is called before so many bytes are read. Its error ends the check.
	Wait func(bytes int) error
}

func (p Pace) wait(n int) error {
	if p.Wait == nil {
		return nil
	}
	return p.Wait(n)
}

// until is p, and sets ended to the error that ends the check: no fault of the file that is read.
func (p Pace) until(ended *error) Pace {
	return Pace{Wait: func(bytes int) error {
		if *ended == nil {
			*ended = p.wait(bytes)
		}
		return *ended
	}}
}

// CheckOpen reads every file of a store that Pebble needs, which may be open and in use, and calls
// found for each that is damaged or can't be read. Files that disappear meanwhile are no
// longer part of the store. What is being written at the end of a log is not damage.
func CheckOpen(fsys vfs.FS, dir string, pace Pace, found func(*Damage)) (files int, err error) {
	var ended error
	pace = pace.until(&ended)
	names, manifest, err := list(fsys, dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		path := fsys.PathJoin(dir, name)
		var check func() error
		switch number, isLog := walNumber(name); {
		case name == manifest:
			check = func() error { return checkChunks(fsys, path, manifestFormat(), true, pace) }
		case isLog:
			check = func() error { return checkChunks(fsys, path, walFormat(number), false, pace) }
		case strings.HasSuffix(name, ".sst"):
			check = func() error { return checkTable(fsys, path, pace) }
		default:
			continue
		}
		err := check()
		if ended == nil && errors.Is(err, ErrDamaged) {
			err = check() // A write may have been seen half.
		}
		var damage *Damage
		switch {
		case ended != nil:
			return files, ended
		case errors.As(err, &damage):
			if _, err := fsys.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				found(damage)
			}
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return files, err
		}
		files++
	}
	return files, nil
}

// list returns the names of a store's files, and which of them is its manifest: the one that
// Pebble's marker names, "" for none. Pebble reads no other. It moves the marker when the new
// manifest is synced, so one that is not named may have been torn by a power loss.
func list(fsys vfs.FS, dir string) (names []string, manifest string, err error) {
	if names, err = fsys.List(dir); err != nil {
		if _, statErr := fsys.Stat(dir); statErr != nil {
			return nil, "", nil // A new store.
		}
		return nil, "", fmt.Errorf("list %s: %w", dir, err)
	}
	slices.Sort(names)
	marker, manifest, err := atomicfs.LocateMarkerInListing(fsys, dir, "manifest", names)
	if err != nil {
		return nil, "", fmt.Errorf("find the manifest of %s: %w", dir, err)
	}
	return names, manifest, marker.Close()
}

func walNumber(name string) (uint32, bool) {
	base, ok := strings.CutSuffix(name, ".log")
	v, err := strconv.ParseUint(base, 10, 32)
	return uint32(v), ok && err == nil
}

// newestWAL finds the log that Pebble replays last; "" in a new store.
func newestWAL(names []string) (name string, number uint32) {
	for _, n := range names {
		if v, ok := walNumber(n); ok && v >= number {
			name, number = n, v
		}
	}
	return name, number
}

func checkChunks(fsys vfs.FS, path string, f format, mend bool, pace Pace) error {
	file, err := fsys.Open(path)
	if err != nil {
		return unreadable(path, err)
	}
	offset, err := f.findDamage(&pacedReader{file, pace}, mend)
	if err := errors.Join(err, file.Close()); err != nil {
		return unreadable(path, err)
	}
	if offset >= 0 {
		return &Damage{Path: path, What: fmt.Sprintf("wrong checksum at offset %d, inside what was synced", offset), Offset: offset}
	}
	return nil
}

// checkOptions reads what Pebble has noted of its options. All of ours are given at each
// start, so only a text that cannot be read does harm: Pebble would not open the store.
func checkOptions(fsys vfs.FS, path string) error {
	file, err := fsys.Open(path)
	if err != nil {
		return unreadable(path, err)
	}
	text, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return unreadable(path, err)
	}
	if err := new(pebble.Options).Parse(string(text), nil); err != nil {
		return &Damage{Path: path, What: err.Error()}
	}
	return nil
}

type pacedReader struct {
	io.Reader
	pace Pace
}

// Read implements io.Reader.
func (r *pacedReader) Read(b []byte) (int, error) {
	if err := r.pace.wait(len(b)); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// checkTable reads every block of a table. Whatever goes wrong is damage.
func checkTable(fsys vfs.FS, path string, pace Pace) error {
	file, err := fsys.Open(path)
	if err != nil {
		return unreadable(path, err)
	}
	readable, err := sstable.NewSimpleReadable(&pacedFile{file, pace})
	if err != nil {
		return unreadable(path, errors.Join(err, file.Close()))
	}
	if err := validate(readable); err != nil {
		return unreadable(path, err)
	}
	return nil
}

// validate reads every block, and closes the table.
func validate(readable objstorage.Readable) error {
	o := &pebble.Options{}
	o.EnsureDefaults()
	r, err := sstable.NewReader(context.Background(), readable, o.MakeReaderOptions())
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

// pacedFile waits before it reads.
type pacedFile struct {
	vfs.File
	pace Pace
}

// ReadAt implements io.ReaderAt.
func (f *pacedFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.pace.wait(len(b)); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, at)
}

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

// Version of the layout of every kind of directory. Raised when a program can not
// read what its predecessor wrote.
const Version = 1

const (
	versionFile = "VERSION"
	lockFile    = "LOCK"
	dirMode     = 0o700
	fileMode    = 0o600
)

// Errors of Claim; the text around them says what to do.
var (
	ErrInUse        = errors.New("in use by another process")
	ErrOtherVersion = errors.New("written by another version")
	ErrForeign      = errors.New("not a data directory of this command")
)

// Dir is a claimed directory.
type Dir struct {
	// Path is absolute.
	Path string
	lock *flock.Flock
}

// Claim makes dir if it is not there and takes it for this process. kind says
// which part of the service it belongs to ("up", "node", "proxy").
func Claim(dir, kind string) (*Dir, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find data directory %s: %w", dir, err)
	}
	if err := os.MkdirAll(path, dirMode); errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("data directory %s: %w: it, or a part of its path, is a file", path, ErrForeign)
	} else if err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	d := &Dir{Path: path, lock: flock.New(filepath.Join(path, lockFile), flock.SetPermissions(fileMode))}
	// The lock comes first: two processes must not both find the directory empty.
	switch mine, err := d.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("data directory %s: take its lock: %w", path, err)
	case !mine:
		return nil, fmt.Errorf("data directory %s: %w", path, ErrInUse)
	}
	if err := d.check(kind); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", path, err), d.Release())
	}
	return d, nil
}

// Release gives the directory back.
func (d *Dir) Release() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("release data directory %s: %w", d.Path, err)
	}
	return nil
}

// Join is a path inside the directory.
func (d *Dir) Join(names ...string) string {
	return filepath.Join(append([]string{d.Path}, names...)...)
}

func (d *Dir) check(kind string) error {
	text, err := os.ReadFile(d.Join(versionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return d.mark(kind)
	}
	if err != nil {
		return fmt.Errorf("read its version: %w", err)
	}
	foundKind, found, ok := parseVersion(text)
	if !ok {
		return fmt.Errorf("%w: its file %s says %.40q", ErrForeign, versionFile, text)
	}
	if foundKind != kind {
		return fmt.Errorf("%w: it belongs to `corvo-cloud %s`, not `corvo-cloud %s`", ErrForeign, foundKind, kind)
	}
	if found != Version {
		return fmt.Errorf("%w: it has layout %d, but this program reads layout %d", ErrOtherVersion, found, Version)
	}
	return nil
}

func parseVersion(text []byte) (kind string, version int, ok bool) {
	n, err := fmt.Sscanf(string(text), "corvo-cloud %s %d\n", &kind, &version)
	return kind, version, n == 2 && err == nil
}

// KindOf is the kind that dir was claimed for; empty if it never was, or can't be read.
func KindOf(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, versionFile))
	if err != nil {
		return ""
	}
	kind, _, _ := parseVersion(text)
	return kind
}

// mark claims an empty directory for ever.
func (d *Dir) mark(kind string) error {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return fmt.Errorf("list it: %w", err)
	}
	for _, e := range entries {
		// lost+found is there when the directory is a file system of its own.
		if name := e.Name(); name != lockFile && name != "lost+found" && !strings.HasPrefix(name, tempPrefix) {
			return fmt.Errorf("%w: it isn't empty (%s) and has no file %s", ErrForeign, name, versionFile)
		}
	}
	return WriteFile(d.Join(versionFile), fmt.Appendf(nil, "corvo-cloud %s %d\n", kind, Version))
}

const tempPrefix = ".corvo-tmp-"

// WriteFile writes a file whole or not at all, on disk when it returns, readable
// by its owner only.
func WriteFile(path string, content []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), tempPrefix) // 0600 by contract.
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(temp.Name()) }() // Gone already when the rename was done.
	_, werr := temp.Write(content)
	if err := errors.Join(werr, temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// RemoveUnfinished deletes what a crash in the middle of WriteFile left in a directory.
func RemoveUnfinished(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	if err != nil {
		return fmt.Errorf("list unfinished files in %s: %w", dir, err)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove an unfinished file: %w", err)
		}
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}

package disk

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	tempSuffix  = ".tmp"
	privateMode = 0o600
)

// WriteFile writes a small file atomically. When it returns, content and name
// survive a power loss. Only the file's owner can read it.
func WriteFile(fs vfs.FS, path string, content []byte) error {
	temp := path + tempSuffix // One writer: its folder belongs to this process.
	if err := writeSynced(fs, temp, content); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", temp, err), ignoreMissing(fs.Remove(temp)))
	}
	if err := fs.Rename(temp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	dir, err := fs.OpenDir(fs.PathDir(path))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("sync the folder of %s: %w", path, err)
	}
	return nil
}

func writeSynced(fs vfs.FS, path string, content []byte) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if fs == vfs.Default { // The others have no modes.
		err = os.Chmod(path, privateMode)
	}
	if err == nil {
		_, err = f.Write(content)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

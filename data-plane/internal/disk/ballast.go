package disk

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const ballastChunkBytes = 1 << 20

// WithBallast keeps a file of size bytes at path, which a full disk gives back:
// the first write that meets ENOSPC deletes it, calls onFull once and is tried
// again. The node then has size bytes to end cleanly in, where a write-ahead log
// that cannot be written would end it at once. Space should keep it from ever
// coming to that. The next call, at the next start, lays the ballast down again.
func WithBallast(fs vfs.FS, path string, size int64, onFull func()) (vfs.FS, error) {
	if err := layBallast(fs, path, size); err != nil {
		return nil, fmt.Errorf("lay ballast %s: %w", path, err)
	}
	var once sync.Once
	return vfs.OnDiskFull(fs, func() {
		once.Do(func() {
			// If it cannot be removed, the write that waits for it fails, and that
			// is told by whoever wrote.
			_ = fs.Remove(path)
			onFull()
		})
	}), nil
}

// layBallast writes real zeroes: a file with a hole reserves nothing.
func layBallast(fs vfs.FS, path string, size int64) (err error) {
	if info, err := fs.Stat(path); err == nil && info.Size() == size {
		return nil
	}
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			err = errors.Join(err, fs.Remove(path)) // Half a ballast only takes room.
		}
	}()
	for left := size; left > 0; left -= ballastChunkBytes {
		if _, err := f.Write(make([]byte, min(left, ballastChunkBytes))); err != nil {
			return err
		}
	}
	return f.Sync()
}

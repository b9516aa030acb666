package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const ballastChunkBytes = 1 << 20

// Ballast is a file that reserves room on a disk until the disk is full. The first
// write that gets ENOSPC deletes it and is tried again. That leaves the node room
// to give leadership away and to be shut down in order; without it, the write-ahead
// log that cannot be written would end it at once. Space should keep it from coming
// to that.
type Ballast struct {
	vfs.FS // Writes through it are tried again once the ballast is deleted.

	inner  vfs.FS
	path   string
	size   int64
	onFull func()
	logger *slog.Logger

	mu   sync.Mutex // Guards laid.
	laid bool
}

// NewBallast reserves size bytes at path. A disk without room for them is no reason
// not to start: jobs can be deleted only on a node that runs. onFull is called each
// time the ballast is deleted; all writes wait for it.
func NewBallast(fs vfs.FS, path string, size int64, logger *slog.Logger, onFull func()) (*Ballast, error) {
	b := &Ballast{inner: fs, path: path, size: size, onFull: onFull, logger: logger}
	b.FS = vfs.OnDiskFull(fs, b.giveBack)
	if err := b.Lay(); err != nil {
		return nil, err
	}
	return b, nil
}

// Laid reports whether the ballast is there.
func (b *Ballast) Laid() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.laid
}

// Lay makes the ballast, also again after it was deleted. If there is no room for
// it, that is logged and no error.
func (b *Ballast) Lay() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.laid {
		return nil
	}
	err := layBallast(b.inner, b.path, b.size)
	if errors.Is(err, syscall.ENOSPC) {
		b.logger.Error("no room for the ballast file; the node runs without it", "path", b.path, "bytes", b.size)
		return nil
	}
	if err != nil {
		return fmt.Errorf("lay ballast %s: %w", b.path, err)
	}
	b.laid = true
	return nil
}

func (b *Ballast) giveBack() {
	b.mu.Lock()
	laid := b.laid
	b.laid = false
	b.mu.Unlock()
	if !laid {
		return // The write fails for good; its caller reports it.
	}
	b.logger.Error("the disk is full; the ballast file is given back", "path", b.path, "bytes", b.size)
	if err := b.inner.Remove(b.path); err != nil {
		b.logger.Error("the ballast file cannot be removed", "path", b.path, "error", err)
	}
	b.onFull()
}

// layBallast reserves real blocks: a file with a hole reserves nothing.
func layBallast(fs vfs.FS, path string, size int64) (err error) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			err = errors.Join(err, fs.Remove(path)) // A partial ballast only takes room.
		}
	}()
	if err := f.Preallocate(0, size); err != nil && !unsupported(err) {
		return err
	} else if err == nil {
		// Writing the last byte gives the file its size.
		_, err := f.WriteAt([]byte{0}, size-1)
		return errors.Join(err, f.Sync())
	}
	for left := size; left > 0; left -= ballastChunkBytes {
		if _, err := f.Write(make([]byte, min(left, ballastChunkBytes))); err != nil {
			return err
		}
	}
	return f.Sync()
}

func unsupported(err error) bool {
	return errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL)
}

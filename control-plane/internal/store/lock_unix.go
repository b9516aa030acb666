//go:build unix && !solaris && !aix

package store

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile takes path for as long as the returned file is open.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open its lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("%w: stop that process, or use PostgreSQL to run several control planes", ErrInUse), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take its lock: %w", err), f.Close())
	}
	return f, nil
}

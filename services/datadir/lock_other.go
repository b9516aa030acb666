//go:build !unix || solaris || aix

package datadir

import (
	"fmt"
	"os"
)

// lock opens path only: here the stores inside refuse a second process by
// themselves, with a text that says less.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open its lock: %w", err)
	}
	return f, nil
}

//go:build !unix || solaris || aix

package store

import (
	"fmt"
	"os"
)

// lockFile only opens path: here nothing but the operator keeps a second process away.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open its lock: %w", err)
	}
	return f, nil
}

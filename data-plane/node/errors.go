package node

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
)

// ErrInUse is in the error of a start on a folder that another process uses.
var ErrInUse = raftlog.ErrInUse

// ErrStorage is in every error of a start that failed because its disk failed, or what the
// node has stored cannot be opened or does not fit together. An operator must look; a
// program ends with ExitStopped.
var ErrStorage = errors.New("the node's stored data can't be used")

func storageError(err error) error {
	if err == nil || errors.Is(err, ErrInUse) || errors.Is(err, ErrVersion) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStorage, err)
}

// diskError says ErrStorage of whatever the disk itself refused: another start helps as little.
func diskError(err error) error {
	if !errors.Is(err, syscall.EIO) || errors.Is(err, ErrStorage) {
		return err
	}
	return storageError(err)
}

// AcceptLossHelps reports whether err is a refusal to start because
// acknowledged entries are or may be missing, which Config.AcceptLoss overrides.
func AcceptLossHelps(err error) bool {
	return raftlog.AcceptLossHelps(err) || errors.Is(err, group.ErrLogLost)
}

package node

import (
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/internal/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/raftlog"
)

// ErrInUse is in the error of a start on a folder that another process uses.
var ErrInUse = raftlog.ErrInUse

// AcceptLossHelps reports whether err is a refusal to start because
// acknowledged entries are or may be missing, which Config.AcceptLoss overrides.
func AcceptLossHelps(err error) bool {
	return errors.Is(err, raftlog.ErrRelaxedCrash) || errors.Is(err, raftlog.ErrCorrupt) || errors.Is(err, group.ErrLogLost)
}

package group

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// strictLog ends the node when an entry that should be there cannot be read. The
// library would panic, or try again for ever, depending on who read.
type strictLog struct {
	LogStore
	group uint32
	fatal func(error)
}

// GetLog implements raft.LogStore.
func (l strictLog) GetLog(index uint64, log *raft.Log) error {
	err := l.LogStore.GetLog(index, log)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		l.fatal(fmt.Errorf("read entry %d of the log of group %d: %w", index, l.group, err))
	}
	return err
}

package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// A relaxed store carries a mark while it is open: the id of the machine's boot. A
// process that ends leaves what it wrote in the page cache, so the same boot id at
// the next Open means little is lost. Another one means that the machine went down
// with unsynced writes; the log may then end anywhere, and nothing in it shows
// that.

// ErrRelaxedCrash is matched by Open's refusal of a relaxed store whose machine
// went down under it.
var ErrRelaxedCrash = errors.New("the machine went down while this log was written without syncs: acknowledged entries may be missing")

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// bootID returns "" where the system has none.
func bootID() string {
	b, err := os.ReadFile(bootIDFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func relaxedKey() []byte { return stableKey(ownGroup, []byte("relaxed")) }

// checkRelaxed refuses a log that may have lost entries, and then marks or
// unmarks it for this run.
func (s *Store) checkRelaxed() error {
	mark, err := s.readStable(relaxedKey())
	if err != nil {
		return fmt.Errorf("read relaxed mark: %w", err)
	}
	if len(mark) > 0 && !s.sameBoot(mark) {
		if !s.opts.AcceptLoss {
			return ErrRelaxedCrash
		}
		s.opts.Logger.Warn("raft log opened although acknowledged entries may be missing")
	}
	if s.opts.Relaxed {
		return s.setRelaxed("boot " + s.opts.bootID)
	}
	if len(mark) > 0 {
		return s.setRelaxed("")
	}
	return nil
}

// sameBoot is false where the boot id is unknown: that is the safe answer.
func (s *Store) sameBoot(mark []byte) bool {
	return s.opts.bootID != "" && bytes.Equal(mark, []byte("boot "+s.opts.bootID))
}

// setRelaxed syncs the mark, and with it everything written before it.
func (s *Store) setRelaxed(mark string) error {
	batch := s.db.NewBatch()
	if err := batch.Set(relaxedKey(), seal(relaxedKey(), []byte(mark)), nil); err != nil {
		return errors.Join(err, batch.Close())
	}
	return s.commitWith(batch, pebble.Sync)
}

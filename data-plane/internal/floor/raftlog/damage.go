package raftlog

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/storefiles"
)

// damagedSuffix is behind the name of a write-ahead log in that of the copy from before it was cut.
// Pebble doesn't take such a file for its own.
const damagedSuffix = ".damaged"

// AcceptLossHelps reports whether err is a refusal of Open's that Options.AcceptLoss overrides.
func AcceptLossHelps(err error) bool {
	return errors.Is(err, ErrRelaxedCrash) || damageInLog(err) != nil
}

// damageInLog is the damage in the newest write-ahead log for which Open refused, if it was that. No
// other file of the store can be cut: without a part of its manifest it is another one.
func damageInLog(err error) *storefiles.Damage {
	var damage *storefiles.Damage
	if errors.Is(err, ErrCorrupt) && errors.As(err, &damage) && damage.Cuttable() {
		return damage
	}
	return nil
}

// checkDamage refuses what Pebble would take for the end of a file, or drops it if that is accepted.
func (s *Store) checkDamage(dir string) error {
	err := checkFiles(s.opts.FS, dir)
	if s.opts.AcceptLoss && damageInLog(err) != nil {
		return s.cutDamage(dir)
	}
	return err
}

// checkFiles refuses what Pebble would take for the end of a file.
func checkFiles(fs vfs.FS, dir string) error {
	err := storefiles.CheckClosed(fs, dir, true)
	if errors.Is(err, storefiles.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// cutDamage ends the newest write-ahead log where it is damaged. It looks again once nobody else can
// have the store open: what is just being written may look damaged.
func (s *Store) cutDamage(dir string) (err error) {
	lock, err := pebble.LockDirectory(dir, s.opts.FS)
	if errors.Is(err, syscall.EAGAIN) {
		return ErrInUse
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	err = checkFiles(s.opts.FS, dir)
	damage := damageInLog(err)
	if damage == nil {
		return err
	}
	s.opts.Logger.Warn("the raft log is cut where it is damaged: acknowledged entries may be missing", "err", damage, "kept", damage.Path+damagedSuffix)
	return cutFile(s.opts.FS, damage.Path, damage.Offset)
}

// cutFile keeps a copy and then replaces the file with its beginning, so that it is one or the
// other after a power loss.
func cutFile(fs vfs.FS, path string, size int64) error {
	if err := vfs.Copy(fs, path, path+damagedSuffix); err != nil {
		return fmt.Errorf("keep a copy of %s: %w", path, err)
	}
	file, err := fs.Open(path)
	if err != nil {
		return err
	}
	begin, err := io.ReadAll(io.LimitReader(file, size))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return disk.WriteFile(fs, path, begin)
}

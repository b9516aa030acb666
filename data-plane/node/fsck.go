package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/storefiles"
)

// ErrLogDamaged: the raft log of a folder is damaged. What the node has confirmed may be
// gone with it, so it may not vote with what is left (R11).
var ErrLogDamaged = errors.New("the raft log is damaged")

// ErrOnlyCopy: there is no other node to copy the state from.
var ErrOnlyCopy = errors.New("no other node has a copy")

// FolderCheck is what CheckFolder and DiscardState have found and done.
type FolderCheck struct {
	Files   int      `json:"files"`
	Damaged []string `json:"damaged"` // Each with its path, and what is wrong with it.
	// LogDamaged: some of them belong to the raft log.
	LogDamaged bool `json:"log_damaged"`
	// KeptAs is where the discarded state is now, if it was discarded.
	KeptAs string `json:"kept_as,omitempty"`
	NodeID string `json:"node_id,omitempty"`
	// Groups are left out on this node until `cell repair` has copied each.
	Groups []uint32 `json:"groups,omitempty"`
}

// CheckFolder reads every byte of log and state in the folder of a stopped node. Read
// models are not looked at: they are made again.
func CheckFolder(dir string) (FolderCheck, error) {
	r := FolderCheck{Damaged: []string{}}
	for _, store := range []struct {
		dir string
		log bool
	}{{raftlogIn(dir), true}, {filepath.Join(dir, stateDir), false}} {
		seen := make(map[string]bool)
		found := func(d *storefiles.Damage) {
			if !seen[d.Path] {
				seen[d.Path] = true
				r.Damaged = append(r.Damaged, d.Error())
				r.LogDamaged = r.LogDamaged || store.log
			}
		}
		var damage *storefiles.Damage
		if err := storefiles.CheckClosed(vfs.Default, store.dir, store.log); errors.As(err, &damage) {
			found(damage)
		} else if err != nil {
			return r, err
		}
		n, err := storefiles.CheckOpen(vfs.Default, store.dir, storefiles.Pace{}, found)
		if err != nil {
			return r, err
		}
		r.Files += n
	}
	return r, nil
}

// raftlogIn is the raft log of a stopped node's folder, which knows where it is.
func raftlogIn(dir string) string {
	if logDir := logDirOf(vfs.Default, dir); logDir != "" {
		dir = logDir
	}
	return filepath.Join(dir, "raftlog")
}

// DiscardState leaves out every group on a stopped node whose log is whole, and moves its
// state away: `cell repair` then copies each group from its leader. Log, terms and votes
// stay, so the node keeps what it has confirmed. It may be repeated.
func DiscardState(dir string, logger *slog.Logger) (r FolderCheck, err error) {
	if r, err = CheckFolder(dir); err != nil {
		return r, err
	}
	if r.LogDamaged {
		return r, fmt.Errorf("%w: %s", ErrLogDamaged, strings.Join(r.Damaged, "; "))
	}
	path := raftlogIn(dir)
	if _, err := os.Stat(path); err != nil {
		return r, fmt.Errorf("%w: %s isn't the folder of a node's log: %w", ErrFolder, path, err)
	}
	log, err := raftlog.Open(path, raftlog.Options{Logger: logger})
	if err != nil {
		return r, storageError(err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	n := &Node{log: log, logger: logger, cfg: Config{Dir: dir, FS: vfs.Default}}
	b, err := log.NodeValue(recordName)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &n.record); err != nil || !n.record.Begun {
		return r, fmt.Errorf("%w: folder %s doesn't belong to a cell", ErrFolder, dir)
	}
	if len(n.record.Nodes) < 2 {
		return r, fmt.Errorf("%w: node %s was the only one of its cell", ErrOnlyCopy, n.record.NodeID)
	}
	if err := n.loadQuarantine(); err != nil {
		return r, err
	}
	r.NodeID = n.record.NodeID
	if r.Groups, err = log.GroupIDs(); err != nil {
		return r, err
	}
	for _, id := range r.Groups {
		err := n.quarantine.set(id, func(l *leftOut) { *l = leftOut{Why: "its state was discarded by an operator", Since: time.Now()} })
		if err != nil {
			return r, err
		}
	}
	return r, moveAway(&r, dir)
}

// moveAway renames the state, once every group is left out, and drops the read models, which
// were made from it.
func moveAway(r *FolderCheck, dir string) error {
	state := filepath.Join(dir, stateDir)
	kept := state + ".discarded-" + time.Now().UTC().Format("20060102T150405")
	if err := os.Rename(state, kept); err == nil {
		r.KeptAs = kept
	} else if !errors.Is(err, os.ErrNotExist) { // It was moved before.
		return fmt.Errorf("move the state away: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "readmodel")); err != nil {
		return fmt.Errorf("remove read models: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return errors.Join(d.Sync(), d.Close())
}

package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/peerstate"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Recovery is what becomes of a cell that lost the majority of its nodes, when one folder
// that is left goes on alone.
type Recovery struct {
	NodeID string `json:"node_id"`
	// OldCellID and NewCellID: the nodes of the old cell and the new one refuse each other.
	OldCellID string `json:"old_cell_id"`
	NewCellID string `json:"new_cell_id,omitempty"` // Empty: nothing was done yet.
	// Others are the old cell's other nodes. Their ids don't come back.
	Others []string         `json:"others"`
	Groups []RecoveredGroup `json:"groups"`
	At     time.Time        `json:"at"`
}

// RecoveredGroup is what the folder has of one group, and what others may have had more.
type RecoveredGroup struct {
	Group   uint32    `json:"group"`
	Last    uint64    `json:"last_index"`
	Applied uint64    `json:"applied_index"`
	LastAt  time.Time `json:"last_at,omitzero"` // When the last entry was written.
	Voters  []string  `json:"voters"`
	// Quarantined is why the folder's replica was left out, or "".
	Quarantined string        `json:"quarantined,omitempty"`
	Others      []OtherMember `json:"others"`
}

// OtherMember is how far another node has said it was in a group, up to a second before
// it was last heard of.
type OtherMember struct {
	NodeID    string `json:"node_id"`
	Known     bool   `json:"known"` // It said something.
	Committed uint64 `json:"committed_index"`
	// Missing is how many committed entries this folder surely lacks.
	Missing uint64 `json:"missing"`
}

// recoveryFile keeps what a recovery did, in the folder.
const recoveryFile = "recovered.json"

// PlanRecovery says what Recover would do with the folder of a stopped node.
func PlanRecovery(dir string, logger *slog.Logger) (Recovery, error) {
	return withFolder(dir, logger, func(f *folder) (Recovery, error) { return f.plan() })
}

// Recover makes a new cell of the one node whose folder this is. It may be repeated if it
// was interrupted; the node does not start in between.
func Recover(dir string, logger *slog.Logger) (Recovery, error) {
	return withFolder(dir, logger, func(f *folder) (Recovery, error) {
		r, err := f.plan()
		if err != nil {
			return r, err
		}
		return r, f.recover(&r, dir)
	})
}

// folder is that of a stopped node.
type folder struct {
	node  *Node // Holds log, state and record; nothing of it runs.
	log   *raftlog.Store
	state *statedb.DB
	view  *cell.View
}

func withFolder(dir string, logger *slog.Logger, do func(*folder) (Recovery, error)) (r Recovery, err error) {
	if _, err := os.Stat(raftlogIn(dir)); err != nil {
		return r, fmt.Errorf("%w: %s isn't the folder of a node: %w", ErrFolder, dir, err)
	}
	log, err := raftlog.Open(raftlogIn(dir), raftlog.Options{FS: vfs.Default, Logger: logger})
	if err != nil {
		return r, storageError(err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	state, err := statedb.Open(filepath.Join(dir, stateDir), statedb.Options{FS: vfs.Default, Logger: logger})
	if err != nil {
		return r, storageError(err)
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	f := &folder{node: &Node{log: log, state: state, logger: logger, cfg: Config{Dir: dir, FS: vfs.Default}}, log: log, state: state}
	b, err := log.NodeValue(recordName)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &f.node.record); err != nil || !f.node.record.Begun && f.node.record.Recovering == "" {
		return r, fmt.Errorf("%w: folder %s doesn't belong to a cell", ErrFolder, dir)
	}
	if why := f.node.record.Refused; why != "" {
		return r, fmt.Errorf("%w, so it lacks what it had confirmed; recover from another node's folder: %s", ErrRefused, why)
	}
	if f.view, err = cell.StoredView(state.Group(cell.GroupID)); err != nil {
		return r, fmt.Errorf("read the cell's records: %w", err)
	}
	if err := f.node.loadQuarantine(); err != nil {
		return r, err
	}
	return do(f)
}

// plan reads what there is.
func (f *folder) plan() (Recovery, error) {
	rec := f.node.record
	r := Recovery{NodeID: rec.NodeID, OldCellID: rec.CellID, At: time.Now().UTC(), Others: f.others(), Groups: []RecoveredGroup{}}
	said := peerstate.New(f.log, rec.FolderID, f.node, f.node.logger)
	ids, err := f.log.GroupIDs()
	if err != nil {
		return r, err
	}
	for _, id := range ids {
		s, err := group.Look(f.state.Group(id), f.log.Group(id))
		if err != nil {
			return r, fmt.Errorf("group %d: %w", id, err)
		}
		if s.Last == 0 {
			continue
		}
		g := RecoveredGroup{Group: id, Last: s.Last, Applied: s.Applied, LastAt: s.LastAt, Voters: s.Voters, Others: []OtherMember{}}
		if why, out := f.node.quarantine.out(id); out {
			g.Quarantined = why
		}
		for _, other := range r.Others {
			committed, known := said.Committed(other, id)
			g.Others = append(g.Others, OtherMember{NodeID: other, Known: known, Committed: committed, Missing: committed - min(committed, s.Last)})
		}
		r.Groups = append(r.Groups, g)
	}
	if why, out := f.node.quarantine.out(cell.GroupID); out {
		return r, fmt.Errorf("%w: %s; recover from another node's folder", ErrQuarantined, why)
	}
	return r, nil
}

// others are the ids of the cell's other nodes.
func (f *folder) others() []string {
	out := append([]string{}, f.node.record.Gone...)
	add := func(id string) {
		if id != f.node.record.NodeID && !slices.Contains(out, id) && !f.view.NodeRemoved(id) {
			out = append(out, id)
		}
	}
	for _, n := range f.view.Nodes() {
		add(n.GetId())
	}
	for _, n := range f.node.record.Nodes {
		add(n.ID)
	}
	slices.Sort(out)
	return out
}

// recover writes the new cell's id first: from then on no node of the old cell talks to this
// one, whose start is refused until all groups are its own.
func (f *folder) recover(r *Recovery, dir string) error {
	rec := f.node.record
	if rec.Recovering != "" { // It goes on where it was interrupted.
		r.OldCellID, r.NewCellID = rec.Recovering, rec.CellID
	} else {
		r.NewCellID = NewCellID()
	}
	if err := f.node.setRecord(func(n *record) {
		if n.Recovering == "" {
			n.Replaced = append(n.Replaced, r.OldCellID)
		}
		n.CellID, n.Recovering, n.Begun, n.Gone = r.NewCellID, r.OldCellID, false, r.Others
	}); err != nil {
		return err
	}
	for _, g := range r.Groups {
		if err := group.MakeAlone(f.state.Group(g.Group), f.log.Group(g.Group), rec.NodeID); err != nil {
			return fmt.Errorf("group %d: %w", g.Group, err)
		}
	}
	report, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode what was done: %w", err)
	}
	path := filepath.Join(dir, recoveryFile)
	if err := disk.WriteFile(vfs.Default, path, append(f.before(path), append(report, '\n')...)); err != nil {
		return fmt.Errorf("write what was done: %w", err)
	}
	self := known{ID: rec.NodeID, FolderID: rec.FolderID}
	if k, ok := rec.node(rec.NodeID); ok {
		self = k
	}
	return f.node.setRecord(func(n *record) { n.Recovering, n.Begun, n.First, n.Nodes = "", true, true, []known{self} })
}

// before is what earlier recoveries of the folder did.
func (f *folder) before(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.node.logger.Warn("what an earlier recovery did is written over", "err", err)
	}
	return b
}

// ErrRecovering: a recovery of the folder was interrupted.
var ErrRecovering = errors.New("the recovery of this node's folder isn't finished")

// removeGone takes the nodes of the cell of before a recovery out of the records, so that
// their ids never come back.
func (n *Node) removeGone() {
	for _, id := range n.folderRecord().Gone {
		for n.loopCtx.Err() == nil {
			err := n.members.RemoveNode(n.loopCtx, id)
			if err == nil {
				n.logger.Warn("a node of the cell before its recovery was removed", "node", id)
				break
			}
			n.logger.Info("a node of the cell before its recovery isn't removed yet", "node", id, "err", err)
			select {
			case <-time.After(joinPause):
			case <-n.loopCtx.Done():
			}
		}
	}
	if n.loopCtx.Err() != nil {
		return
	}
	if err := n.setRecord(func(r *record) { r.Gone = nil }); err != nil {
		n.logger.Error("the removed nodes stay noted", "err", err)
	}
}

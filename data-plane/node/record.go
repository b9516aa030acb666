package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/oklog/ulid/v2"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
)

var (
	// ErrWiped: a part of the node's data is gone. With an empty log under its old id
	// the node would break promises that it has forgotten (R11).
	ErrWiped = errors.New("a part of this node's data is gone")
	// ErrFolder: this node cannot use the folder: it is another node's, another
	// cell's, or no node's.
	ErrFolder = errors.New("not this node's folder")
	// ErrRefused: the cell does not take this node, and asking again will not help.
	ErrRefused = errors.New("the cell refuses this node")
	// ErrVersion: this program is too old, or too new, for the version of the cell. The
	// folder is as it should be: start it with another program.
	ErrVersion = cellversion.ErrSkew
)

// record is a folder's identity. It is stored with a sync in the store of the raft
// log, so that it is lost together with the votes and entries that it stands for.
type record struct {
	NodeID string `json:"node_id"`
	// FolderID is made with the folder: a folder that was emptied has another.
	FolderID string `json:"folder_id"`
	// CellID is empty until the cell is formed here or the node is admitted.
	CellID string `json:"cell_id,omitempty"`
	// Replaced are the ids that the cell had before recoveries, the newest last.
	Replaced []string `json:"replaced,omitempty"`
	// Begun: all first nodes have stored the cell's id, so this one may vote.
	Begun bool `json:"begun,omitempty"`
	// First: the node is one of the cell's first voters, which are Nodes.
	First bool    `json:"first,omitempty"`
	Nodes []known `json:"nodes,omitempty"`
	// Recovering is the cell id of before a recovery that has begun and not ended; Gone are
	// that cell's other nodes, until they are removed from the records.
	Recovering string   `json:"recovering,omitempty"`
	Gone       []string `json:"gone,omitempty"`
	// Refused is why the cell will never take this folder again.
	Refused string `json:"refused,omitempty"`
}

// known is a node of the cell at the time when this one became part of it.
type known struct {
	ID          string `json:"id"`
	RaftAddress string `json:"raft_address"`
	APIURL      string `json:"api_url"`
	FolderID    string `json:"folder_id"`
	// The versions that its program spoke.
	Lowest  cellversion.Version `json:"lowest_version"`
	Highest cellversion.Version `json:"highest_version"`
}

func knownNodes(nodes []*cellv1.Node) []known {
	out := make([]known, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, known{
			ID: n.GetId(), RaftAddress: n.GetRaftAddress(), APIURL: n.GetApiUrl(), FolderID: n.GetFolderId(),
			Lowest: n.GetLowestVersion(), Highest: n.GetHighestVersion(),
		})
	}
	return out
}

func (k known) node() *cellv1.Node {
	return &cellv1.Node{Id: k.ID, RaftAddress: k.RaftAddress, ApiUrl: k.APIURL, FolderId: k.FolderID, LowestVersion: k.Lowest, HighestVersion: k.Highest}
}

func (r record) node(id string) (known, bool) {
	for _, k := range r.Nodes {
		if k.ID == id {
			return k, true
		}
	}
	return known{}, false
}

const (
	recordName  = "record"
	stateDir    = "state"
	newCellID   = "cell_"
	newFolderID = "folder_"
)

// loadRecord reads the folder's record, or makes the one of a new folder.
func (n *Node) loadRecord() error {
	b, err := n.log.NodeValue(recordName)
	if err != nil {
		return err
	}
	if b == nil {
		return n.newRecord()
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("decode the record of folder %s: %w", n.cfg.Dir, err)
	}
	if r.NodeID != n.cfg.ID {
		return fmt.Errorf("%w: folder %s belongs to node %s, not to node %s: start each node with its own folder", ErrFolder, n.cfg.Dir, r.NodeID, n.cfg.ID)
	}
	if r.Refused != "" {
		return fmt.Errorf("%w: %s", ErrRefused, r.Refused)
	}
	if r.Recovering != "" {
		return fmt.Errorf("%w: run `corvo-cloud node recover` again", ErrRecovering)
	}
	n.record = r
	return nil
}

func (n *Node) newRecord() error {
	_, err := n.cfg.FS.Stat(filepath.Join(n.cfg.Dir, stateDir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case n.cfg.alone() && n.cfg.AcceptLoss: // The only votes it can forget are its own.
	case n.cfg.alone():
		return storageError(errors.Join(fmt.Errorf("%w: folder %s has a state but no raft log", group.ErrLogLost, n.cfg.Dir), err))
	default:
		return errors.Join(fmt.Errorf("%w: folder %s has a state but no raft log", ErrWiped, n.cfg.Dir), err)
	}
	return n.setRecord(func(r *record) {
		r.NodeID, r.FolderID = n.cfg.ID, newFolderID+ulid.Make().String()
	})
}

// setRecord changes the record and returns when that is durable.
func (n *Node) setRecord(change func(*record)) error {
	n.recordMu.Lock()
	defer n.recordMu.Unlock()
	next := n.record
	change(&next)
	b, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode the folder's record: %w", err)
	}
	if err := n.log.SetNodeValue(recordName, b); err != nil {
		return err
	}
	n.record = next
	return nil
}

func (n *Node) folderRecord() record {
	n.recordMu.Lock()
	defer n.recordMu.Unlock()
	return n.record
}

// self is where this node is, and its folder.
func (n *Node) self() *cellv1.Node {
	r := n.folderRecord()
	out := &cellv1.Node{
		Id: n.cfg.ID, RaftAddress: n.cfg.Self.RaftAddress, ApiUrl: n.URL(), FolderId: r.FolderID,
		LowestVersion: cellversion.Lowest, HighestVersion: cellversion.Highest,
	}
	if p, ok := n.peers[n.cfg.ID]; ok {
		out.RaftAddress = p.RaftAddress
	}
	if out.RaftAddress == "" {
		out.RaftAddress = n.cfg.Raft.Addr().String()
	}
	return out
}

// Package peerstate remembers what the other nodes of the cell have said of themselves,
// and keeps out a node whose folder has less than that.
//
// It owns the records of the peers, which are stored with a sync beside the raft log,
// and the check of a peer's statement against them. Of raft's rules it must know only
// that a node's terms and committed indexes never go back. Nor does it know where
// nodes are, or what an entry means.
//
// Surprising: a record is what a node has said of itself, not what others saw of
// it. A node that lost data is found out by its own words.
package peerstate

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// Store keeps values durably, each under a name.
type Store interface {
	NodeValue(name string) ([]byte, error)
	SetNodeValue(name string, value []byte) error
}

// Self is what Records need to know of its own node and cell.
type Self interface {
	// LogStates is how far this node is in one group, or in all for group 0.
	LogStates(group uint32) []transport.LogState
	// Folder returns the folder that the cell has recorded for a node, "" for none,
	// and whether the node was removed.
	Folder(node string) (folder string, removed bool)
	// Speaks is the versions of the cell that this node's program speaks.
	Speaks() cellversion.Range
	// CellVersion is the version of the cell, 0 before it is known.
	CellVersion() cellversion.Version
	// Refused is called when a peer refuses this node.
	Refused(*transport.Refusal)
}

// Records are what one node has heard from its peers. They are a transport.Guard.
type Records struct {
	store  Store
	folder string
	self   Self
	log    *slog.Logger

	// storing has a token while a record is stored. Nobody who only looks waits for the
	// disk: one that stalls must hold up neither handshakes nor the log's cutting.
	storing chan struct{}

	mu    sync.Mutex // Guards known.
	known map[string]record
}

// record is what one peer has said, the highest of each.
type record struct {
	folder string
	groups map[uint32]transport.LogState // Without Last.
}

// New makes the records of the node with that folder.
func New(store Store, folder string, self Self, log *slog.Logger) *Records {
	return &Records{store: store, folder: folder, self: self, log: log, storing: make(chan struct{}, 1), known: make(map[string]record)}
}

// Statement implements transport.Guard.
func (rs *Records) Statement(group uint32) transport.Statement {
	speaks := rs.self.Speaks()
	return transport.Statement{Folder: rs.folder, Lowest: speaks.Lowest, Highest: speaks.Highest, Groups: rs.self.LogStates(group)}
}

// Check implements transport.Guard: it checks a later statement against what is
// known now.
func (rs *Records) Check(peer string) func(transport.Statement) *transport.Refusal {
	rs.mu.Lock()
	rec, err := rs.recordOf(peer)
	rs.mu.Unlock()
	folder, removed := rs.self.Folder(peer)
	return func(s transport.Statement) *transport.Refusal {
		switch {
		case removed:
			return transport.Refuse(transport.ErrRemoved, "the id %s was taken out of the cell and never comes back", peer)
		case folder != "" && s.Folder != folder:
			return otherFolder(peer, folder, s.Folder)
		case err != nil: // Not ErrOlderCopy: the folder that can't be read is ours.
			return transport.Refuse(transport.ErrUnreadable, "what node %s has said before can't be read: %v", peer, err)
		}
		if err := (cellversion.Range{Lowest: s.Lowest, Highest: s.Highest}).Check(rs.self.CellVersion()); err != nil {
			return transport.Refuse(transport.ErrVersion, "%v", err)
		}
		return rec.judge(peer, s)
	}
}

func otherFolder(peer, known, shown string) *transport.Refusal {
	return transport.Refuse(transport.ErrOtherFolder, "node %s has folder %s, not %s: what it confirmed is in the other one", peer, known, shown)
}

func (r record) judge(peer string, s transport.Statement) *transport.Refusal {
	if r.folder != "" && s.Folder != r.folder {
		return otherFolder(peer, r.folder, s.Folder)
	}
	for _, g := range s.Groups {
		said, ok := r.groups[g.Group]
		switch {
		case !ok:
		case g.Last < said.Committed:
			return transport.Refuse(transport.ErrOlderCopy, "in group %d its folder ends at index %d, and it has confirmed %d", g.Group, g.Last, said.Committed)
		case g.Term < said.Term:
			return transport.Refuse(transport.ErrOlderCopy, "in group %d its folder is in term %d, and it has been in term %d", g.Group, g.Term, said.Term)
		}
	}
	return nil
}

// Remember implements transport.Guard: it returns when the record is durable.
func (rs *Records) Remember(peer string, s transport.Statement) {
	rs.storing <- struct{}{}
	defer func() { <-rs.storing }()
	rs.mu.Lock()
	rec, err := rs.recordOf(peer)
	rs.mu.Unlock()
	if err == nil {
		var grown bool
		if rec, grown = rec.with(s); !grown {
			return
		}
		err = rs.store.SetNodeValue(name(peer), rec.encode())
	}
	if err != nil {
		rs.log.Error("what another node said is not remembered", "peer", peer, "err", err)
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.known[peer] = rec
}

// Committed is the highest index of a group that a peer has said it knows to be committed.
func (rs *Records) Committed(peer string, group uint32) (index uint64, known bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rec, err := rs.recordOf(peer)
	if err != nil {
		return 0, false
	}
	said, known := rec.groups[group]
	return said.Committed, known
}

// Refused implements transport.Guard.
func (rs *Records) Refused(r *transport.Refusal) { rs.self.Refused(r) }

// recordOf reads a peer's record. The caller holds mu.
func (rs *Records) recordOf(peer string) (record, error) {
	if rec, ok := rs.known[peer]; ok {
		return rec, nil
	}
	stored, err := rs.store.NodeValue(name(peer))
	if err != nil {
		return record{}, err
	}
	rec := record{groups: make(map[uint32]transport.LogState)}
	if stored != nil {
		s, err := transport.DecodeStatement(stored)
		if err != nil {
			return record{}, fmt.Errorf("record of node %s: %w", peer, err)
		}
		rec, _ = rec.with(s)
	}
	rs.known[peer] = rec
	return rec, nil
}

func name(peer string) string { return "said/" + peer }

// with returns r with what s adds, and whether s adds anything. It does not change
// r, which other goroutines may be reading.
func (r record) with(s transport.Statement) (_ record, grown bool) {
	out := record{folder: s.Folder, groups: make(map[uint32]transport.LogState, len(s.Groups))}
	grown = r.folder != s.Folder
	for id, g := range r.groups {
		out.groups[id] = g
	}
	for _, g := range s.Groups {
		old := out.groups[g.Group]
		next := transport.LogState{Group: g.Group, Term: max(old.Term, g.Term), Committed: max(old.Committed, g.Committed)}
		grown = grown || next != old
		out.groups[g.Group] = next
	}
	return out, grown
}

func (r record) encode() []byte {
	s := transport.Statement{Folder: r.folder}
	for _, g := range r.groups {
		s.Groups = append(s.Groups, g)
	}
	return s.Encode()
}

package cell

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReasonVersion: a node's program does not speak the cell's version.
const ReasonVersion = "CELL_VERSION"

// sinceOf is the version of the cell that brought a kind of change. This program does
// not know a kind that is not listed.
var sinceOf = map[int]cellversion.Version{ // A constant table, by field of message Change.
	1: cellversion.First, 2: cellversion.First, 3: cellversion.First, 4: cellversion.First, 5: cellversion.First, 6: cellversion.First,
	7: cellversion.First, 8: cellversion.First, 9: cellversion.First, 10: cellversion.First, 11: cellversion.First,
}

// since is the version that a change needs; 0 for none of a kind that is known.
func since(c *cellv1.Change) cellversion.Version {
	m := c.ProtoReflect()
	kind := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	if kind == nil {
		return 0
	}
	return sinceOf[int(kind.Number())]
}

// allowed refuses changes newer than the version in force. A cell has version 0 before
// its first entry.
func allowed(req *cellv1.ApplyRequest, version cellversion.Version) error {
	for i, c := range req.GetChanges() {
		if need := since(c); need > max(version, cellversion.First) {
			return fault.New(fault.Conflict, ReasonVersion,
				"changes[%d] needs version %d of the cell, which is at version %d: upgrade every node, then run `corvo-cloud cell raise-version`", i, need, version)
		}
	}
	return nil
}

func (e *edit) version() *cellv1.CellVersion {
	v := &cellv1.CellVersion{}
	e.record(e.key(famMeta, metaVersion), v)
	return v
}

// spoken records which versions a node's program speaks, in one record for all nodes,
// because apply cannot scan. A change that has only an address leaves it as it is.
func (e *edit) spoken(n *cellv1.Node) *cellv1.Node {
	v := e.version()
	i, known := slices.BinarySearchFunc(v.GetNodes(), n.GetId(), func(x *cellv1.NodeVersions, id string) int { return cmp.Compare(x.GetNodeId(), id) })
	switch {
	case n.GetHighestVersion() == 0 && known:
		n = proto.CloneOf(n)
		n.LowestVersion, n.HighestVersion = v.GetNodes()[i].GetLowest(), v.GetNodes()[i].GetHighest()
		return n
	case n.GetHighestVersion() != 0:
		if err := (cellversion.Range{Lowest: n.GetLowestVersion(), Highest: n.GetHighestVersion()}).Check(v.GetVersion()); err != nil {
			refuse(fault.Conflict, ReasonVersion, "node %s: %v", n.GetId(), err)
		}
	}
	said := &cellv1.NodeVersions{NodeId: n.GetId(), Lowest: n.GetLowestVersion(), Highest: n.GetHighestVersion()}
	if known {
		v.Nodes[i] = said
	} else {
		v.Nodes = slices.Insert(v.Nodes, i, said)
	}
	e.setRecord(e.key(famMeta, metaVersion), v)
	return n
}

// unspoken removes a leaving node from that record.
func (e *edit) unspoken(id string) {
	v := e.version()
	v.Nodes = slices.DeleteFunc(v.Nodes, func(n *cellv1.NodeVersions) bool { return n.GetNodeId() == id })
	e.setRecord(e.key(famMeta, metaVersion), v)
}

// raise switches the cell to a version that every node has said it speaks. A node whose
// record is no longer true, because an older program was started meanwhile, stops here:
// it could not apply what follows.
func (e *edit) raise(to cellversion.Version) {
	v := e.version()
	switch {
	case v.GetVersion() == to:
		return
	case v.GetVersion() > to:
		refuse(fault.Conflict, ReasonVersion, "the cell is at version %d and can't go back to %d", v.GetVersion(), to)
	}
	for _, n := range v.GetNodes() {
		if v.GetVersion() == 0 && n.GetHighest() == 0 {
			continue // The founder of the cell knows them.
		}
		if n.GetHighest() < to || n.GetLowest() > to {
			statedb.Check(cannot(n.GetNodeId(), n.GetLowest(), n.GetHighest(), to))
		}
	}
	statedb.Check(e.speaks.Check(to))
	v.Version = to
	e.setRecord(e.key(famMeta, metaVersion), v)
}

func cannot(node string, lowest, highest, to cellversion.Version) error {
	says := "hasn't said which versions it speaks"
	if highest != 0 {
		says = fmt.Sprintf("speaks %s", cellversion.Range{Lowest: lowest, Highest: highest})
	}
	return fault.New(fault.Conflict, ReasonVersion,
		"the cell can't be raised to version %d: node %s %s; start it with a program that does, or remove it from the cell", to, node, says)
}

// Version is the version of the cell; 0 before its first entry.
func (v *View) Version() cellversion.Version { return v.version }

func versionChange(to cellversion.Version) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Version{Version: to}}
}

// newest is the highest version that all the nodes speak.
func newest(nodes []*cellv1.Node) cellversion.Version {
	if len(nodes) == 0 {
		return 0
	}
	most := nodes[0].GetHighestVersion()
	for _, n := range nodes {
		most = min(most, n.GetHighestVersion())
	}
	return most
}

// raiseByItself raises the version as soon as all nodes can, until the term ends. It is
// for a cell of one process, where no other node runs an older program.
func (c *Cell) raiseByItself(ctx context.Context) {
	for ctx.Err() == nil {
		moved := c.Changed()
		if v := c.View(); v.Version() != 0 && newest(v.Nodes()) > v.Version() {
			to := newest(v.Nodes())
			_, err := c.propose(ctx, &cellv1.ApplyRequest{Changes: []*cellv1.Change{versionChange(to)}})
			if err == nil {
				c.logger.Info("raised the cell's version", "to", to)
				continue
			}
			if ctx.Err() == nil {
				c.logger.Warn("raise the cell's version", "to", to, "err", err)
			}
			_ = pause(ctx, retryEvery) // The loop sees the end.
			continue
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

// RaiseVersion switches the cell to a newer version; 0 is the newest that every node
// speaks. All nodes must answer now: a record says what a node ran, and its operator
// may have gone back to an older program since.
func (m *Membership) RaiseVersion(ctx context.Context, to cellversion.Version) (*cellv1.RaiseVersionResponse, error) {
	nodes := make([]*cellv1.Node, 0, nodesMax)
	for _, s := range m.Nodes(ctx) {
		if !s.GetReachable() {
			return nil, fault.New(fault.Conflict, ReasonVersion, "the cell's version can't be raised while node %s doesn't respond: start it, or remove it from the cell", s.GetNode().GetId())
		}
		nodes = append(nodes, s.GetNode())
	}
	if to == 0 {
		to = max(newest(nodes), m.cell.View().Version())
	}
	for _, n := range nodes {
		if n.GetHighestVersion() < to || n.GetLowestVersion() > to {
			return nil, cannot(n.GetId(), n.GetLowestVersion(), n.GetHighestVersion(), to)
		}
	}
	was := m.cell.View().Version()
	if was == to {
		return &cellv1.RaiseVersionResponse{Version: to}, nil
	}
	if _, err := m.cell.Apply(ctx, &cellv1.ApplyRequest{Changes: []*cellv1.Change{versionChange(to)}}); err != nil {
		return nil, err
	}
	m.logger.Info("raised the cell's version", "from", was, "to", to)
	return &cellv1.RaiseVersionResponse{Version: to, Raised: true}, nil
}

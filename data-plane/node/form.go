package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/oklog/ulid/v2"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Formation forms the cell from inside one process that holds the folders of all its
// nodes, and so knows which of them are new.
type Formation struct {
	CellID string
	// Fresh: the cell was never formed before, so a folder without it is new and
	// was not emptied.
	Fresh bool
	// Durable is called when this node has the cell's id on disk, and returns when all
	// have it. Nothing votes before.
	Durable func(context.Context) error
}

// NewCellID makes the id of a cell.
func NewCellID() string { return newCellID + ulid.Make().String() }

// waiting is what a node without a cell tells its operator.
const waiting = "this node's folder doesn't belong to a cell, so the node can't vote and waits: form a new cell with `corvo-cloud cell form --nodes URL,...`, " +
	"or start it with --join to add it to one. If it was part of a cell, its data is gone: add a node with a new id instead"

// found makes this node one of the first of its cell.
func (n *Node) found(ctx context.Context, f Formation) error {
	r := n.folderRecord()
	if r.CellID == "" && !f.Fresh {
		return fmt.Errorf("%w: folder %s doesn't belong to a cell, but this node's cell was already formed", ErrWiped, n.cfg.Dir)
	}
	if r.CellID == "" {
		nodes := make([]known, 0, len(n.cfg.Peers))
		for _, p := range n.cfg.Peers {
			nodes = append(nodes, known{ID: p.ID, RaftAddress: p.RaftAddress, APIURL: p.APIURL, Lowest: cellversion.Lowest, Highest: cellversion.Highest}) // All run in this process.
		}
		if err := n.setRecord(func(r *record) { r.CellID, r.First, r.Nodes = f.CellID, true, nodes }); err != nil {
			return err
		}
	} else if r.CellID != f.CellID {
		return fmt.Errorf("%w: folder %s belongs to cell %s, not to %s", ErrFolder, n.cfg.Dir, r.CellID, f.CellID)
	}
	if f.Durable != nil {
		if err := f.Durable(ctx); err != nil {
			return err
		}
	}
	return n.setRecord(func(r *record) { r.Begun = true })
}

// admit asks the cell to record this node, and learns the cell's id. It repeats until
// a node answers.
func (n *Node) admit(ctx context.Context) error {
	client := cell.NewClient(n.signer, "", n.cfg.ID, n.transport, n.cfg.Join)
	for {
		once, cancel := context.WithTimeout(ctx, admitTimeout)
		res, err := client.AdmitNode(once, connect.NewRequest(&cellv1.AdmitNodeRequest{Node: n.self()}))
		cancel()
		if err == nil {
			return n.setRecord(func(r *record) {
				r.CellID, r.Replaced, r.Begun, r.Nodes = res.Msg.GetCellId(), res.Msg.GetReplacedCells(), true, knownNodes(res.Msg.GetNodes())
			})
		}
		if f := cell.Fault(err); f.Reason == cell.ReasonNodeIDUsed {
			return fmt.Errorf("%w: %s", ErrRefused, f.Message)
		} else if f.Reason == cell.ReasonVersion {
			return fmt.Errorf("%w: %s", ErrVersion, f.Message)
		}
		n.logger.Warn("not in the cell yet; retrying", "by", n.cfg.Join, "err", err)
		select {
		case <-time.After(joinPause):
		case <-ctx.Done():
			return fmt.Errorf("ask %s to join the cell: %w", n.cfg.Join, errors.Join(ctx.Err(), err))
		}
	}
}

const admitTimeout = 10 * time.Second

// formation serves the forming of a cell.
type formation struct{ n *Node }

var _ cellv1connect.FormationServiceHandler = formation{}

// newFormation serves corvo.cell.v1.FormationService to parts of the cell.
func (n *Node) newFormation() (path string, h http.Handler) {
	path, h = cellv1connect.NewFormationServiceHandler(formation{n})
	return path, cell.SignedOnly(n.signer, h)
}

// Describe implements the service.
func (f formation) Describe(context.Context, *connect.Request[cellv1.DescribeRequest]) (*connect.Response[cellv1.DescribeResponse], error) {
	r := f.n.folderRecord()
	out := &cellv1.DescribeResponse{Node: f.n.self(), CellId: r.CellID, Begun: r.Begun}
	if r.First {
		for _, k := range r.Nodes {
			out.MemberIds = append(out.MemberIds, k.ID)
		}
	}
	return connect.NewResponse(out), nil
}

// Prepare implements the service. The same cell and members may come again.
func (f formation) Prepare(_ context.Context, req *connect.Request[cellv1.PrepareRequest]) (*connect.Response[cellv1.PrepareResponse], error) {
	members := knownNodes(req.Msg.GetMembers())
	if err := f.checkMembers(req.Msg.GetCellId(), members); err != nil {
		return nil, cell.ToConnect(err)
	}
	var refused error
	err := f.n.setRecord(func(r *record) {
		switch {
		case r.CellID == "":
			r.CellID, r.First, r.Nodes = req.Msg.GetCellId(), true, members
		case r.CellID != req.Msg.GetCellId() || !sameIDs(r.Nodes, members):
			refused = fault.New(fault.Conflict, "CELL_EXISTS", "node %s already belongs to cell %s", r.NodeID, r.CellID)
		}
	})
	if err := errors.Join(refused, err); err != nil {
		return nil, cell.ToConnect(err)
	}
	return connect.NewResponse(&cellv1.PrepareResponse{}), nil
}

func (f formation) checkMembers(cellID string, members []known) error {
	self := f.n.self()
	var mine *known
	for i, m := range members {
		if m.ID == self.GetId() {
			mine = &members[i]
		}
		if !reachableFrom(m.RaftAddress, m.APIURL) {
			return fault.InvalidFields([]fault.Field{{Path: "members", Message: fmt.Sprintf(
				"node %s doesn't say where others can reach it (%s, %s): start it with --advertise-raft and --advertise-api", m.ID, m.RaftAddress, m.APIURL)}})
		}
	}
	switch {
	case f.n.cfg.Join != "":
		return fault.New(fault.Conflict, "NODE_JOINS", "node %s was started with --join; only nodes without it form a cell", self.GetId())
	case !strings.HasPrefix(cellID, newCellID):
		return fault.InvalidFields([]fault.Field{{Path: "cell_id", Message: "want " + newCellID + " and 26 characters"}})
	case mine == nil || mine.FolderID != self.GetFolderId():
		return fault.New(fault.Conflict, "FOLDER_CHANGED", "node %s has folder %s, which isn't among the members; start over", self.GetId(), self.GetFolderId())
	}
	return nil
}

// reachableFrom reports whether both addresses name a host.
func reachableFrom(raft, api string) bool {
	u, err := url.Parse(api)
	if err != nil {
		return false
	}
	for _, address := range []string{raft, u.Host} {
		host, _, err := net.SplitHostPort(address)
		if err != nil || host == "" {
			return false
		}
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			return false
		}
	}
	return true
}

func sameIDs(a, b []known) bool {
	ids := func(list []known) []string {
		var out []string
		for _, k := range list {
			out = append(out, k.ID+" "+k.FolderID)
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(ids(a), ids(b))
}

// Begin implements the service.
func (f formation) Begin(_ context.Context, req *connect.Request[cellv1.BeginRequest]) (*connect.Response[cellv1.BeginResponse], error) {
	var refused error
	err := f.n.setRecord(func(r *record) {
		if r.CellID == "" || r.CellID != req.Msg.GetCellId() {
			refused = fault.New(fault.Conflict, "OTHER_CELL", "node %s isn't prepared for cell %s; its folder belongs to %q", r.NodeID, req.Msg.GetCellId(), r.CellID)
			return
		}
		r.Begun = true
	})
	if err := errors.Join(refused, err); err != nil {
		return nil, cell.ToConnect(err)
	}
	f.n.begin.Do(func() { close(f.n.begun) })
	return connect.NewResponse(&cellv1.BeginResponse{}), nil
}

// waitForCell waits until the node is formed into a cell, and then takes part in
// it.
func (n *Node) waitForCell() {
	n.logger.Warn(waiting)
	select {
	case <-n.begun:
	case <-n.enterCtx.Done():
		return
	}
	if err := n.takePart(n.enterCtx); err != nil && n.enterCtx.Err() == nil {
		n.end(fmt.Errorf("take part in the cell: %w", err))
	}
}

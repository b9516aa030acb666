package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
)

// ErrQuarantined: the node's copy of the cell's records is left out, and with it the node.
var ErrQuarantined = errors.New("this node's copy of the cell's records is quarantined")

// leftOut is why a replica of this node does not take part, or does not serve. It is stored
// with a sync beside the raft log, and what it says holds after a restart.
type leftOut struct {
	Why string `json:"why,omitempty"` // Empty: it does.
	// Disputed: it takes part, and does not serve.
	Disputed bool         `json:"disputed,omitempty"`
	Since    time.Time    `json:"since"`
	Marks    []group.Mark `json:"marks,omitempty"` // Its digests then.
	// CrashedAt is the entry at which the group ended the process, Crashes times in a row.
	CrashedAt uint64 `json:"crashed_at,omitempty"`
	Crashes   int    `json:"crashes,omitempty"`
}

// crashesMax is how often a group may end the process at the same entry before it is
// left out (R7).
const crashesMax = 2

// quarantine is the replicas of a node that are left out. It is a cell.Quarantine.
type quarantine struct {
	n *Node

	repairing sync.Mutex // Held by a repair: one at a time.
	mu        sync.Mutex // Guards groups; held while a record is stored.
	groups    map[uint32]leftOut
	differs   map[uint32]string // Members that were logged as different.
	leaders   map[uint32]string // Who was last seen to lead what is left out.
	repaired  chan struct{}     // Closed when the meta group's copy was repaired.
}

func quarantineName(id uint32) string { return fmt.Sprintf("quarantine/%d", id) }

// loadQuarantine reads what is left out, and leaves out what ended the process twice.
func (n *Node) loadQuarantine() error {
	q := &quarantine{n: n, groups: make(map[uint32]leftOut), differs: make(map[uint32]string), leaders: make(map[uint32]string), repaired: make(chan struct{})}
	n.quarantine = q
	ids, err := n.log.GroupIDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		b, err := n.log.NodeValue(quarantineName(id))
		if err != nil {
			return err
		}
		var r leftOut
		if b == nil {
			continue
		}
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("decode why group %d is left out: %w", id, err)
		}
		q.groups[id] = r
		if r.Crashes >= crashesMax && (r.Why == "" || r.Disputed) {
			why := fmt.Sprintf("it ended the process %d times at entry %d", r.Crashes, r.CrashedAt)
			if err := q.set(id, func(r *leftOut) { r.Why, r.Disputed, r.Since = why, false, time.Now() }); err != nil {
				return err
			}
		}
		if why, out := q.out(id); out {
			n.logger.Error("a group is quarantined on this node and left out; see `corvo-cloud cell repair`", "group", id, "why", why)
		}
	}
	return nil
}

// set changes a group's record and returns when that is durable.
func (q *quarantine) set(id uint32, change func(*leftOut)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.groups[id]
	change(&r)
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode why group %d is left out: %w", id, err)
	}
	if err := q.n.log.SetNodeValue(quarantineName(id), b); err != nil {
		return err
	}
	q.groups[id] = r
	return nil
}

func (q *quarantine) of(id uint32) leftOut {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.groups[id]
}

// out reports whether a group is left out, and why.
func (q *quarantine) out(id uint32) (why string, out bool) {
	r := q.of(id)
	return r.Why, r.Why != "" && !r.Disputed
}

// leader is who was last seen to lead a group that is left out.
func (q *quarantine) leader(id uint32) (node string, out bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.groups[id]
	return q.leaders[id], r.Why != "" && !r.Disputed
}

// Leads implements cell.Quarantine.
func (q *quarantine) Leads(id uint32, node string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaders[id] = node
}

// disputed is why a group may not serve, or "".
func (q *quarantine) disputed(id uint32) string {
	if r := q.of(id); r.Disputed {
		return r.Why
	}
	return ""
}

// String says what is left out or does not serve, "" if nothing.
func (q *quarantine) String() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(q.groups)) {
		switch r := q.groups[id]; {
		case r.Why == "":
		case r.Disputed:
			parts = append(parts, fmt.Sprintf("group %d is disputed: %s", id, r.Why))
		default:
			parts = append(parts, fmt.Sprintf("group %d is quarantined: %s", id, r.Why))
		}
	}
	return strings.Join(parts, "; ")
}

// Quarantine implements cell.Quarantine.
func (q *quarantine) Quarantine(id uint32, why string) error {
	if _, out := q.out(id); out {
		return nil
	}
	g := q.n.groups.Group(id)
	if g == nil {
		return fmt.Errorf("group %d is not open", id)
	}
	marks := g.Marks()
	if err := q.set(id, func(r *leftOut) { r.Why, r.Disputed, r.Since, r.Marks = why, false, time.Now(), marks }); err != nil {
		return err
	}
	q.n.logger.Error("a group is quarantined on this node: the others go on, its data is kept; see `corvo-cloud cell repair`", "group", id, "why", why)
	g.Dispute(why) // It serves no more from here on.
	if id == cell.GroupID {
		q.n.end(fmt.Errorf("%w: %s", ErrQuarantined, why))
		return nil
	}
	if g.Status().Leader == q.n.cfg.ID {
		if err := g.Transfer(""); err != nil {
			q.n.logger.Warn("hand leadership over", "group", id, "err", err) // The others elect.
		}
	}
	q.n.groups.remove(id)
	return g.Shutdown()
}

// Dispute implements cell.Quarantine.
func (q *quarantine) Dispute(id uint32, why string) error {
	g := q.n.groups.Group(id)
	if g == nil || g.Disputed() == why {
		return nil
	}
	first := why != "" && g.Disputed() == ""
	if err := q.set(id, func(r *leftOut) { r.Why, r.Disputed, r.Since = why, why != "", time.Now() }); err != nil {
		return err
	}
	if first {
		q.n.logger.Error("replicas of a group differ, and nobody knows which is right: it doesn't serve; see `corvo-cloud cell repair`", "group", id, "why", why)
	}
	if why == "" {
		q.n.logger.Warn("most replicas of a group agree again: it serves", "group", id)
	}
	g.Dispute(why)
	return nil
}

// Differs implements cell.Quarantine.
func (q *quarantine) Differs(id uint32, nodes []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := strings.Join(nodes, ", ")
	if q.differs[id] == now {
		return
	}
	q.differs[id] = now
	if now != "" {
		q.n.logger.Error("the state of a group on another node differs from that of most voters", "group", id, "nodes", now)
	}
}

// Digests implements cell.Quarantine.
func (q *quarantine) Digests(id uint32, indexes []uint64) []group.Mark {
	var out []group.Mark
	for _, m := range q.of(id).Marks {
		if slices.Contains(indexes, m.Index) {
			out = append(out, m)
		}
	}
	return out
}

// Quarantined implements cell.Quarantine.
func (q *quarantine) Quarantined() []*cellv1.GroupStatus {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*cellv1.GroupStatus
	for _, id := range slices.Sorted(maps.Keys(q.groups)) {
		if r := q.groups[id]; r.Why != "" && !r.Disputed {
			s := &cellv1.GroupStatus{Group: id, Role: "quarantined", Detail: r.Why + ", since " + r.Since.UTC().Format(time.RFC3339)}
			if len(r.Marks) > 0 {
				s.AppliedIndex, s.DigestIndex, s.Digest = r.Marks[0].Index, r.Marks[0].Index, r.Marks[0].Digest
			}
			out = append(out, s)
		}
	}
	return out
}

// crashed counts that a group ends the process at an entry. It returns when that is durable.
func (q *quarantine) crashed(id uint32, index uint64) {
	err := q.set(id, func(r *leftOut) {
		if r.CrashedAt != index {
			r.CrashedAt, r.Crashes = index, 0
		}
		r.Crashes++
	})
	if err != nil {
		q.n.logger.Error("a crash of a group isn't counted", "group", id, "err", err)
	}
}

// RepairGroup implements the service.
func (f formation) RepairGroup(ctx context.Context, req *connect.Request[cellv1.RepairGroupRequest]) (*connect.Response[cellv1.RepairGroupResponse], error) {
	res, err := f.n.quarantine.repair(ctx, req.Msg.GetGroup(), req.Msg.GetFromUrl())
	if err != nil && fault.As(err) == nil {
		err = fault.New(fault.Unavailable, "NOT_REPAIRED", "group %d isn't repaired; it stays quarantined: %v", req.Msg.GetGroup(), err)
	}
	if err != nil {
		return nil, cell.ToConnect(err)
	}
	return connect.NewResponse(res), nil
}

// repair replaces a group's state by that of another node, and lets the group take part
// again. It may be repeated.
func (q *quarantine) repair(ctx context.Context, id uint32, from string) (*cellv1.RepairGroupResponse, error) {
	if !q.repairing.TryLock() {
		return nil, fault.New(fault.Unavailable, "CHANGE_IN_PROGRESS", "this node is already repairing a group; try again")
	}
	defer q.repairing.Unlock()
	if err := q.mayRepair(ctx, id); err != nil {
		return nil, err
	}
	res := &cellv1.RepairGroupResponse{}
	if from != "" {
		var err error
		if res, err = q.fetch(ctx, id, from); err != nil {
			return nil, err
		}
	}
	if err := q.letIn(id); err != nil {
		return nil, err
	}
	q.n.logger.Warn("a group was repaired and takes part again", "group", id, "from", from, "index", res.GetIndex(), "bytes", res.GetBytes())
	return res, nil
}

// mayRepair returns when a group is left out and nothing else will open it.
func (q *quarantine) mayRepair(ctx context.Context, id uint32) error {
	if id != cell.GroupID {
		if err := q.waitForStart(ctx); err != nil {
			return err
		}
	}
	if q.disputed(id) != "" {
		if err := q.Quarantine(id, "an operator repairs it"); err != nil {
			return err
		}
	}
	if _, out := q.out(id); !out {
		return fault.New(fault.Conflict, "NOT_QUARANTINED", "group %d isn't quarantined on node %s: there is nothing to repair", id, q.n.cfg.ID)
	}
	return nil
}

// waitForStart waits until the start has opened the shards that are not left out: it would open
// one that is let in meanwhile, too, and two replicas would share a log and a vote.
func (q *quarantine) waitForStart(ctx context.Context) error {
	if _, out := q.out(cell.GroupID); out {
		return errors.New("repair group 1, the cell's own records, first")
	}
	select {
	case <-q.n.groups.opened:
		return nil
	case <-q.n.enterCtx.Done():
		return errors.New("the node shuts down")
	case <-ctx.Done():
		return fmt.Errorf("the node is still starting: %w", ctx.Err())
	}
}

// letIn lets a group take part again. A shard that can't be opened stays left out, so that it can
// be repaired again.
func (q *quarantine) letIn(id uint32) error {
	before := q.of(id)
	if err := q.set(id, func(r *leftOut) { *r = leftOut{} }); err != nil {
		return err
	}
	if id == cell.GroupID {
		close(q.repaired)
		return nil
	}
	err := q.n.openShard(id)
	if err == nil {
		return nil
	}
	return errors.Join(err, q.set(id, func(r *leftOut) { *r = before }))
}

// fetch installs another node's state.
func (q *quarantine) fetch(ctx context.Context, id uint32, from string) (*cellv1.RepairGroupResponse, error) {
	n := q.n
	client := cell.NewClient(n.signer, n.folderRecord().CellID, n.cfg.ID, n.transport, from)
	res := &cellv1.RepairGroupResponse{}
	err := cell.FetchGroup(ctx, client, id, func(applied []byte, size uint64, data io.Reader) error {
		res.Bytes = size
		var err error
		res.Index, err = group.Repair(ctx, n.state.Group(id), n.log.Group(id), applied, data)
		return err
	})
	if err != nil {
		return nil, err
	}
	// Lists made from the state of before may be wrong.
	return res, n.models.RemoveOthers(func(ns job.Namespace) bool {
		v := n.view()
		if v == nil || id == cell.GroupID {
			return true
		}
		rec, ok := v.NamespaceByID(ns)
		return ok && rec.GetShard() != id
	})
}

// waitForRepair waits until the copy of the cell's records is repaired, without which the node
// knows nothing, and then takes part in the cell.
func (n *Node) waitForRepair() {
	select {
	case <-n.quarantine.repaired:
	case <-n.enterCtx.Done():
		return
	}
	if err := n.openGroups(n.enterCtx); err != nil && n.enterCtx.Err() == nil {
		n.end(fmt.Errorf("take part in the cell: %w", err))
	}
}

// waitsFor is what a node that serves nothing yet waits for.
func (n *Node) waitsFor() string {
	if n.quarantine == nil {
		return waiting
	}
	if why, out := n.quarantine.out(cell.GroupID); out {
		return "this node's copy of the cell's records (group 1) is quarantined: " + why + "; run `corvo-cloud cell repair --group 1`"
	}
	return waiting
}

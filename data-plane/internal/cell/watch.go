package cell

import (
	"context"
	"slices"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// leaderlessMax is how many heartbeats a node may leave out while it knows no
// leader: it could be cut off, and then must not confirm a watcher's state.
const leaderlessMax = 3

// behindMax is how long a watcher waits for a node that has not yet applied what
// the watcher has already seen elsewhere, before it is sent to another node.
const behindMax = 10 * time.Second

// Watch calls send with the state after afterIndex and then with every change, in
// order and without a gap, until ctx ends or send fails. A watcher that starts at
// 0, or that fell behind what the node keeps, is sent the whole state. While
// nothing changes, a heartbeat tells the index up to which the watcher is current.
//
// A watcher holds no buffer here: it reads the shared history at its own pace.
func (c *Cell) Watch(ctx context.Context, afterIndex uint64, send func(*cellv1.WatchResponse) error) error {
	if err := c.waitReached(ctx, afterIndex); err != nil {
		return err
	}
	w := &watcher{at: afterIndex, send: func(m *cellv1.WatchResponse) error {
		m.CellId = c.id
		c.name(m.GetState())
		return send(m)
	}}
	beat := time.NewTicker(c.heartbeat)
	defer beat.Stop()
	owed := 0
	for {
		moved := c.Changed()
		if err := w.catchUp(c.View()); err != nil {
			return err
		}
		select {
		case <-moved:
		case <-beat.C:
			if c.group.Leader() == "" {
				if owed++; owed > leaderlessMax {
					return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "this node has lost the cell's leader; try another node")
				}
				continue
			}
			owed = 0
			if err := w.send(&cellv1.WatchResponse{Index: w.at}); err != nil {
				return err
			}
		case <-c.ending:
			return errEnding()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func errEnding() error {
	return fault.New(fault.Unavailable, "SHUTTING_DOWN", "this node is shutting down; watch another node")
}

// resumeAt is where a watcher goes on. What it has of a cell that this one replaced may
// be another history at the same indexes: it is sent the whole state.
func (c *Cell) resumeAt(w *cellv1.WatchRequest) (uint64, error) {
	switch theirs := w.GetCellId(); {
	case theirs == "" || theirs == c.id:
		return w.GetAfterIndex(), nil
	case slices.Contains(c.replaced, theirs):
		return 0, nil
	default:
		return 0, wrongCell(c.id, theirs)
	}
}

// waitReached waits for index: answering from an older state would undo a change,
// such as the revocation of a key.
func (c *Cell) waitReached(ctx context.Context, index uint64) error {
	late := time.NewTimer(behindMax)
	defer late.Stop()
	for {
		moved := c.Changed()
		if c.machine.reached(index) {
			return nil
		}
		select {
		case <-moved:
		case <-late.C:
			return fault.New(fault.Unavailable, "NODE_BEHIND", "this node is at index %d, but the watcher has already seen %d; try another node", c.View().Index(), index)
		case <-c.ending:
			return errEnding()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watcher is one stream's position.
type watcher struct {
	at      uint64
	started bool // Until then, at is what the caller claims.
	send    func(*cellv1.WatchResponse) error
}

func (w *watcher) catchUp(v *View) error {
	first := !w.started
	w.started = true
	// Index 0 asks for the whole state; an index beyond this history gets it too.
	if first && (w.at == 0 || w.at > v.Index()) {
		return w.whole(v)
	}
	sets, ok := v.since(w.at)
	if !ok {
		return w.whole(v)
	}
	for _, s := range sets {
		w.at = s.index
		if err := w.send(&cellv1.WatchResponse{Index: s.index, Changes: s.changes}); err != nil {
			return err
		}
	}
	if first && len(sets) == 0 {
		return w.send(&cellv1.WatchResponse{Index: w.at}) // It resumed, and nothing was missed.
	}
	return nil
}

func (w *watcher) whole(v *View) error {
	w.at = v.Index()
	return w.send(&cellv1.WatchResponse{Index: v.Index(), State: v.State()})
}

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

const (
	// askTimeout bounds the question to one peer. It is safe to give up: a peer that did
	// not answer is asked again, and checks every connection by itself.
	askTimeout = time.Second
	// tellEvery is how often peers are told how far this node is, if that changed: only
	// what they were told lets them recognize an older copy of the folder.
	tellEvery = time.Second
)

// peerIDs is every other node that this one knows and the cell has not removed.
func (n *Node) peerIDs() []string {
	ids := map[string]bool{}
	for id := range n.peers {
		ids[id] = true
	}
	for _, k := range n.folderRecord().Nodes {
		ids[k.ID] = true
	}
	if v := n.view(); v != nil {
		for id := range ids {
			if v.NodeRemoved(id) {
				delete(ids, id)
			}
		}
		for _, rec := range v.Nodes() {
			ids[rec.GetId()] = true
		}
	}
	delete(ids, n.cfg.ID)
	return slices.Sorted(maps.Keys(ids))
}

// view is the cell's records as this folder has them, nil before they are read.
func (n *Node) view() *cell.View {
	if c := n.opened.Load(); c != nil {
		return c.View()
	}
	return n.stored.Load()
}

// ask tells peers how far this node is, and returns which were told and an
// objection, if any has one.
func (n *Node) ask(peers []string) (told []string, objection error) {
	var mu sync.Mutex // Guards the results.
	var asked sync.WaitGroup
	for _, id := range peers {
		asked.Go(func() {
			err := n.mux.Ask(id, askTimeout)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				told = append(told, id)
			case (final(err) || errors.Is(err, transport.ErrVersion)) && refusesUs(err, n.cfg.ID):
				objection = err
			default:
				n.logger.Debug("can't tell a peer how far this node is", "peer", id, "err", err)
			}
		})
	}
	asked.Wait()
	return told, objection
}

// final reports whether a refusal is permanent.
func final(err error) bool {
	return errors.Is(err, transport.ErrRemoved) || errors.Is(err, transport.ErrOtherFolder) || errors.Is(err, transport.ErrOlderCopy)
}

func refusesUs(err error, self string) bool {
	var r *transport.Refusal
	return errors.As(err, &r) && r.Of == self
}

// vet asks the reachable peers whether they know more of this node than its folder
// does, before the node takes part in anything.
func (n *Node) vet() error {
	view, err := cell.StoredView(n.state.Group(cell.GroupID))
	if err != nil {
		return fmt.Errorf("read the cell's records: %w", err)
	}
	n.stored.Store(view)
	if err := n.Speaks().Check(view.Version()); err != nil {
		return err
	}
	if _, objection := n.ask(n.peerIDs()); objection != nil {
		return n.refused(objection)
	}
	return nil
}

// tell keeps the peers informed until the node shuts down.
func (n *Node) tell() {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	last := make(map[string]string)
	for {
		select {
		case <-tick.C:
			n.tellOnce(last)
		case <-n.loopCtx.Done():
			return
		}
	}
}

// tellOnce tells the peers what they were not told yet. A node that is not ready asks
// all: it may have been removed.
func (n *Node) tellOnce(last map[string]string) {
	now := fmt.Sprint(n.LogStates(0))
	ready := n.health(n.loopCtx).Ready
	var peers []string
	for _, id := range n.peerIDs() {
		if !ready || last[id] != now {
			peers = append(peers, id)
		}
	}
	told, objection := n.ask(peers)
	if objection != nil {
		n.end(n.refused(objection))
		return
	}
	for _, id := range told {
		last[id] = now
	}
}

// LogStates implements peerstate.Self.
func (n *Node) LogStates(id uint32) []transport.LogState {
	if id != 0 {
		s, err := n.logState(id)
		if err != nil {
			n.logger.Error("can't read how far the folder is", "group", id, "err", err)
			return nil
		}
		return []transport.LogState{s}
	}
	ids, err := n.log.GroupIDs()
	if err != nil {
		n.logger.Error("can't read how far the folder is", "err", err)
		return nil
	}
	var out []transport.LogState
	for _, id := range ids {
		out = append(out, n.LogStates(id)...)
	}
	return out
}

func (n *Node) logState(id uint32) (transport.LogState, error) {
	if g := n.groups.Group(id); g != nil {
		return g.LogState(), nil
	}
	return group.LogStateOf(n.state.Group(id), n.log.Group(id))
}

// Folder implements peerstate.Self.
func (n *Node) Folder(id string) (folder string, removed bool) {
	if v := n.view(); v != nil {
		if v.NodeRemoved(id) {
			return "", true
		}
		if rec, ok := v.NodeByID(id); ok && rec.GetFolderId() != "" {
			return rec.GetFolderId(), false
		}
	}
	k, _ := n.folderRecord().node(id)
	return k.FolderID, false
}

// Speaks implements peerstate.Self.
func (*Node) Speaks() cellversion.Range { return cellversion.Supported() }

// CellVersion implements peerstate.Self.
func (n *Node) CellVersion() cellversion.Version {
	if v := n.view(); v != nil {
		return v.Version()
	}
	return 0
}

// Refused implements peerstate.Self. It is called on a goroutine of raft's.
func (n *Node) Refused(r *transport.Refusal) {
	if errors.Is(r, transport.ErrWrongCell) {
		n.logger.Warn("a peer belongs to another cell", "err", r)
	}
	if !final(r) && !errors.Is(r, transport.ErrVersion) {
		return // It may be temporary: the peer is starting.
	}
	go n.end(n.refused(r))
}

// refused records for good that the cell refuses this folder, because another peer
// might not know. A refusal of the program's version is not recorded.
func (n *Node) refused(objection error) error {
	if errors.Is(objection, transport.ErrVersion) {
		return fmt.Errorf("%w: %w", ErrVersion, objection)
	}
	err := n.setRecord(func(r *record) { r.Refused = objection.Error() })
	return errors.Join(fmt.Errorf("%w: %w", ErrRefused, objection), err)
}

// end stops the node's part in the cell at once and tells its owner why.
func (n *Node) end(err error) {
	n.ending.Do(func() {
		n.logger.Error("the node stops", "err", err)
		n.fitness.Set(health.ShuttingDown, "")
		n.ended <- err
		for _, g := range n.groups.all() {
			if err := g.Shutdown(); err != nil {
				n.logger.Warn("stop a group", "group", g.ID(), "err", err)
			}
		}
	})
}

// Ended has the error of a node that cannot go on. Its owner shuts it down.
func (n *Node) Ended() <-chan error { return n.ended }

// farewell tells the peers for the last time how far this node is.
func (n *Node) farewell(ctx context.Context) {
	if n.folderRecord().Begun && n.opened.Load() != nil && ctx.Err() == nil {
		_, objection := n.ask(n.peerIDs())
		if objection != nil {
			n.logger.Warn("a peer refuses this node", "err", objection)
		}
	}
}

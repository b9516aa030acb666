package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// freshFor is how long after the last message from a node an unknown key is refused
// as wrong; after that it may just be newer than our state.
const freshFor = 60 * time.Second

// view holds the current snapshot. Readers never wait.
type view struct {
	snap atomic.Pointer[snapshot]
	// mu makes one message at a time the next snapshot.
	mu sync.Mutex
	// heard is when a node last confirmed the snapshot, in Unix nanoseconds; 0 never.
	heard atomic.Int64
	// confirmed is heard or, until a node is heard, the value in the file on disk.
	confirmed atomic.Int64
	// loaded is set while there is a snapshot, from disk or from a node.
	loaded atomic.Bool
}

func newView() *view {
	v := &view{}
	v.snap.Store(&snapshot{})
	return v
}

func (v *view) current() *snapshot { return v.snap.Load() }

func (v *view) fresh(now time.Time) bool {
	heard := v.heard.Load()
	return heard != 0 && now.Sub(time.Unix(0, heard)) <= freshFor
}

// confirm records that a node said the snapshot is current.
func (v *view) confirm(now time.Time) {
	v.heard.Store(now.UnixNano())
	v.confirmed.Store(now.UnixNano())
}

// open uses the state from disk.
func (v *view) open(state *cellv1.State, now time.Time) {
	v.confirmed.Store(state.GetConfirmedNs())
	v.publish(snapshotOf(state))
	v.expire(now)
}

// expire drops a state that no node has confirmed for celladmin.CopyKept, except the
// nodes' addresses, and reports whether it did: by now the cell may have forgotten that
// one of its keys was revoked.
func (v *view) expire(now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.loaded.Load() || now.Sub(time.Unix(0, v.confirmed.Load())) <= celladmin.CopyKept {
		return false
	}
	v.snap.Store(v.current().bare())
	v.loaded.Store(false)
	return true
}

// publish makes next the current snapshot.
func (v *view) publish(next *snapshot) {
	v.snap.Store(next)
	v.loaded.Store(true)
}

// isOther reports whether a message is of another cell than the snapshot.
func isOther(cur *snapshot, msg *cellv1.WatchResponse) bool {
	return cur.cell != "" && msg.GetCellId() != "" && msg.GetCellId() != cur.cell
}

// take applies one message of a node's watch. Several watches may be merged: each
// is without gaps, so whatever has a higher index than the snapshot follows it. It
// reports whether the node is behind what is already known: its message is then
// ignored, because it could bring a revoked key back. So is one of another cell, except the
// state of one that replaced ours when it was recovered: that is another history, whatever
// its index.
func (v *view) take(msg *cellv1.WatchResponse, now time.Time) (behind bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	cur := v.current()
	switch {
	case isOther(cur, msg):
		if !slices.Contains(msg.GetState().GetReplacedCells(), cur.cell) {
			return true
		}
		v.publish(snapshotOf(msg.GetState()))
	case msg.GetState() != nil:
		if msg.GetState().GetIndex() < cur.index {
			return true
		}
		if msg.GetState().GetIndex() > cur.index || !v.loaded.Load() {
			v.publish(snapshotOf(msg.GetState()))
		}
	case !v.loaded.Load():
		return true // Only a whole state is useful.
	case len(msg.GetChanges()) > 0:
		if msg.GetIndex() <= cur.index {
			return false // A repetition; it confirms nothing newer.
		}
		v.publish(cur.with(msg.GetChanges(), msg.GetIndex()))
	case msg.GetIndex() != 0 && msg.GetIndex() < cur.index:
		return true
	}
	v.confirm(now)
	return false
}

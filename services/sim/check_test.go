package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	watchEvery = 300 * time.Millisecond
	// endPatience is how long after the last fault every job has an end: INV-2.
	endPatience = 60 * time.Second
)

// raftWatch looks at all replicas again and again: INV-17 and INV-16 as they run.
type raftWatch struct {
	w       *world
	leaders map[[2]uint64]string            // By group and term.
	applied map[string]map[uint32]uint64    // By process, then group.
	digests map[[2]uint64]map[string]uint64 // By group and index, then node.
}

func (w *world) watchRaft() {
	r := &raftWatch{w, map[[2]uint64]string{}, map[string]map[uint32]uint64{}, map[[2]uint64]map[string]uint64{}}
	for {
		time.Sleep(watchEvery)
		r.look()
	}
}

// look reports whether all members said the same of every group.
func (r *raftWatch) look() (equal bool) {
	before := r.w.incarnations()
	nodes, err := r.w.status()
	if err != nil {
		return false
	}
	after := r.w.incarnations()
	ends, equal := map[uint32]uint64{}, true
	said := 0
	for _, n := range nodes {
		id := n.GetNode().GetId()
		if !n.GetReachable() || len(n.GetGroups()) == 0 {
			continue
		}
		said++
		for _, g := range n.GetGroups() {
			switch g.GetRole() {
			case "leader":
				at := [2]uint64{uint64(g.GetGroup()), g.GetTerm()}
				if other := r.leaders[at]; other != "" && other != id {
					r.w.breach("INV-17: %s and %s led group %d in term %d", other, id, g.GetGroup(), g.GetTerm())
				}
				r.leaders[at] = id
			case "quarantined", "disputed":
				if r.w.damaged(id) {
					continue
				}
				r.w.breach("INV-16: group %d is %s on %s: %s", g.GetGroup(), g.GetRole(), id, g.GetDetail())
			}
			r.digest(g.GetGroup(), g.GetDigestIndex(), id, g.GetDigest())
			if at := ends[g.GetGroup()]; at != 0 && at != g.GetAppliedIndex() {
				equal = false
			}
			ends[g.GetGroup()] = g.GetAppliedIndex()
			if run := before[id]; run != "" && run == after[id] {
				r.advance(run, g.GetGroup(), g.GetAppliedIndex())
			}
		}
	}
	return equal && said == len(r.w.members())
}

func (r *raftWatch) digest(group uint32, index uint64, id string, digest uint64) {
	at := [2]uint64{uint64(group), index}
	if r.digests[at] == nil {
		r.digests[at] = map[string]uint64{}
	}
	for other, d := range r.digests[at] {
		if d != digest {
			r.w.breach("INV-16: group %d at index %d: %s has digest %x, %s %x", group, index, other, d, id, digest)
		}
	}
	r.digests[at][id] = digest
}

// advance: the applied index of one process never goes back.
func (r *raftWatch) advance(run string, group uint32, index uint64) {
	if r.applied[run] == nil {
		r.applied[run] = map[uint32]uint64{}
	}
	if index < r.applied[run][group] {
		r.w.breach("INV-17: the applied index of group %d in %s went from %d to %d", group, run, r.applied[run][group], index)
	}
	r.applied[run][group] = index
}

// incarnations are the processes that run now, by node.
func (w *world) incarnations() map[string]string {
	out := map[string]string{}
	for _, h := range w.members() {
		if p := h.process(); p != nil {
			out[h.id] = p.dir
		}
	}
	return out
}

// waitEqual waits until all replicas have applied the same.
func (w *world) waitEqual() {
	r := &raftWatch{w, map[[2]uint64]string{}, map[string]map[uint32]uint64{}, map[[2]uint64]map[string]uint64{}}
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	if err := w.retry(ctx, "equal replicas", func() error {
		if !r.look() {
			nodes, err := w.status()
			return errors.Join(fmt.Errorf("nodes say %v", nodes), err)
		}
		return nil
	}); err != nil {
		w.breach("INV-16: %v", err)
	}
}

// compareDisks ends all nodes and compares every key and value of their states.
func (w *world) compareDisks() {
	var first map[string][]byte
	firstID := ""
	for _, h := range w.members() {
		h.hold()
	}
	for _, h := range w.members() {
		p := h.process()
		if p == nil || p.node.Load() == nil {
			w.breach("INV-2: %s does not run at the end", h.id)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		err := p.node.Load().Shutdown(ctx, true)
		cancel()
		if err != nil {
			w.breach("%s does not shut down: %v", h.id, err)
			continue
		}
		all, err := h.disk.read()
		switch {
		case err != nil:
			w.breach("INV-16: read the state of %s: %v", h.id, err)
		case first == nil:
			first, firstID = all, h.id
		default:
			w.compare(firstID, first, h.id, all)
		}
	}
	w.say("compared %d keys on %d nodes", len(first), len(w.members()))
}

func (w *world) compare(aID string, a map[string][]byte, bID string, b map[string][]byte) {
	differ := 0
	keys := slices.Sorted(maps.Keys(a))
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		if !bytes.Equal(a[k], b[k]) {
			if differ++; differ <= 3 {
				w.breach("INV-16: key %x: %s has %x, %s %x", k, aID, a[k], bID, b[k])
			}
		}
	}
}

// ownNotes is the prefix of what a node notes for itself: up to where its state needs no log.
var ownNotes = []byte{0xff, 0xff, 0xff, 0xff}

// read is all keys and values of the replicated state.
func (d *disk) read() (_ map[string][]byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	db, err := pebble.Open(dataDir+"/state", &pebble.Options{FS: d.mem, ReadOnly: true, FormatMajorVersion: pebble.FormatNewest, Logger: silent{}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	it, err := db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for ok := it.First(); ok; ok = it.Next() {
		if bytes.HasPrefix(it.Key(), ownNotes) {
			continue
		}
		out[string(it.Key())] = withoutPosition(it.Key(), bytes.Clone(it.Value()))
	}
	return out, errors.Join(it.Error(), it.Close())
}

// withoutPosition is the value without the index and the term of a group's record of what it applied: a
// replica that cuts its log lifts them over entries that change nothing, such as a new leader's
// first. The digest, the times and the configuration beside them are the same everywhere.
func withoutPosition(key, value []byte) []byte {
	const record, form = 4 + 1, 1 // A group's prefix and a zero; see data-plane/internal/floor/group.
	if len(key) == record && key[record-1] == 0 && len(value) > form+2*8 {
		clear(value[form : form+2*8])
	}
	return value
}

type silent struct{}

func (silent) Infof(string, ...any)      {}
func (silent) Errorf(string, ...any)     {}
func (silent) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

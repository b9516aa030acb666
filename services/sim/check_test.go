package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

const (
	watchEvery = 300 * time.Millisecond
	// endPatience is how long after the last fault every job has an end: INV-2.
	endPatience = 60 * time.Second
)

// watchRaft asks all nodes again and again: INV-17 and INV-16 as they run.
func (w *world) watchRaft() {
	for {
		time.Sleep(watchEvery)
		before := w.incarnations()
		nodes := w.each()
		after := w.incarnations()
		if w.apart(nodes) {
			w.bothSides.Add(1)
		}
		for _, n := range nodes {
			id, process := n.GetNode().GetId(), ""
			if before[id] == after[id] {
				process = before[id]
			}
			for _, b := range w.replicas.Hear(n, process, w.damaged(id)) {
				w.breach("%s", b)
			}
		}
	}
}

// apart reports whether two of these do not hear each other.
func (w *world) apart(nodes []*cellv1.NodeStatus) bool {
	ips := map[string]string{}
	for _, h := range w.members() {
		ips[h.id] = h.ip
	}
	for i, a := range nodes {
		for _, b := range nodes[:i] {
			x, y := ips[a.GetNode().GetId()], ips[b.GetNode().GetId()]
			if w.net.isCut(link{x, y}) && w.net.isCut(link{y, x}) {
				return true
			}
		}
	}
	return false
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
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	if err := w.retry(ctx, "equal replicas", func() error {
		if nodes := w.each(); len(nodes) != len(w.members()) || !equal(nodes) {
			return fmt.Errorf("nodes say %v", nodes)
		}
		return nil
	}); err != nil {
		w.breach("INV-16: %v", err)
	}
}

// equal reports whether all have the same groups, and have applied the same in each.
func equal(nodes []*cellv1.NodeStatus) bool {
	ends := map[uint32]map[uint64]int{}
	for _, n := range nodes {
		for _, g := range n.GetGroups() {
			if ends[g.GetGroup()] == nil {
				ends[g.GetGroup()] = map[uint64]int{}
			}
			ends[g.GetGroup()][g.GetAppliedIndex()]++
		}
	}
	for _, at := range ends {
		for _, count := range at {
			if count != len(nodes) {
				return false
			}
		}
	}
	return len(ends) > 0
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
			if err := h.disk.copyState(filepath.Join(w.temp, lastState)); err != nil {
				w.breach("copy the state of %s: %v", h.id, err)
			}
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

// lastState is where a seed leaves the state of a node for the audit.
const lastState = "state"

// copyState copies the state to the machine's own disk.
func (d *disk) copyState(to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ok, err := vfs.Clone(d.mem, vfs.Default, dataDir+"/state", to, vfs.CloneSync)
	if err == nil && !ok {
		err = os.ErrNotExist
	}
	return err
}

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

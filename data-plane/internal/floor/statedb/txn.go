package statedb

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
)

// Txn gathers the changes of a run of log entries. Reads see its own earlier
// writes. Changes of one entry are sealed by EndEntry, which also returns the
// digest of exactly those changes, so that the digest does not depend on how
// entries were grouped into transactions.
//
// Invariants: a slot's value belongs to the Txn from Set on; `dirty` lists the
// slots first written by the current entry, in the order of their first write.
type Txn struct {
	group *Group
	batch *pebble.Batch
	index map[string]int
	slots []slot
	dirty []int
	cuts  []keyRange // Ranges the current entry removes.
	gone  cutMap     // Ranges removed by any entry so far: what the store has there is stale.
	entry int        // Number of the current entry within the Txn, from 1.
	hash  xxhash.Digest
	scan  *Lookup // Of the committed state, which does not change while the Txn lives; nil before InOrder.
	order bool    // Reads come in the order of keys.
}

type keyRange struct{ from, to []byte }

type slot struct {
	key   string
	value []byte // nil: deleted. Void if its key was cut since.
	cuts  int    // How many ranges had been cut when value was written.
	entry int    // Entry that last wrote it.
	fresh bool   // Created by `entry` itself: a delete in the same entry leaves no trace.
}

// NewTxn starts an empty transaction.
func (g *Group) NewTxn() *Txn {
	t, ok := g.db.txns.Get().(*Txn)
	if !ok {
		t = &Txn{index: make(map[string]int, 64)}
	}
	t.group, t.batch, t.entry = g, g.db.pebble.NewBatch(), 1
	return t
}

// slotsKept bounds what a spent Txn keeps for the next one.
const slotsKept = 1 << 16

// recycle gives the Txn's memory to the next one.
func (t *Txn) recycle() {
	db := t.group.db
	if cap(t.slots) > slotsKept {
		return
	}
	clear(t.index)
	clear(t.slots)
	*t = Txn{index: t.index, slots: t.slots[:0], dirty: t.dirty[:0], cuts: t.cuts[:0]}
	db.txns.Put(t)
}

// Get returns the current value of key, or ErrNotFound. The result must not be
// changed by the caller.
func (t *Txn) Get(key []byte) ([]byte, error) {
	if i, ok := t.index[string(key)]; ok {
		s := &t.slots[i]
		t.void(s)
		if s.value == nil {
			return nil, ErrNotFound
		}
		return s.value, nil
	}
	if t.gone.last(key) > 0 {
		return nil, ErrNotFound
	}
	if t.order {
		v, err := t.scan.Get(key)
		if err != nil {
			return nil, err
		}
		return append([]byte{}, v...), nil
	}
	return t.group.Get(key)
}

// InOrder says that the reads until end is called are of many keys, mostly in order: each
// starts where the last one ended.
func (t *Txn) InOrder() (end func(), err error) {
	if t.scan == nil {
		if t.scan, err = t.group.Lookup(); err != nil {
			return nil, err
		}
	}
	t.order = true
	return func() { t.order = false }, nil
}

// void drops the value of a slot that was cut since it was written. DeleteRange leaves
// that to the next use of the slot, because it could find its slots only by looking at
// all of them.
func (t *Txn) void(s *slot) {
	if s.value == nil || s.cuts == t.gone.count {
		return
	}
	if t.gone.last([]byte(s.key)) > s.cuts {
		s.value = nil
	}
	s.cuts = t.gone.count
}

// Has reports whether key exists.
func (t *Txn) Has(key []byte) (bool, error) {
	_, err := t.Get(key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Set writes key. The Txn keeps value: the caller must not change it afterwards.
func (t *Txn) Set(key, value []byte) { t.write(key, value, false) }

// SetNew writes a key that the caller knows does not exist anywhere yet (it
// contains the entry's own index). Deleting it within the same entry then
// leaves no trace in the store.
func (t *Txn) SetNew(key, value []byte) { t.write(key, value, true) }

func (t *Txn) write(key, value []byte, fresh bool) {
	if value == nil {
		value = []byte{}
	}
	touched := len(t.dirty)
	i := t.slotFor(key)
	t.put(i, value)
	// A key that this entry touched before may be in the store: its delete must stay.
	t.slots[i].fresh = fresh && len(t.dirty) > touched
}

// Delete removes key; removing what is not there is allowed.
func (t *Txn) Delete(key []byte) { t.put(t.slotFor(key), nil) }

func (t *Txn) put(i int, value []byte) {
	t.slots[i].value, t.slots[i].cuts = value, t.gone.count
}

func (t *Txn) slotFor(key []byte) int {
	assertPrefix(t.group.prefix, key)
	i, ok := t.index[string(key)]
	if !ok {
		i = len(t.slots)
		t.slots = append(t.slots, slot{key: string(key)})
		t.index[t.slots[i].key] = i
	}
	if s := &t.slots[i]; s.entry != t.entry {
		s.entry, s.fresh = t.entry, false
		t.dirty = append(t.dirty, i)
	}
	return i
}

// EndEntry moves the current entry's changes into the batch and folds them into
// the running digest: d' = H(d, index, changes).
func (t *Txn) EndEntry(digest, index uint64) (uint64, error) {
	var head [16]byte
	binary.BigEndian.PutUint64(head[:8], digest)
	binary.BigEndian.PutUint64(head[8:], index)
	t.hash.Reset()
	t.feed(head[:])
	for _, c := range t.cuts {
		t.feed(c.from)
		t.feed(c.to)
		if err := t.batch.DeleteRange(c.from, c.to, nil); err != nil {
			return 0, fmt.Errorf("delete state range %x: %w", c.from, err)
		}
	}
	t.cuts = t.cuts[:0]
	for _, i := range t.dirty {
		if err := t.flush(&t.slots[i]); err != nil {
			return 0, err
		}
	}
	t.dirty = t.dirty[:0]
	t.entry++
	return t.hash.Sum64(), nil
}

func (t *Txn) flush(s *slot) error {
	t.void(s)
	if s.value == nil && s.fresh {
		return nil
	}
	var frame [9]byte
	binary.BigEndian.PutUint32(frame[0:4], uint32(len(s.key)))
	binary.BigEndian.PutUint32(frame[4:8], uint32(len(s.value)))
	if s.value == nil {
		frame[8] = 1
	}
	t.feed(frame[:])
	t.feedText(s.key)
	t.feed(s.value)
	var op *pebble.DeferredBatchOp // Takes the key without a copy of its own.
	if s.value == nil {
		op = t.batch.DeleteDeferred(len(s.key))
	} else {
		op = t.batch.SetDeferred(len(s.key), len(s.value))
		copy(op.Value, s.value)
	}
	copy(op.Key, s.key)
	if err := op.Finish(); err != nil {
		return fmt.Errorf("add state key %x to batch: %w", s.key, err)
	}
	return nil
}

func (t *Txn) feed(b []byte) {
	if _, err := t.hash.Write(b); err != nil {
		panic(err) // Documented to never happen.
	}
}

func (t *Txn) feedText(s string) {
	if _, err := t.hash.WriteString(s); err != nil {
		panic(err) // Likewise.
	}
}

// DeleteRange removes [from, to), what the Txn itself wrote there included. The
// Txn keeps the slices.
func (t *Txn) DeleteRange(from, to []byte) {
	assertPrefix(t.group.prefix, from)
	assertPrefix(t.group.prefix, to)
	// The cut reaches the batch before the entry's own writes (EndEntry) and after
	// those of earlier entries. For slots of earlier entries it is enough that they
	// read as deleted.
	t.cuts = append(t.cuts, keyRange{from, to})
	t.gone.add(from, to)
}

// SetApplied writes the applied record outside any entry: it is part of the
// batch but not of the digest, because it depends on how entries were grouped.
func (t *Txn) SetApplied(key, value []byte) error {
	assertPrefix(t.group.prefix, key)
	if err := t.batch.Set(key, value, nil); err != nil {
		return fmt.Errorf("add applied record to batch: %w", err)
	}
	return nil
}

// Commit applies the batch without syncing. The Txn is spent.
func (t *Txn) Commit() error {
	if len(t.dirty) != 0 || len(t.cuts) != 0 {
		panic("statedb: commit with an unfinished entry")
	}
	defer t.group.db.watch(OpCommit)()
	if err := t.group.db.hand(func() error { return t.batch.Commit(pebble.NoSync) }); err != nil {
		return fmt.Errorf("commit state batch: %w", err)
	}
	return t.Discard()
}

// Discard drops the transaction: it must not be used again.
func (t *Txn) Discard() error {
	err := t.batch.Close()
	if t.scan != nil {
		err = errors.Join(err, t.scan.Close())
	}
	t.recycle()
	return err
}

package statedb

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
)

// naiveTxn does what a Txn does, in the plainest way: a removed range is looked for
// among all slots, a key among all removed ranges. Its batch and its digests are
// what those of a Txn have to be, byte for byte.
type naiveTxn struct {
	group *Group
	batch *pebble.Batch
	slots []naiveSlot // In the order of their first write.
	index map[string]int
	dirty []int
	cuts  []keyRange
	gone  []keyRange
}

type naiveSlot struct {
	key   string
	value []byte
	dirty bool
	fresh bool
}

func newNaive(g *Group) *naiveTxn {
	return &naiveTxn{group: g, batch: g.db.pebble.NewBatch(), index: map[string]int{}}
}

func (t *naiveTxn) Get(key []byte) ([]byte, error) {
	if i, ok := t.index[string(key)]; ok {
		if t.slots[i].value == nil {
			return nil, ErrNotFound
		}
		return t.slots[i].value, nil
	}
	for _, c := range t.gone {
		if bytes.Compare(c.from, key) <= 0 && bytes.Compare(key, c.to) < 0 {
			return nil, ErrNotFound
		}
	}
	return t.group.Get(key)
}

func (t *naiveTxn) Set(key, value []byte)    { t.write(key, append([]byte{}, value...), false) }
func (t *naiveTxn) SetNew(key, value []byte) { t.write(key, append([]byte{}, value...), true) }

func (t *naiveTxn) Delete(key []byte) { t.slots[t.touch(key)].value = nil }

func (t *naiveTxn) write(key, value []byte, fresh bool) {
	touched := len(t.dirty)
	s := &t.slots[t.touch(key)]
	s.value, s.fresh = value, fresh && len(t.dirty) > touched
}

func (t *naiveTxn) touch(key []byte) int {
	i, ok := t.index[string(key)]
	if !ok {
		i = len(t.slots)
		t.index[string(key)] = i
		t.slots = append(t.slots, naiveSlot{key: string(key)})
	}
	if s := &t.slots[i]; !s.dirty {
		s.dirty, s.fresh = true, false
		t.dirty = append(t.dirty, i)
	}
	return i
}

func (t *naiveTxn) DeleteRange(from, to []byte) {
	for i := range t.slots {
		if s := &t.slots[i]; s.key >= string(from) && s.key < string(to) {
			s.value = nil
		}
	}
	t.cuts = append(t.cuts, keyRange{from, to})
	t.gone = append(t.gone, keyRange{from, to})
}

func (t *naiveTxn) EndEntry(digest, index uint64) (uint64, error) {
	var told []byte
	told = binary.BigEndian.AppendUint64(told, digest)
	told = binary.BigEndian.AppendUint64(told, index)
	for _, c := range t.cuts {
		told = append(append(told, c.from...), c.to...)
		if err := t.batch.DeleteRange(c.from, c.to, nil); err != nil {
			return 0, err
		}
	}
	for _, i := range t.dirty {
		s := &t.slots[i]
		s.dirty = false
		if s.value == nil && s.fresh {
			continue
		}
		told = binary.BigEndian.AppendUint32(told, uint32(len(s.key)))
		told = binary.BigEndian.AppendUint32(told, uint32(len(s.value)))
		var err error
		if s.value == nil {
			told = append(told, 1)
			err = t.batch.Delete([]byte(s.key), nil)
		} else {
			told = append(told, 0)
			err = t.batch.Set([]byte(s.key), s.value, nil)
		}
		if err != nil {
			return 0, err
		}
		told = append(append(told, s.key...), s.value...)
	}
	t.cuts, t.dirty = t.cuts[:0], t.dirty[:0]
	return xxhash.Sum64(told), nil
}

func (t *naiveTxn) Discard() error { return t.batch.Close() }

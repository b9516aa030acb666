package cell

import (
	"hash/maphash"
	"iter"
	"maps"
)

// tableParts is how many maps a table is cut into: changing one record of 100,000
// copies a few hundred entries, not all.
const tableParts = 256

// table is an immutable map; tableEdit makes the next one. The seed only spreads
// keys over parts: nothing that leaves the table depends on it.
type table[K comparable, V any] struct {
	seed  maphash.Seed
	parts *[tableParts]map[K]V // nil: empty.
	size  int
}

func (t *table[K, V]) part(k K) int { return int(maphash.Comparable(t.seed, k) % tableParts) }

// get reads a published table.
func (t *table[K, V]) get(k K) (V, bool) {
	if t.parts == nil {
		var none V
		return none, false
	}
	v, ok := t.parts[t.part(k)][k]
	return v, ok
}

// all yields every record, in no order.
func (t *table[K, V]) all() iter.Seq[V] {
	return func(yield func(V) bool) {
		if t.parts == nil {
			return
		}
		for _, part := range t.parts {
			for _, v := range part {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// tableEdit changes a copy of a table, copying each part at its first change.
type tableEdit[K comparable, V any] struct {
	table  *table[K, V]
	copied [tableParts]bool
	own    bool // The array of parts is already a copy.
}

func (e *tableEdit[K, V]) writable(k K) map[K]V {
	t := e.table
	if !e.own {
		e.own = true
		parts := new([tableParts]map[K]V)
		if t.parts == nil {
			t.seed = maphash.MakeSeed()
		} else {
			*parts = *t.parts
		}
		t.parts = parts
	}
	i := t.part(k)
	if !e.copied[i] {
		e.copied[i] = true
		if t.parts[i] == nil {
			t.parts[i] = make(map[K]V)
		} else {
			t.parts[i] = maps.Clone(t.parts[i])
		}
	}
	return t.parts[i]
}

func (e *tableEdit[K, V]) set(k K, v V) {
	part := e.writable(k)
	if _, ok := part[k]; !ok {
		e.table.size++
	}
	part[k] = v
}

func (e *tableEdit[K, V]) remove(k K) {
	part := e.writable(k)
	if _, ok := part[k]; ok {
		e.table.size--
	}
	delete(part, k)
}

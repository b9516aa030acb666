package proxy

import "maps"

// table is an immutable map whose successor with one changed entry costs a copy
// of a small part only: a cell may have 100,000 keys, and a change of one of them
// must not copy them all.
type table[V any] struct {
	parts *[tableParts]map[string]V
	size  int
}

const tableParts = 256

func (t table[V]) get(id string) (V, bool) {
	if t.parts == nil {
		var zero V
		return zero, false
	}
	v, ok := t.parts[part(id)][id]
	return v, ok
}

func (t table[V]) all(yield func(string, V) bool) {
	if t.parts == nil {
		return
	}
	for _, m := range t.parts {
		for id, v := range m {
			if !yield(id, v) {
				return
			}
		}
	}
}

// edit starts a successor of t.
func (t table[V]) edit() *tableEdit[V] {
	e := &tableEdit[V]{size: t.size}
	if t.parts != nil {
		e.parts = *t.parts
	}
	return e
}

// tableEdit is a table being changed; each part is copied before its first change.
type tableEdit[V any] struct {
	parts [tableParts]map[string]V
	own   [tableParts]bool
	size  int
}

func (e *tableEdit[V]) get(id string) (V, bool) {
	v, ok := e.parts[part(id)][id]
	return v, ok
}

func (e *tableEdit[V]) set(id string, v V) {
	p := part(id)
	if !e.own[p] {
		m := make(map[string]V, len(e.parts[p])+1)
		maps.Copy(m, e.parts[p])
		e.parts[p], e.own[p] = m, true
	}
	if _, ok := e.parts[p][id]; !ok {
		e.size++
	}
	e.parts[p][id] = v
}

func (e *tableEdit[V]) remove(id string) {
	p := part(id)
	if _, ok := e.parts[p][id]; !ok {
		return
	}
	if !e.own[p] {
		e.parts[p], e.own[p] = maps.Clone(e.parts[p]), true
	}
	delete(e.parts[p], id)
	e.size--
}

// done ends the edit; e must not be used afterwards.
func (e *tableEdit[V]) done() table[V] { return table[V]{parts: &e.parts, size: e.size} }

// part is FNV-1a folded to one byte.
func part(id string) byte {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return byte(h ^ h>>8 ^ h>>16 ^ h>>24)
}

package group

import (
	"slices"
	"sync"
)

// Mark is a digest at an index.
type Mark struct{ Index, Digest uint64 }

const (
	// marksMax is how many marks a replica keeps for others to compare: 32,768 proposals.
	marksMax = 1024
	// askedMax bounds how many indexes are compared at once.
	askedMax = 16
)

// marks are a replica's digests after the newest entries with a check, which are the
// same entries on every replica.
type marks struct {
	mu   sync.Mutex
	list []Mark // By index, ascending.
}

func (m *marks) add(x Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.list) == marksMax {
		m.list = slices.Delete(m.list, 0, marksMax/4)
	}
	m.list = append(m.list, x)
}

func (m *marks) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = nil
}

func (m *marks) at(index uint64) (Mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, found := slices.BinarySearchFunc(m.list, index, func(x Mark, index uint64) int {
		switch {
		case x.Index < index:
			return -1
		case x.Index > index:
			return 1
		}
		return 0
	})
	if !found {
		return Mark{}, false
	}
	return m.list[i], true
}

// spread is the newest mark and ever older ones at doubling distances, so that a member
// that is behind has one of them too.
func (m *marks) spread() []Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Mark
	for back := 1; back <= len(m.list); back *= 2 {
		out = append(out, m.list[len(m.list)-back])
	}
	return out
}

// Marks are digests of this replica to compare with those of others, the newest first:
// of where it stands, and of entries that every replica marks.
func (g *Group) Marks() []Mark {
	index, digest := g.fsm.status()
	out := append([]Mark{{index, digest}}, g.fsm.marks.spread()...)
	return out[:min(len(out), askedMax)]
}

// DigestsAt are this replica's digests at those of the indexes for which it knows them.
func (g *Group) DigestsAt(indexes []uint64) []Mark {
	f := g.fsm
	p := f.position.Load()
	changed, stands := p.changed, Mark{p.index, p.digest}
	var out []Mark
	for _, i := range indexes[:min(len(indexes), askedMax)] {
		if i >= changed && i <= stands.Index && stands.Index > 0 {
			out = append(out, Mark{i, stands.Digest})
			continue
		}
		if m, ok := f.marks.at(i); ok {
			out = append(out, m)
		}
	}
	return out
}

// Dispute keeps this replica from serving, whatever it leads, because replicas of the group
// differ and nobody knows which is right. Raft goes on, so that others can catch up.
// Empty ends it.
func (g *Group) Dispute(why string) {
	old := g.disputed.Swap(&why)
	if old != nil && *old == why || old == nil && why == "" {
		return
	}
	select {
	case g.disputes <- struct{}{}:
	default: // One look sees both.
	}
}

// Disputed is why this replica does not serve, or "".
func (g *Group) Disputed() string {
	if why := g.disputed.Load(); why != nil {
		return *why
	}
	return ""
}

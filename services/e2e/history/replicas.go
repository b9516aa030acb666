package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// Replicas is what nodes said of their raft groups during a run: INV-16 and INV-17. It must be told
// what each node says of itself. A node that is asked about others knows nothing of one behind a cut
// link, which may lead there.
type Replicas struct {
	mu       sync.Mutex                    // Guards the rest.
	leaders  map[groupAt]string            // By term.
	digests  map[groupAt]map[string]uint64 // By index, then node.
	last     map[uint32]map[string]uint64  // By group and node: the index of the newest digest.
	applied  map[replica]uint64
	compared int
	told     map[string]bool // Breaches: each is told once.
}

// groupAt is a group at an index or in a term.
type groupAt struct {
	group uint32
	at    uint64
}

// replica is a group in one process of a node.
type replica struct {
	group   uint32
	process string
}

// NewReplicas has heard nothing.
func NewReplicas() *Replicas {
	return &Replicas{
		leaders: map[groupAt]string{}, digests: map[groupAt]map[string]uint64{}, last: map[uint32]map[string]uint64{}, applied: map[replica]uint64{},
		told: map[string]bool{},
	}
}

// Hear takes in what a node says of itself, and returns what must not be. process is the one that
// answered, or empty if that is not known. A damaged node may be left out of its groups.
func (r *Replicas) Hear(s *cellv1.NodeStatus, process string, damaged bool) (breaches []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	say := func(format string, args ...any) {
		if b := fmt.Sprintf(format, args...); !r.told[b] {
			r.told[b] = true
			breaches = append(breaches, b)
		}
	}
	id := s.GetNode().GetId()
	for _, g := range s.GetGroups() {
		switch g.GetRole() {
		case "leader":
			r.lead(say, id, g)
		case "quarantined", "disputed":
			if damaged {
				continue
			}
			say("INV-16: group %d is %s on %s: %s", g.GetGroup(), g.GetRole(), id, g.GetDetail())
		}
		r.compare(say, id, g)
		if process != "" {
			r.advance(say, process, g)
		}
	}
	return breaches
}

// lead: a term has one leader.
func (r *Replicas) lead(say func(string, ...any), id string, g *cellv1.GroupStatus) {
	in := groupAt{g.GetGroup(), g.GetTerm()}
	if other := r.leaders[in]; other != "" && other != id {
		say("INV-17: %s and %s led group %d in term %d", min(other, id), max(other, id), in.group, in.at)
	}
	r.leaders[in] = id
}

// compare: at an index all have one digest.
func (r *Replicas) compare(say func(string, ...any), id string, g *cellv1.GroupStatus) {
	at := groupAt{g.GetGroup(), g.GetDigestIndex()}
	if r.digests[at] == nil {
		r.digests[at] = map[string]uint64{}
	}
	if own, ok := r.digests[at][id]; ok && own != g.GetDigest() {
		say("INV-16: group %d at index %d: %s had the digest %x, and then %x", at.group, at.at, id, own, g.GetDigest())
	}
	for other, digest := range r.digests[at] {
		if other == id {
			continue
		}
		r.compared++
		if digest != g.GetDigest() {
			say("INV-16: group %d at index %d: %s has the digest %x, %s %x", at.group, at.at, other, digest, id, g.GetDigest())
		}
	}
	r.digests[at][id] = g.GetDigest()
	if r.last[at.group] == nil {
		r.last[at.group] = map[string]uint64{}
	}
	r.last[at.group][id] = at.at
}

// advance: the applied index of one process never goes back.
func (r *Replicas) advance(say func(string, ...any), process string, g *cellv1.GroupStatus) {
	of := replica{g.GetGroup(), process}
	if before := r.applied[of]; g.GetAppliedIndex() < before {
		say("INV-17: the applied index of group %d in %s went from %d to %d", of.group, process, before, g.GetAppliedIndex())
	}
	r.applied[of] = g.GetAppliedIndex()
}

// Compared is how often a digest was compared with that of another node.
func (r *Replicas) Compared() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.compared
}

// Together reports whether in every group all of these nodes have told their digest of one index,
// which is the newest of one of them.
func (r *Replicas) Together(ids []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for group, last := range r.last {
		if !slices.ContainsFunc(ids, func(id string) bool {
			index, ok := last[id]
			return ok && r.all(groupAt{group, index}, ids)
		}) {
			return false
		}
	}
	return len(r.last) > 0
}

func (r *Replicas) all(at groupAt, ids []string) bool {
	return !slices.ContainsFunc(ids, func(id string) bool {
		_, ok := r.digests[at][id]
		return !ok
	})
}

// Leaders are the nodes that lead, by group, of every group that any of these nodes has got. Of one that is not
// led it is empty.
func Leaders(nodes []*cellv1.NodeStatus) map[uint32]string {
	out := map[uint32]string{}
	for group, leader := range leaders(nodes) {
		out[group] = leader.GetNode().GetId()
	}
	return out
}

// ToTransfer picks, by two numbers, a group that is led and one of the members that does not lead it.
func ToTransfer(nodes []*cellv1.NodeStatus, members []string, group, to int) (id uint32, target string, ok bool) {
	led := Leaders(nodes)
	maps.DeleteFunc(led, func(_ uint32, leader string) bool { return leader == "" })
	if len(led) == 0 {
		return 0, "", false
	}
	groups := slices.Sorted(maps.Keys(led))
	id = groups[group%len(groups)]
	others := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return m == led[id] })
	return id, others[to%len(others)], true
}

// leaders are nil for a group that is not led.
func leaders(nodes []*cellv1.NodeStatus) map[uint32]*cellv1.NodeStatus {
	out, terms := map[uint32]*cellv1.NodeStatus{}, map[uint32]uint64{}
	for _, n := range nodes {
		for _, g := range n.GetGroups() {
			switch _, known := out[g.GetGroup()]; {
			case g.GetRole() == "leader" && g.GetTerm() >= terms[g.GetGroup()]: // Two may say so for a moment; the later term is right.
				out[g.GetGroup()], terms[g.GetGroup()] = n, g.GetTerm()
			case !known:
				out[g.GetGroup()] = nil
			}
		}
	}
	return out
}

// Votes is nil if every group that any of these nodes has got is led, and the node is one of
// its voters.
func Votes(nodes []*cellv1.NodeStatus, id string) error {
	led := leaders(nodes)
	if len(led) == 0 {
		return errors.New("no node has any groups")
	}
	for group, leader := range led {
		if leader == nil {
			return fmt.Errorf("nobody leads group %d", group)
		}
		for _, g := range leader.GetGroups() {
			if g.GetGroup() == group && !slices.Contains(g.GetVoters(), id) {
				return fmt.Errorf("group %d has the voters %v, without %s", group, g.GetVoters(), id)
			}
		}
	}
	return nil
}

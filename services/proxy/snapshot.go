package proxy

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// snapshot is the cell's desired state at one index, indexed for look-ups. It never
// changes.
type snapshot struct {
	index uint64
	// cell is the cell that the index is of. Empty: none yet.
	cell    string
	keys    table[*keyRecord]
	tenants table[*tenantRecord]
	names   table[string] // Of tenants that are alive → id.
	// nodes by id; few, so a change copies them all.
	nodes []*cellv1.Node
	// tokens is replaced as a whole: there are few, and they change rarely.
	tokens *tokens
}

// digestsMax is how many secrets of a key are accepted at a time: two while it is
// rotated. A fixed number keeps the comparison's timing the same for every key.
const digestsMax = 2

type keyRecord struct {
	proto    *cellv1.Key
	digests  [digestsMax][sha256.Size]byte
	ends     [digestsMax]time.Time // Of each digest; zero: never.
	notAfter time.Time             // Zero: never.
	grants   permission.Grants
	// whole is what may be done in every namespace, if the grants name none.
	whole permission.Here
	named bool
	first []string // See celladmin.FirstNamespaces.
	// networks are those from which the key counts.
	networks clientnet.Networks
	// uses are of each digest.
	uses [digestsMax]use
}

// here is what the key may do in a namespace.
func (r *keyRecord) here(namespaceID string) permission.Here {
	if r.named {
		return r.grants.At(namespaceID)
	}
	return r.whole
}

// until is when a secret of the key ends, by itself or with the key.
func (r *keyRecord) until(digest [sha256.Size]byte) time.Time {
	until := r.notAfter
	for i, d := range r.digests {
		if end := r.ends[i]; d == digest && !end.IsZero() && (until.IsZero() || end.Before(until)) {
			until = end
		}
	}
	return until
}

// tenantRecord is a tenant with its namespaces. proto is nil while only
// namespaces of it are known.
type tenantRecord struct {
	proto  *cellv1.Tenant
	byName map[string]*cellv1.Namespace // Alive ones only.
	byID   map[string]*cellv1.Namespace
}

// record is nil if the tenant isn't known.
func (t *tenantRecord) record() *cellv1.Tenant {
	if t == nil {
		return nil
	}
	return t.proto
}

func (t *tenantRecord) alive() bool { return t != nil && t.proto != nil && !t.proto.GetDeleted() }

// newKeyRecord prepares a key for comparison. A slot without a digest holds a
// random one that no key has.
func newKeyRecord(k *cellv1.Key) *keyRecord {
	rec := &keyRecord{proto: k, digests: [digestsMax][sha256.Size]byte{nobody, nobody}}
	n := 0
	// The newest come last; more than two is the writer's mistake.
	for i, d := range k.GetDigests() {
		if i < len(k.GetDigests())-digestsMax || len(d) != sha256.Size {
			continue
		}
		copy(rec.digests[n][:], d)
		rec.uses[n].keyID, rec.uses[n].digest = k.GetId(), d
		if ends := k.GetDigestEndsNs(); i < len(ends) && ends[i] != 0 {
			rec.ends[n] = time.Unix(0, ends[i])
		}
		n++
	}
	if k.GetNotAfterNs() != 0 {
		rec.notAfter = time.Unix(0, k.GetNotAfterNs())
	}
	rec.grants, rec.first, rec.networks = celladmin.GrantsFrom(k), celladmin.FirstNamespaces(k), clientnet.NetworksOf(k.GetCidrs())
	rec.named = slices.ContainsFunc(rec.grants, func(g permission.Grant) bool { return len(g.Namespaces) > 0 })
	rec.whole = rec.grants.At("") // No namespace has this id.
	return rec
}

// snapshotOf indexes a whole state.
func snapshotOf(state *cellv1.State) *snapshot {
	changes := changesTo(state.GetTenants(), celladmin.TenantChange)
	changes = append(changes, changesTo(state.GetNamespaces(), celladmin.NamespaceChange)...)
	changes = append(changes, changesTo(state.GetKeys(), celladmin.KeyChange)...)
	changes = append(changes, changesTo(state.GetNodes(), celladmin.NodeChange)...)
	changes = append(changes, changesTo(state.GetTokenKeys(), celladmin.TokenKeyChange)...)
	for _, c := range state.GetUserCutoffs() {
		changes = append(changes, &cellv1.Change{Change: &cellv1.Change_UserCutoff{UserCutoff: c}})
	}
	s := new(snapshot).with(changes, state.GetIndex())
	s.cell = state.GetCellId()
	return s
}

func changesTo[T any](records []T, change func(T) *cellv1.Change) []*cellv1.Change {
	out := make([]*cellv1.Change, len(records))
	for i, r := range records {
		out[i] = change(r)
	}
	return out
}

// with is the successor of s after changes, as of index.
func (s *snapshot) with(changes []*cellv1.Change, index uint64) *snapshot {
	next := &snapshot{index: index, cell: s.cell, nodes: s.nodes, tokens: s.tokens.with(changes)}
	keys, tenants, names := s.keys.edit(), s.tenants.edit(), s.names.edit()
	fresh := map[string]bool{} // Tenants already copied in this edit.
	tenant := func(id string) *tenantRecord {
		old, _ := tenants.get(id)
		if fresh[id] {
			return old
		}
		fresh[id] = true
		t := old.clone()
		tenants.set(id, t)
		return t
	}
	for _, c := range changes {
		switch v := c.GetChange().(type) {
		case *cellv1.Change_Tenant:
			t := tenant(v.Tenant.GetId())
			unname(names, t.proto)
			if t.proto = v.Tenant; t.alive() {
				names.set(v.Tenant.GetName(), v.Tenant.GetId())
			}
		case *cellv1.Change_Namespace:
			tenant(v.Namespace.GetTenantId()).put(v.Namespace)
		case *cellv1.Change_Key:
			keys.set(v.Key.GetId(), newKeyRecord(v.Key))
		case *cellv1.Change_Node:
			next.nodes = append(without(next.nodes, v.Node.GetId()), v.Node)
		case *cellv1.Change_RemoveNodeId:
			next.nodes = without(next.nodes, v.RemoveNodeId)
		case *cellv1.Change_Forget:
			for _, g := range v.Forget.GetGone() {
				keys.remove(g.GetId())
				if t, ok := tenants.get(g.GetId()); ok {
					unname(names, t.proto)
				}
				tenants.remove(g.GetId())
			}
		}
	}
	next.keys, next.tenants, next.names = keys.done(), tenants.done(), names.done()
	slices.SortFunc(next.nodes, func(a, b *cellv1.Node) int { return strings.Compare(a.GetId(), b.GetId()) })
	return next
}

// unname frees a tenant's name, unless another already has it.
func unname(names *tableEdit[string], t *cellv1.Tenant) {
	if id, ok := names.get(t.GetName()); ok && id == t.GetId() {
		names.remove(t.GetName())
	}
}

// bare is what remains of a state that is too old: where the nodes are. With its index, a
// watch gets the whole state.
func (s *snapshot) bare() *snapshot { return &snapshot{cell: s.cell, nodes: s.nodes} }

func without(nodes []*cellv1.Node, id string) []*cellv1.Node {
	out := make([]*cellv1.Node, 0, len(nodes)+1)
	for _, n := range nodes {
		if n.GetId() != id {
			out = append(out, n)
		}
	}
	return out
}

func (t *tenantRecord) clone() *tenantRecord {
	c := &tenantRecord{byName: map[string]*cellv1.Namespace{}, byID: map[string]*cellv1.Namespace{}}
	if t != nil {
		c.proto = t.proto
		maps.Copy(c.byName, t.byName)
		maps.Copy(c.byID, t.byID)
	}
	return c
}

// put sets one namespace; a deleted one is removed, and frees its name unless
// another already has it.
func (t *tenantRecord) put(ns *cellv1.Namespace) {
	if old, ok := t.byID[ns.GetId()]; ok && t.byName[old.GetName()] == old {
		delete(t.byName, old.GetName())
	}
	if ns.GetDeleted() {
		delete(t.byID, ns.GetId())
		return
	}
	t.byID[ns.GetId()] = ns
	t.byName[ns.GetName()] = ns
}

// state is the whole snapshot as a message, for the file.
func (s *snapshot) state() *cellv1.State {
	out := &cellv1.State{Index: s.index, CellId: s.cell, Nodes: s.nodes}
	for _, t := range s.tenants.all {
		if t.proto != nil {
			out.Tenants = append(out.Tenants, t.proto)
		}
		for _, ns := range t.byID {
			out.Namespaces = append(out.Namespaces, ns)
		}
	}
	for _, k := range s.keys.all {
		out.Keys = append(out.Keys, k.proto)
	}
	s.tokens.state(out)
	// Map order must not make two files of one state differ.
	slices.SortFunc(out.Tenants, func(a, b *cellv1.Tenant) int { return strings.Compare(a.GetId(), b.GetId()) })
	slices.SortFunc(out.Namespaces, func(a, b *cellv1.Namespace) int { return strings.Compare(a.GetId(), b.GetId()) })
	slices.SortFunc(out.Keys, func(a, b *cellv1.Key) int { return strings.Compare(a.GetId(), b.GetId()) })
	return out
}

package cell

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// View is the cell's desired state at one index. It never changes, nor do the
// records it hands out: readers share them and must not write to them. The zero
// value is the state of a cell that was never written to.
type View struct {
	index      uint64 // Of the last entry that changed anything.
	tenants    table[string, *cellv1.Tenant]
	names      table[string, *cellv1.Tenant] // Live ones, by name.
	namespaces table[job.Namespace, *cellv1.Namespace]
	named      table[namespaceName, *cellv1.Namespace] // Live ones.
	keys       table[string, *cellv1.Key]
	nodes      table[string, *cellv1.Node]
	gone       table[string, struct{}] // Ids of removed nodes.
	shards     []uint32
	tokenKeys  table[string, *cellv1.TokenKey]
	version    cellversion.Version
	cutoffs    []*cellv1.UserCutoff // In the order of compareCutoffs.
	ends       uint64               // Index of the last entry that deleted namespaces or tenants, or forgot them.

	// recent holds every change set above floor, oldest first. Views share its
	// backing array: only the applying goroutine appends, beyond what any view sees.
	recent []*changeSet
	floor  uint64
}

type namespaceName struct{ tenant, name string }

// How far a watcher may lag before it is sent the whole state again.
const (
	recentMax      = 1024
	recentBytesMax = 16 << 20
)

// Index is that of the last entry that changed anything; 0 before the first.
func (v *View) Index() uint64 { return v.index }

// Shards lists the raft groups that hold namespaces, ascending. Do not change it.
func (v *View) Shards() []uint32 { return v.shards }

// TenantByID also finds deleted tenants.
func (v *View) TenantByID(id string) (*cellv1.Tenant, bool) { return v.tenants.get(id) }

// TenantByName finds the live tenant of that name.
func (v *View) TenantByName(name string) (*cellv1.Tenant, bool) { return v.names.get(name) }

// NamespaceByID also finds deleted namespaces.
func (v *View) NamespaceByID(id job.Namespace) (*cellv1.Namespace, bool) { return v.namespaces.get(id) }

// NamespaceByName finds the live namespace of that name in a tenant.
func (v *View) NamespaceByName(tenantID, name string) (*cellv1.Namespace, bool) {
	return v.named.get(namespaceName{tenantID, name})
}

// Deleted lists the namespaces of a shard that were deleted, or whose tenant was, and
// are still known.
func (v *View) Deleted(shard uint32) []job.Namespace {
	var out []job.Namespace
	for n := range v.namespaces.all() {
		if n.GetShard() != shard {
			continue
		}
		if t, ok := v.tenants.get(n.GetTenantId()); n.GetDeleted() || !ok || t.GetDeleted() {
			out = append(out, namespaceID(n))
		}
	}
	slices.SortFunc(out, func(a, b job.Namespace) int { return bytes.Compare(a[:], b[:]) })
	return out
}

// Ends changes whenever a result of Deleted may have changed.
func (v *View) Ends() uint64 { return v.ends }

// KeyByID also finds revoked and expired keys, and keys of deleted tenants.
func (v *View) KeyByID(id string) (*cellv1.Key, bool) { return v.keys.get(id) }

// NodeByID finds a node's record.
func (v *View) NodeByID(id string) (*cellv1.Node, bool) { return v.nodes.get(id) }

// NodeRemoved reports whether a node of that id was taken out of the cell.
func (v *View) NodeRemoved(id string) bool {
	_, gone := v.gone.get(id)
	return gone
}

// Nodes lists the nodes by id.
func (v *View) Nodes() []*cellv1.Node { return sorted(&v.nodes, (*cellv1.Node).GetId) }

// TokenKeyByID finds a key that verifies user tokens.
func (v *View) TokenKeyByID(id string) (*cellv1.TokenKey, bool) { return v.tokenKeys.get(id) }

// UserCutoffs lists recent cutoffs. Do not change it.
func (v *View) UserCutoffs() []*cellv1.UserCutoff { return v.cutoffs }

// State is the whole state, each list ordered by id.
func (v *View) State() *cellv1.State {
	return &cellv1.State{
		Index:      v.index,
		Tenants:    sorted(&v.tenants, (*cellv1.Tenant).GetId),
		Namespaces: sorted(&v.namespaces, (*cellv1.Namespace).GetId),
		Keys:       sorted(&v.keys, (*cellv1.Key).GetId),
		Nodes:      v.Nodes(),
		Shards:     v.shards,

		TokenKeys:   sorted(&v.tokenKeys, (*cellv1.TokenKey).GetId),
		UserCutoffs: v.cutoffs,
		Version:     v.version,
	}
}

func sorted[K comparable, V any](t *table[K, V], id func(V) string) []V {
	list := make([]V, 0, t.size)
	for r := range t.all() {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b V) int { return cmp.Compare(id(a), id(b)) })
	return list
}

// since returns the change sets above index, or false if they are not all kept.
func (v *View) since(index uint64) ([]*changeSet, bool) {
	if index < v.floor {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(v.recent, index+1, func(s *changeSet, x uint64) int { return cmp.Compare(s.index, x) })
	return v.recent[i:], true
}

// with is the view after some more change sets.
func (v *View) with(sets []*changeSet) *View {
	next := *v
	e := newViewEdit(&next)
	for _, s := range sets {
		e.now = s.now
		for _, c := range s.changes {
			e.put(c)
		}
		next.index = s.index
		if e.ended {
			next.ends, e.ended = s.index, false
		}
	}
	next.recent = append(v.recent, sets...)
	next.trim()
	return &next
}

// trim drops the oldest change sets. Reslicing keeps their array alive only until
// the next append that grows it.
func (v *View) trim() {
	bytes := 0
	keep := len(v.recent)
	for keep > 0 && len(v.recent)-keep < recentMax && bytes+v.recent[keep-1].bytes <= recentBytesMax {
		keep--
		bytes += v.recent[keep].bytes
	}
	if keep > 0 {
		v.floor = v.recent[keep-1].index
		v.recent = v.recent[keep:]
	}
}

// viewEdit builds a view nobody has seen yet.
type viewEdit struct {
	view       *View
	tenants    tableEdit[string, *cellv1.Tenant]
	names      tableEdit[string, *cellv1.Tenant]
	namespaces tableEdit[job.Namespace, *cellv1.Namespace]
	named      tableEdit[namespaceName, *cellv1.Namespace]
	keys       tableEdit[string, *cellv1.Key]
	nodes      tableEdit[string, *cellv1.Node]
	gone       tableEdit[string, struct{}]
	tokenKeys  tableEdit[string, *cellv1.TokenKey]
	now        time.Time // Of the change set being put.
	ended      bool      // It deleted or forgot namespaces or tenants.
}

func newViewEdit(v *View) *viewEdit {
	e := &viewEdit{view: v}
	e.tenants.table, e.names.table = &v.tenants, &v.names
	e.namespaces.table, e.named.table = &v.namespaces, &v.named
	e.keys.table, e.nodes.table, e.gone.table = &v.keys, &v.nodes, &v.gone
	e.tokenKeys.table = &v.tokenKeys
	return e
}

// put adds one record as stored.
func (e *viewEdit) put(c *cellv1.Change) {
	switch c := c.GetChange().(type) {
	case *cellv1.Change_Tenant:
		e.tenant(c.Tenant)
	case *cellv1.Change_Namespace:
		e.namespace(c.Namespace)
	case *cellv1.Change_Key:
		e.key(c.Key)
	case *cellv1.Change_Node:
		e.node(c.Node)
	case *cellv1.Change_RemoveNodeId:
		e.nodes.remove(c.RemoveNodeId)
		e.gone.set(c.RemoveNodeId, struct{}{})
	case *cellv1.Change_Shards:
		e.view.shards = c.Shards.GetIds()
	case *cellv1.Change_Version:
		e.view.version = c.Version
	case *cellv1.Change_TokenKey:
		e.tokenKey(c.TokenKey)
	case *cellv1.Change_UserCutoff:
		e.view.cutoffs = withCutoff(e.view.cutoffs, c.UserCutoff, e.now)
	case *cellv1.Change_Forget:
		for _, g := range c.Forget.GetGone() {
			e.forget(g.GetId())
		}
	}
}

// forget drops a record of something that was deleted, or whose tenant was.
func (e *viewEdit) forget(id string) {
	switch {
	case strings.HasPrefix(id, tenantIDPrefix):
		e.tenants.remove(id)
		e.ended = true
	case strings.HasPrefix(id, keyIDPrefix):
		e.keys.remove(id)
	default:
		ns, err := job.ParseNamespace(id)
		if err != nil {
			return // validate refuses others.
		}
		if n, ok := e.view.namespaces.get(ns); ok && !n.GetDeleted() {
			e.named.remove(namespaceName{n.GetTenantId(), n.GetName()})
		}
		e.namespaces.remove(ns)
		e.ended = true
	}
}

func (e *viewEdit) tenant(t *cellv1.Tenant) {
	if old, ok := e.view.tenants.get(t.GetId()); ok && !old.GetDeleted() {
		e.names.remove(old.GetName())
	}
	if !t.GetDeleted() {
		e.names.set(t.GetName(), t)
	}
	if t.GetDeleted() {
		e.ended = true
	}
	e.tenants.set(t.GetId(), t)
}

func (e *viewEdit) key(k *cellv1.Key)   { e.keys.set(k.GetId(), k) }
func (e *viewEdit) node(n *cellv1.Node) { e.nodes.set(n.GetId(), n) }

func (e *viewEdit) tokenKey(k *cellv1.TokenKey) {
	if k.GetDeleted() {
		e.tokenKeys.remove(k.GetId())
		return
	}
	e.tokenKeys.set(k.GetId(), k)
}

func (e *viewEdit) namespace(n *cellv1.Namespace) {
	id := namespaceID(n)
	if old, ok := e.view.namespaces.get(id); ok && !old.GetDeleted() {
		e.named.remove(namespaceName{old.GetTenantId(), old.GetName()})
	}
	if !n.GetDeleted() {
		e.named.set(namespaceName{n.GetTenantId(), n.GetName()}, n)
	}
	if n.GetDeleted() {
		e.ended = true
	}
	e.namespaces.set(id, n)
}

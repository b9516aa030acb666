package cell

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// model is the simplest form of what a cell holds. It stores nothing twice, so it
// can not disagree with itself as counters and name indexes could.
type model struct {
	tenants    map[string]*cellv1.Tenant
	namespaces map[string]*cellv1.Namespace
	keys       map[string]*cellv1.Key
	nodes      map[string]bool // false: removed.
	sources    map[string]uint64
	shards     []uint32
	tokenKeys  map[string]*cellv1.TokenKey
	cutoffs    map[string]int64 // Tenant and user.
	deleted    map[string]int64 // When; by id of tenant, namespace or key.
	now        time.Time        // Of the request being applied.
}

func newModel() *model {
	return &model{
		tenants: make(map[string]*cellv1.Tenant), namespaces: make(map[string]*cellv1.Namespace),
		keys: make(map[string]*cellv1.Key), nodes: make(map[string]bool), sources: make(map[string]uint64),
		tokenKeys: make(map[string]*cellv1.TokenKey), cutoffs: make(map[string]int64), deleted: make(map[string]int64),
	}
}

func (m *model) clone() *model {
	c := newModel()
	for k, v := range m.tenants {
		c.tenants[k] = v
	}
	for k, v := range m.namespaces {
		c.namespaces[k] = v
	}
	for k, v := range m.keys {
		c.keys[k] = v
	}
	for k, v := range m.nodes {
		c.nodes[k] = v
	}
	for k, v := range m.sources {
		c.sources[k] = v
	}
	for k, v := range m.tokenKeys {
		c.tokenKeys[k] = v
	}
	for k, v := range m.cutoffs {
		c.cutoffs[k] = v
	}
	for k, v := range m.deleted {
		c.deleted[k] = v
	}
	c.shards, c.now = m.shards, m.now
	return c
}

// apply returns the model after a request, or nil if it must be refused.
func (m *model) apply(req *cellv1.ApplyRequest) *model {
	if len(req.GetChanges()) == 0 && req.GetSource() == "" {
		return nil
	}
	next := m.clone()
	if s := req.GetSource(); s != "" {
		if req.GetGeneration() <= m.sources[s] {
			return nil
		}
		next.sources[s] = req.GetGeneration()
	}
	for _, c := range req.GetChanges() {
		if !next.change(c) {
			return nil
		}
	}
	return next
}

func (m *model) change(c *cellv1.Change) bool {
	switch c := c.GetChange().(type) {
	case *cellv1.Change_Tenant:
		for id, t := range m.tenants {
			if id != c.Tenant.GetId() && !t.GetDeleted() && !c.Tenant.GetDeleted() && t.GetName() == c.Tenant.GetName() {
				return false
			}
		}
		if old := m.tenants[c.Tenant.GetId()]; old.GetDeleted() && !c.Tenant.GetDeleted() {
			return false
		} else if c.Tenant.GetDeleted() && !old.GetDeleted() {
			m.deleted[c.Tenant.GetId()] = m.now.UnixNano()
		}
		m.tenants[c.Tenant.GetId()] = c.Tenant
	case *cellv1.Change_Namespace:
		return m.namespace(c.Namespace)
	case *cellv1.Change_Key:
		return m.key(c.Key)
	case *cellv1.Change_Node:
		if there, known := m.nodes[c.Node.GetId()]; known && !there {
			return false
		}
		m.nodes[c.Node.GetId()] = true
	case *cellv1.Change_RemoveNodeId:
		if _, known := m.nodes[c.RemoveNodeId]; !known {
			return false
		}
		m.nodes[c.RemoveNodeId] = false
	case *cellv1.Change_Shards:
		if m.shards != nil && !slices.Equal(m.shards, c.Shards.GetIds()) {
			return false
		}
		m.shards = c.Shards.GetIds()
	case *cellv1.Change_TokenKey:
		return m.tokenKey(c.TokenKey)
	case *cellv1.Change_UserCutoff:
		if m.tenants[c.UserCutoff.GetTenantId()] == nil {
			return false
		}
		id := c.UserCutoff.GetTenantId() + c.UserCutoff.GetUserId()
		at := max(m.cutoffs[id], c.UserCutoff.GetNotBeforeNs())
		maps.DeleteFunc(m.cutoffs, func(_ string, at int64) bool { return at < m.now.Add(-cutoffKept).UnixNano() })
		m.cutoffs[id] = at
	case *cellv1.Change_SweptNamespaceId:
		return m.sweep(c.SweptNamespaceId)
	case *cellv1.Change_Forget:
		for _, g := range c.Forget.GetGone() {
			if m.now.Sub(time.Unix(0, g.GetAtNs())) >= celladmin.TombstonesKept {
				m.forget(g.GetId(), g.GetAtNs())
			}
		}
		return len(c.Forget.GetGone()) > 0
	}
	return true
}

func (m *model) sweep(id string) bool {
	n, known := m.namespaces[id]
	if t, there := m.tenants[n.GetTenantId()]; !known || !n.GetDeleted() && there && !t.GetDeleted() {
		return false
	}
	n = proto.CloneOf(n)
	n.Swept = true
	m.namespaces[id] = n
	return true
}

// forget removes a record that was deleted at a time, or whose tenant was: a namespace
// once it is swept, a tenant once nothing in it is left.
func (m *model) forget(id string, at int64) {
	itself := func(of string) bool { d, ok := m.deleted[of]; return ok && d == at }
	k, n := m.keys[id], m.namespaces[id]
	switch {
	case k != nil && !k.GetRevoked():
		if itself(k.GetTenantId()) {
			delete(m.keys, id)
		}
		return
	case n != nil && !n.GetSwept():
		return
	case n != nil && !n.GetDeleted():
		if itself(n.GetTenantId()) {
			delete(m.namespaces, id)
		}
		return
	}
	if m.tenants[id] != nil && m.holdsLife(id) || !itself(id) {
		return
	}
	delete(m.keys, id)
	delete(m.namespaces, id)
	delete(m.tenants, id)
	delete(m.deleted, id)
}

func (m *model) holdsLife(tenant string) bool {
	for _, k := range m.keys {
		if k.GetTenantId() == tenant && !k.GetRevoked() {
			return true
		}
	}
	for _, n := range m.namespaces {
		if n.GetTenantId() == tenant && !n.GetDeleted() {
			return true
		}
	}
	return false
}

func (m *model) tokenKey(k *cellv1.TokenKey) bool {
	old := m.tokenKeys[k.GetId()]
	switch {
	case k.GetDeleted():
		delete(m.tokenKeys, k.GetId())
	case old != nil && !bytes.Equal(old.GetPublicKey(), k.GetPublicKey()):
		return false
	default:
		m.tokenKeys[k.GetId()] = k
	}
	return true
}

func (m *model) namespace(in *cellv1.Namespace) bool {
	n, _ := proto.Clone(in).(*cellv1.Namespace)
	old, known := m.namespaces[n.GetId()]
	t, tenantKnown := m.tenants[n.GetTenantId()]
	comesToLife := !n.GetDeleted() && (!known || old.GetDeleted())
	switch {
	case known && old.GetTenantId() != n.GetTenantId(), !tenantKnown, comesToLife && (known || t.GetDeleted()):
		return false
	case known && n.GetShard() != 0 && n.GetShard() != old.GetShard():
		return false
	case known:
		n.Shard = old.GetShard()
	case n.GetShard() == 0:
		n.Shard = m.emptiest()
	}
	if !slices.Contains(m.shards, n.GetShard()) {
		return false
	}
	for id, other := range m.namespaces {
		if id != n.GetId() && !other.GetDeleted() && !n.GetDeleted() && other.GetTenantId() == n.GetTenantId() && other.GetName() == n.GetName() {
			return false
		}
	}
	if n.GetDeleted() && !old.GetDeleted() {
		m.deleted[n.GetId()] = m.now.UnixNano()
	}
	n.Swept = old.GetSwept()
	m.namespaces[n.GetId()] = n
	return true
}

func (m *model) live() map[uint32]uint64 {
	held := make(map[uint32]uint64)
	for _, n := range m.namespaces {
		if !n.GetDeleted() {
			held[n.GetShard()]++
		}
	}
	return held
}

func (m *model) emptiest() uint32 {
	best, held := uint32(0), m.live()
	for _, id := range m.shards {
		if best == 0 || held[id] < held[best] {
			best = id
		}
	}
	return best
}

func (m *model) key(k *cellv1.Key) bool {
	old, known := m.keys[k.GetId()]
	t, tenantKnown := m.tenants[k.GetTenantId()]
	if !tenantKnown || !known && t.GetDeleted() || known && (old.GetTenantId() != k.GetTenantId() || old.GetRevoked() && !k.GetRevoked()) {
		return false
	}
	for _, id := range k.GetGrants()[0].GetNamespaceIds() {
		if n, ok := m.namespaces[id]; (!ok || n.GetTenantId() != k.GetTenantId()) && (!known || !slices.Contains(old.GetGrants()[0].GetNamespaceIds(), id)) {
			return false
		}
	}
	if k.GetRevoked() && !old.GetRevoked() {
		m.deleted[k.GetId()] = m.now.UnixNano()
	}
	m.keys[k.GetId()] = k
	return true
}

// drawRequest draws from so few ids and names that they meet all the time.
func drawRequest(t *rapid.T) *cellv1.ApplyRequest {
	req := &cellv1.ApplyRequest{}
	for range rapid.SampledFrom([]int{1, 1, 1, 1, 1, 2, 3, 0}).Draw(t, "changes") {
		req.Changes = append(req.Changes, drawChange(t))
	}
	if rapid.IntRange(0, 3).Draw(t, "has source") == 0 {
		req.Source = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "source")
		req.Generation = rapid.Uint64Range(0, 20).Draw(t, "generation")
	}
	return req
}

func drawChange(t *rapid.T) *cellv1.Change {
	id := rapid.SampledFrom([]int{1, 1, 2, 2, 3})
	name := rapid.SampledFrom([]string{"acme", "globex", "initech"})
	deleted := rapid.SampledFrom([]bool{false, false, true})
	switch rapid.SampledFrom([]string{"tenant", "namespace", "namespace", "namespace", "key", "key", "node", "remove", "shards", "token key", "cutoff", "swept", "forget", "forget", "forget"}).Draw(t, "kind") {
	case "tenant":
		return tenantChange(&cellv1.Tenant{Id: tenantID(id.Draw(t, "id")), Name: name.Draw(t, "name"), Deleted: deleted.Draw(t, "deleted")})
	case "namespace":
		return namespaceChange(&cellv1.Namespace{
			Id: nsID(rapid.IntRange(1, 5).Draw(t, "id")), TenantId: tenantID(id.Draw(t, "tenant")), Name: name.Draw(t, "name"),
			Deleted: deleted.Draw(t, "deleted"), Shard: rapid.SampledFrom([]uint32{0, 0, 0, 2, 5}).Draw(t, "shard"),
		})
	case "key":
		k := testKey(id.Draw(t, "id"), id.Draw(t, "tenant"), rapid.SliceOfNDistinct(rapid.IntRange(1, 5), 0, 2, rapid.ID[int]).Draw(t, "namespaces")...)
		k.Revoked = deleted.Draw(t, "revoked")
		return keyChange(k)
	case "node":
		return &cellv1.Change{Change: &cellv1.Change_Node{Node: testNode1(fmt.Sprintf("n%d", id.Draw(t, "id")))}}
	case "token key":
		k := testTokenKey(id.Draw(t, "id"))
		k.Deleted = deleted.Draw(t, "deleted")
		k.PublicKey[0] = byte(rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "first byte"))
		return tokenKeyChange(k)
	case "cutoff":
		return cutoffChange(tenantID(id.Draw(t, "tenant")), userID(id.Draw(t, "user")), int64(id.Draw(t, "time")))
	case "swept":
		return &cellv1.Change{Change: &cellv1.Change_SweptNamespaceId{SweptNamespaceId: nsID(rapid.IntRange(1, 5).Draw(t, "id"))}}
	case "forget":
		return forgetChange(rapid.SliceOfN(rapid.Custom(drawGone), 1, 3).Draw(t, "gone")...)
	case "remove":
		return removeChange(fmt.Sprintf("n%d", id.Draw(t, "id")))
	default:
		return shardsChange(rapid.SampledFrom([][]uint32{{2, 3, 4}, {2, 3, 4}, {2, 3}}).Draw(t, "shards")...)
	}
}

// The deletion that a drawn Gone refers to; settled when its time is known.
const (
	ofItself = 1 + iota
	ofTenant1
	ofTenant2
	ofNothing
)

func drawGone(t *rapid.T) *cellv1.Gone {
	n := rapid.IntRange(1, 5).Draw(t, "n")
	id := rapid.SampledFrom([]string{tenantID(n), nsID(n), nsID(n), keyID(n), keyID(n)}).Draw(t, "id")
	return &cellv1.Gone{Id: id, AtNs: rapid.SampledFrom([]int64{ofItself, ofItself, ofItself, ofTenant1, ofTenant2, ofNothing}).Draw(t, "at")}
}

// settle fills in the drawn times of what a request forgets.
func (m *model) settle(req *cellv1.ApplyRequest) *cellv1.ApplyRequest {
	req = proto.CloneOf(req)
	for _, c := range req.GetChanges() {
		for _, g := range c.GetForget().GetGone() {
			g.AtNs = m.deleted[map[int64]string{ofItself: g.GetId(), ofTenant1: tenantID(1), ofTenant2: tenantID(2)}[g.GetAtNs()]]
		}
	}
	return req
}

// TestApply_AgreesWithTheModel: what is accepted, what is stored, and that neither
// depends on how entries were grouped into transactions.
func TestApply_AgreesWithTheModel(t *testing.T) {
	t.Parallel()
	stores, next := [2]*statedb.DB{openStore(t), openStore(t)}, uint32(0)
	rapid.Check(t, func(rt *rapid.T) {
		next++ // A new group is cheaper than a new store.
		single, batched := benchOver(t, stores[0].Group(next)), benchOver(t, stores[1].Group(next))
		// Without tenants and shards nearly everything would be refused.
		requests := []*cellv1.ApplyRequest{{Changes: []*cellv1.Change{shardsChange(2, 3, 4), testTenant(1, "acme"), testTenant(2, "globex")}}}
		requests = append(requests, rapid.SliceOfN(rapid.Custom(drawRequest), 20, 60).Draw(rt, "requests")...)
		m := newModel()
		var payloads [][]byte
		times := []time.Time{time.Unix(1_700_000_000, 0)}
		clock := func(index uint64) time.Time { return times[index] }
		single.clock, batched.clock = clock, clock
		for i, req := range requests {
			gap := rapid.SampledFrom([]time.Duration{1, 1, 1, time.Hour, celladmin.TombstonesKept - 1, celladmin.TombstonesKept}).Draw(rt, "gap")
			times = append(times, times[i].Add(gap))
			m.now = times[i+1]
			req = m.settle(req)
			payload, err := marshal(req)
			if err != nil {
				rt.Fatal(err)
			}
			payloads = append(payloads, payload)
			after := m.apply(req)
			res, err := single.payloads(payload)
			if err != nil {
				rt.Fatal(err)
			}
			if _, accepted := res[0].(*cellv1.ApplyResponse); accepted != (after != nil) {
				rt.Fatalf("request %d: accepted %v (%v), the model says %v", i, accepted, res[0], after != nil)
			}
			if after != nil {
				m = after
			}
			m.compare(rt, single)
		}
		for len(payloads) > 0 {
			n := rapid.IntRange(1, len(payloads)).Draw(rt, "batch")
			if _, err := batched.payloads(payloads[:n]...); err != nil {
				rt.Fatal(err)
			}
			payloads = payloads[n:]
		}
		if single.digest != batched.digest || !bytes.Equal(single.dump(), batched.dump()) || !proto.Equal(single.machine.View().State(), batched.machine.View().State()) {
			rt.Fatalf("one by one:\n%sbatched:\n%s", single.dump(), batched.dump())
		}
		want := single.machine.View().State()
		if err := single.machine.Reset(); err != nil {
			rt.Fatal(err)
		}
		if got := single.machine.View().State(); !proto.Equal(got, want) {
			rt.Fatalf("read anew:\n%v\nbuilt:\n%v", got, want)
		}
		m.allIsForgotten(rt, single, times[len(times)-1])
	})
}

// allIsForgotten: the leader finds everything that is due, in a few entries.
func (m *model) allIsForgotten(t *rapid.T, b *bench, now time.Time) {
	b.clock = func(uint64) time.Time { return now }
	for _, n := range b.machine.View().State().GetNamespaces() {
		b.request(&cellv1.ApplyRequest{Changes: []*cellv1.Change{{Change: &cellv1.Change_SweptNamespaceId{SweptNamespaceId: n.GetId()}}}})
	}
	now = now.Add(celladmin.TombstonesKept)
	for round := 0; ; round++ {
		gone, err := b.machine.due(now)
		if err != nil {
			t.Fatal(err)
		}
		if len(gone) == 0 {
			break
		}
		if round > 5 {
			t.Fatalf("still due: %v", gone)
		}
		b.must(forgetChange(gone...))
	}
	for _, x := range b.machine.View().State().GetTenants() {
		if x.GetDeleted() {
			t.Fatalf("still known: %v", x)
		}
	}
	for _, n := range b.machine.View().State().GetNamespaces() {
		if n.GetDeleted() || m.tenants[n.GetTenantId()].GetDeleted() {
			t.Fatalf("still known: %v", n)
		}
	}
	for _, k := range b.machine.View().State().GetKeys() {
		if k.GetRevoked() || m.tenants[k.GetTenantId()].GetDeleted() {
			t.Fatalf("still known: %v", k)
		}
	}
	from, to := b.machine.span(famTombstone)
	err := b.store.Scan(from, to, func(key, _ []byte) (bool, error) {
		t.Fatalf("a note of a deletion is left: %x", key)
		return false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// compare checks view, name look-ups and stored counters against the model.
func (m *model) compare(t *rapid.T, b *bench) {
	v := b.machine.View()
	st := v.State()
	if len(st.GetTenants()) != len(m.tenants) || len(st.GetNamespaces()) != len(m.namespaces) || len(st.GetKeys()) != len(m.keys) {
		t.Fatalf("state %v\nmodel %+v", st, m)
	}
	for id, want := range m.tenants {
		if got, _ := v.TenantByID(id); !proto.Equal(got, want) {
			t.Fatalf("tenant %v, want %v", got, want)
		}
		if got, ok := v.TenantByName(want.GetName()); !want.GetDeleted() && (!ok || got.GetId() != id) || ok && got.GetDeleted() {
			t.Fatalf("name %q leads to %v, want %s", want.GetName(), got, id)
		}
	}
	for id, want := range m.namespaces {
		parsed, err := job.ParseNamespace(id)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := v.NamespaceByID(parsed); !proto.Equal(got, want) || !slices.Contains(m.shards, got.GetShard()) {
			t.Fatalf("namespace %v, want %v", got, want)
		}
		if got, ok := v.NamespaceByName(want.GetTenantId(), want.GetName()); !want.GetDeleted() && (!ok || got.GetId() != id) || ok && got.GetDeleted() {
			t.Fatalf("name %q leads to %v, want %s", want.GetName(), got, id)
		}
	}
	for id, want := range m.keys {
		if got, _ := v.KeyByID(id); !proto.Equal(got, want) {
			t.Fatalf("key %v, want %v", got, want)
		}
	}
	if len(st.GetTokenKeys()) != len(m.tokenKeys) || len(st.GetUserCutoffs()) != len(m.cutoffs) {
		t.Fatalf("state %v\nmodel %+v", st, m)
	}
	for id, want := range m.tokenKeys {
		if got, _ := v.TokenKeyByID(id); !proto.Equal(got, want) {
			t.Fatalf("token key %v, want %v", got, want)
		}
	}
	for _, c := range st.GetUserCutoffs() {
		if want := m.cutoffs[c.GetTenantId()+c.GetUserId()]; c.GetNotBeforeNs() != want {
			t.Fatalf("cutoff %v, want %d", c, want)
		}
	}
	m.compareCounters(t, b)
}

func (m *model) compareCounters(t *rapid.T, b *bench) {
	l := b.machine.layout
	held := m.live()
	want := map[string]uint64{
		string(l.count(famTokenKey)): uint64(len(m.tokenKeys)),
	}
	// Live records count; of keys and namespaces, those beyond their tenants' reserves.
	for id, tenant := range m.tenants {
		keys, namespaces := uint64(0), uint64(0)
		for _, k := range m.keys {
			if k.GetTenantId() == id && !k.GetRevoked() {
				keys++
			}
		}
		for _, n := range m.namespaces {
			if n.GetTenantId() == id && !n.GetDeleted() {
				namespaces++
			}
		}
		want[string(l.own(famKey, id))], want[string(l.own(famNamespace, id))] = keys, namespaces
		if !tenant.GetDeleted() {
			want[string(l.count(famTenant))]++
			want[string(l.count(famKey))] += max(keys, keysReserved) - keysReserved
			want[string(l.count(famNamespace))] += max(namespaces, namespacesReserved) - namespacesReserved
		}
	}
	for _, id := range m.shards {
		want[string(l.shard(id))] = held[id]
	}
	for id, there := range m.nodes {
		if _, ok := b.machine.View().NodeByID(id); ok != there {
			t.Fatalf("node %s: %v, want %v", id, ok, there)
		}
		if there {
			want[string(l.count(famNode))]++
		}
	}
	for key, n := range want {
		got := uint64(0)
		v, err := b.store.Get([]byte(key))
		if err == nil {
			got = binary.BigEndian.Uint64(v)
		} else if !errors.Is(err, statedb.ErrNotFound) {
			t.Fatal(err)
		}
		if got != n {
			t.Fatalf("counter %x is %d, want %d", key, got, n)
		}
	}
}

// FuzzApply: whatever bytes are in the log, two replicas answer and store the same,
// and a refusal writes nothing.
func FuzzApply(f *testing.F) {
	for _, changes := range [][]*cellv1.Change{
		{testTenant(3, "initech"), testNamespace(3, 3, "jobs")},
		{keyChange(testKey(1, 1, 1))}, {removeChange("node-1")}, {shardsChange(2, 3)}, {testNamespace(1, 2, "x")},
		{{Change: &cellv1.Change_Node{Node: testNode1("node-1")}}},
		{tokenKeyChange(testTokenKey(1)), cutoffChange(tenantID(1), userID(1), 5)},
		{forgetChange(&cellv1.Gone{Id: tenantID(2), AtNs: 1})},
	} {
		payload, err := marshal(&cellv1.ApplyRequest{Changes: changes, Source: "s", Generation: 1})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	stores, next := [2]*statedb.DB{openStore(f), openStore(f)}, uint32(0)
	f.Fuzz(func(t *testing.T, payload []byte) {
		var answers [2]string
		var states [2][]byte
		next++ // A new group is cheaper than a new store.
		for i := range answers {
			b := benchOver(t, stores[i].Group(next))
			b.must(shardsChange(2, 3), testTenant(1, "acme"), testTenant(2, "globex"), testNamespace(1, 1, "jobs"))
			before := b.dump()
			res, err := b.payloads(payload)
			answers[i] = fmt.Sprintf("%T %v", err, err)
			if err == nil {
				answers[i] = fmt.Sprintf("%T %x", res[0], b.digest)
			}
			states[i] = b.dump()
			if _, accepted := firstOf(res).(*cellv1.ApplyResponse); !accepted && !bytes.Equal(before, states[i]) {
				t.Fatalf("%s changed the state", answers[i])
			}
			want := b.machine.View().State()
			if err := b.machine.Reset(); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(b.machine.View().State(), want) {
				t.Fatal("the view read anew differs")
			}
		}
		if answers[0] != answers[1] || !bytes.Equal(states[0], states[1]) {
			t.Fatalf("replicas differ: %v\n%s\n%s", answers, states[0], states[1])
		}
	})
}

func firstOf(res []any) any {
	if len(res) == 0 {
		return nil
	}
	return res[0]
}

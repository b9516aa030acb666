package cell

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// edit is one change set being applied. Reads see its own writes, and nothing
// reaches the transaction before flush, so that a refusal half-way changes nothing. A
// refusal ends the change set there and then, as what can not be read does (statedb.Check).
type edit struct {
	layout
	txn    *statedb.Txn
	now    time.Time // Of the log.
	writer tombstone // What a deletion records.
	speaks cellversion.Range
	index  map[string]int // Position of a key in writes.
	writes []write        // In the order of their first write: the digest depends on it.
	// cutoffs is one record, read at its first change and written by flush.
	cutoffs *cellv1.UserCutoffs
}

type write struct {
	key   []byte
	value []byte // nil: deleted.
}

// refuse ends the change set.
func refuse(code fault.Code, reason, format string, args ...any) {
	statedb.Check(fault.New(code, reason, format, args...))
}

func newEdit(l layout, txn *statedb.Txn, now time.Time, speaks cellversion.Range) *edit {
	return &edit{layout: l, txn: txn, now: now, speaks: speaks, index: make(map[string]int)}
}

func (e *edit) flush() {
	if e.cutoffs != nil {
		e.setRecord(e.key(famMeta, metaCutoffs), e.cutoffs)
	}
	for _, w := range e.writes {
		if w.value == nil {
			e.txn.Delete(w.key)
			continue
		}
		e.txn.Set(w.key, w.value)
	}
}

// get returns nil for a key that is not there.
func (e *edit) get(key []byte) []byte {
	if i, ok := e.index[string(key)]; ok {
		return e.writes[i].value
	}
	v, err := e.txn.Get(key)
	if errors.Is(err, statedb.ErrNotFound) {
		return nil
	}
	return statedb.Must(v, err)
}

func (e *edit) set(key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	e.put(key, value)
}

func (e *edit) remove(key []byte) { e.put(key, nil) }

func (e *edit) put(key, value []byte) {
	i, ok := e.index[string(key)]
	if !ok {
		i = len(e.writes)
		e.index[string(key)] = i
		e.writes = append(e.writes, write{key: key})
	}
	e.writes[i].value = value
}

// record reads a stored message into m and reports whether it exists.
func (e *edit) record(key []byte, m proto.Message) bool {
	b := e.get(key)
	if b == nil {
		return false
	}
	if err := proto.Unmarshal(b, m); err != nil {
		statedb.Check(fmt.Errorf("decode record %x: %w", key, err))
	}
	return true
}

func (e *edit) setRecord(key []byte, m proto.Message) { e.set(key, statedb.Must(marshal(m))) }

// marshal writes fields in the order of their numbers, unknown ones last, so that
// a record has the same bytes whether this version knows its newest field or not.
func marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func (e *edit) number(key []byte) uint64 {
	b := e.get(key)
	if b == nil {
		return 0
	}
	if len(b) != 8 {
		statedb.Check(fmt.Errorf("number %x has %d bytes", key, len(b)))
	}
	return binary.BigEndian.Uint64(b)
}

func (e *edit) setNumber(key []byte, n uint64) {
	e.set(key, binary.BigEndian.AppendUint64(nil, n))
}

// count adds a record to its family's total.
func (e *edit) count(family byte, what string, most uint64) {
	n := e.number(e.layout.count(family))
	if n >= most {
		refuse(fault.Exhausted, "LIMIT_REACHED", "the cell already has %d %s, its limit", most, what)
	}
	e.setNumber(e.layout.count(family), n+1)
}

// uncount takes a record that leaves its family off the total.
func (e *edit) uncount(family byte, id string) {
	n := e.number(e.layout.count(family))
	if n == 0 {
		statedb.Check(fmt.Errorf("nothing is counted in family %#x but %s exists", family, id))
	}
	e.setNumber(e.layout.count(family), n-1)
}

// born counts a new live record of a tenant.
func (e *edit) born(q *quota, tenant string) {
	own := e.number(e.own(q.family, tenant))
	if own >= q.each {
		refuse(fault.Exhausted, "LIMIT_REACHED", "the tenant has %d %s, the most that one tenant can have in a cell; delete some first", own, q.what)
	}
	e.setNumber(e.own(q.family, tenant), own+1)
	if own < q.reserved {
		return
	}
	e.count(q.family, q.what+" above the reserve of each tenant", q.shared)
}

// died takes off a record that is no longer live. A deleted tenant's records no longer
// count against the shared part.
func (e *edit) died(q *quota, tenant string) {
	own := e.number(e.own(q.family, tenant))
	if own == 0 {
		statedb.Check(fmt.Errorf("tenant %s counts nothing in family %#x that dies", tenant, q.family))
	}
	e.setNumber(e.own(q.family, tenant), own-1)
	var t cellv1.Tenant
	if e.record(e.key(famTenant, tenant), &t); !t.GetDeleted() && own > q.reserved {
		e.uncount(q.family, tenant)
	}
}

// giveBack returns a deleted tenant's use of the shared part.
func (e *edit) giveBack(q *quota, tenant string) {
	own := e.number(e.own(q.family, tenant))
	if own <= q.reserved {
		return
	}
	key, beyond := e.layout.count(q.family), own-q.reserved
	n := e.number(key)
	if n < beyond {
		statedb.Check(fmt.Errorf("tenant %s has %d of family %#x beyond its reserve, all have %d", tenant, beyond, q.family, n))
	}
	e.setNumber(key, n-beyond)
}

// generation refuses a change set that is not newer than what its source wrote before.
// Sources of forgotten tenants share one floor.
func (e *edit) generation(req *cellv1.ApplyRequest) {
	source, generation := req.GetSource(), req.GetGeneration()
	if source == "" {
		return
	}
	key := e.key(famSource, source)
	seen := e.number(key)
	if seen == 0 && req.GetIncarnation() != "" {
		seen = e.forgotten()
	}
	if generation <= seen {
		refuse(fault.Conflict, "STALE_GENERATION", "generation %d of %q isn't above generation %d, which is already applied", generation, source, seen)
	}
	e.setNumber(key, generation)
	if req.GetIncarnation() != "" {
		e.writer = tombstone{generation, source}
	}
}

// control refuses desired state from another incarnation of the control plane's database
// than the cell's current one: an older copy of the database would undo what was done
// since.
func (e *edit) control(req *cellv1.ApplyRequest) {
	if req.GetIncarnation() == "" {
		return
	}
	key := e.key(famMeta, metaControl)
	var known cellv1.GetIndexResponse
	e.record(key, &known)
	if is := known.GetIncarnation(); is != "" && is != req.GetIncarnation() && is != req.GetReplacesIncarnation() {
		refuse(fault.Conflict, "OTHER_INCARNATION", "the cell follows incarnation %s of the control plane's database, not %s", is, req.GetIncarnation())
	}
	if known.GetIncarnation() == req.GetIncarnation() && known.GetGeneration() >= req.GetGeneration() {
		return
	}
	known.Incarnation, known.Generation = req.GetIncarnation(), max(known.GetGeneration(), req.GetGeneration())
	e.setRecord(key, &known)
}

// apply runs one change and returns the record as stored.
func (e *edit) apply(c *cellv1.Change, index uint64) *cellv1.Change {
	switch v := c.GetChange().(type) {
	case *cellv1.Change_Tenant:
		e.tenant(v.Tenant)
	case *cellv1.Change_Namespace:
		return &cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: e.namespace(v.Namespace)}}
	case *cellv1.Change_Key:
		return &cellv1.Change{Change: &cellv1.Change_Key{Key: e.apiKey(v.Key)}}
	case *cellv1.Change_Node:
		return &cellv1.Change{Change: &cellv1.Change_Node{Node: e.node(v.Node)}}
	case *cellv1.Change_RemoveNodeId:
		e.removeNode(v.RemoveNodeId, index)
	case *cellv1.Change_Shards:
		e.shards(v.Shards)
	case *cellv1.Change_TokenKey:
		e.tokenKey(v.TokenKey)
	case *cellv1.Change_UserCutoff:
		return &cellv1.Change{Change: &cellv1.Change_UserCutoff{UserCutoff: e.userCutoff(v.UserCutoff)}}
	case *cellv1.Change_SweptNamespaceId:
		return &cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: e.swept(v.SweptNamespaceId)}}
	case *cellv1.Change_Version:
		e.raise(v.Version)
	case *cellv1.Change_Forget:
		return &cellv1.Change{Change: &cellv1.Change_Forget{Forget: e.forget(v.Forget)}}
	default:
		statedb.Check(errUnknownChange)
	}
	return c
}

func (e *edit) tenant(t *cellv1.Tenant) {
	key := e.key(famTenant, t.GetId())
	var old cellv1.Tenant
	known := e.record(key, &old)
	if old.GetDeleted() && !t.GetDeleted() {
		refuse(fault.Conflict, "TENANT_DELETED", "tenant %s was deleted with everything in it; create a new one", t.GetId())
	}
	e.countTenant(t, known && !old.GetDeleted())
	if t.GetDeleted() && !old.GetDeleted() {
		e.markDeleted(t.GetId())
	}
	if known && !old.GetDeleted() {
		e.remove(e.key(famTenantName, old.GetName()))
	}
	if !t.GetDeleted() {
		e.claim(e.key(famTenantName, t.GetName()), []byte(t.GetId()), "tenant", t.GetName())
	}
	e.setRecord(key, t)
}

// countTenant counts live tenants and their records.
func (e *edit) countTenant(t *cellv1.Tenant, wasLive bool) {
	live := !t.GetDeleted()
	if live == wasLive {
		return
	}
	if live {
		e.count(famTenant, "tenants", tenantsMax)
		return
	}
	e.uncount(famTenant, t.GetId())
	e.giveBack(&keyQuota, t.GetId())
	e.giveBack(&namespaceQuota, t.GetId())
}

// claim reserves a unique name.
func (e *edit) claim(key, owner []byte, what, name string) {
	if e.get(key) != nil {
		refuse(fault.Conflict, "NAME_TAKEN", "another %s is already called %q", what, name)
	}
	e.set(key, owner)
}

// requireTenant: new things of a deleted tenant are refused, old ones may still
// be changed (a key must be revocable).
func (e *edit) requireTenant(id string, created bool) {
	var t cellv1.Tenant
	known := e.record(e.key(famTenant, id), &t)
	if !known || created && t.GetDeleted() {
		refuse(fault.NotFound, "TENANT_NOT_FOUND", "tenant %s not found", id)
	}
}

func (e *edit) namespace(in *cellv1.Namespace) *cellv1.Namespace {
	id := statedb.Must(job.ParseNamespace(in.GetId())) // validate has seen it.
	var old cellv1.Namespace
	known := e.record(e.layout.namespace(id), &old)
	switch {
	case known && old.GetTenantId() != in.GetTenantId():
		refuse(fault.Conflict, "WRONG_TENANT", "namespace %s belongs to another tenant", in.GetId())
	case old.GetDeleted() && !in.GetDeleted():
		refuse(fault.Conflict, "NAMESPACE_DELETED", "namespace %s was deleted with its jobs; create a new one", in.GetId())
	}
	wasLive := known && !old.GetDeleted()
	e.requireTenant(in.GetTenantId(), !wasLive && !in.GetDeleted())
	n, _ := proto.Clone(in).(*cellv1.Namespace)
	n.Swept = old.GetSwept()
	if known {
		keepShard(n, &old)
	} else {
		e.place(n)
	}
	e.countOwn(&namespaceQuota, n.GetTenantId(), wasLive, !n.GetDeleted())
	e.liveNamespace(id, n, &old, wasLive)
	if n.GetDeleted() && !old.GetDeleted() {
		e.markDeleted(n.GetId())
	}
	e.setRecord(e.layout.namespace(id), n)
	return n
}

// countOwn updates the count of a tenant's live records.
func (e *edit) countOwn(q *quota, tenant string, wasLive, live bool) {
	switch {
	case live && !wasLive:
		e.born(q, tenant)
	case wasLive && !live:
		e.died(q, tenant)
	}
}

// keepShard refuses to move a namespace: its jobs are on its shard.
func keepShard(n, old *cellv1.Namespace) {
	if n.GetShard() != 0 && n.GetShard() != old.GetShard() {
		refuse(fault.Conflict, "SHARD_FIXED", "namespace %s is on shard %d and can't move", n.GetId(), old.GetShard())
	}
	n.Shard = old.GetShard()
}

// place gives a new namespace its shard: the one asked for, else the one with the
// fewest live namespaces, the lowest number among equals.
func (e *edit) place(n *cellv1.Namespace) {
	var shards cellv1.Shards
	e.record(e.key(famMeta, metaShards), &shards)
	if len(shards.GetIds()) == 0 {
		refuse(fault.Unavailable, "NO_SHARDS", "the cell has no shards yet; try again")
	}
	if n.GetShard() != 0 {
		if !slices.Contains(shards.GetIds(), n.GetShard()) {
			refuse(fault.NotFound, "SHARD_NOT_FOUND", "the cell has no shard %d", n.GetShard())
		}
		return
	}
	fewest := ^uint64(0)
	for _, id := range shards.GetIds() {
		if held := e.number(e.shard(id)); held < fewest {
			fewest, n.Shard = held, id
		}
	}
}

// liveNamespace keeps the names and the shards' counts in step with the record.
func (e *edit) liveNamespace(id job.Namespace, n, old *cellv1.Namespace, wasLive bool) {
	held := e.number(e.shard(n.GetShard()))
	if wasLive {
		e.remove(e.namespaceName(old.GetTenantId(), old.GetName()))
		if held == 0 {
			statedb.Check(fmt.Errorf("shard %d counts no namespace but holds %s", n.GetShard(), n.GetId()))
		}
		held--
	}
	if !n.GetDeleted() {
		e.claim(e.namespaceName(n.GetTenantId(), n.GetName()), id[:], "namespace of the tenant", n.GetName())
		held++
	}
	e.setNumber(e.shard(n.GetShard()), held)
}

func (e *edit) apiKey(in *cellv1.Key) *cellv1.Key {
	k, _ := proto.Clone(in).(*cellv1.Key)
	key := e.key(famKey, k.GetId())
	var old cellv1.Key
	known := e.record(key, &old)
	switch {
	case !known:
	case old.GetTenantId() != k.GetTenantId():
		refuse(fault.Conflict, "WRONG_TENANT", "key %s belongs to another tenant", k.GetId())
	case old.GetRevoked() && !k.GetRevoked():
		refuse(fault.Conflict, "KEY_REVOKED", "key %s was revoked, which can't be undone; create a new one", k.GetId())
	}
	e.requireTenant(k.GetTenantId(), !known)
	named := celladmin.FirstNamespaces(&old)
	for _, text := range celladmin.FirstNamespaces(k) {
		if slices.Contains(named, text) {
			continue // It may be forgotten by now; the key must still be changeable.
		}
		e.requireNamespace(text, k.GetTenantId())
	}
	e.countOwn(&keyQuota, k.GetTenantId(), known && !old.GetRevoked(), !k.GetRevoked())
	if k.GetRevoked() && !old.GetRevoked() {
		e.markDeleted(k.GetId())
	}
	keepSecretsEnded(k, &old)
	e.setRecord(key, k)
	return k
}

// requireNamespace accepts a deleted namespace, so that a key naming one can be
// changed. Another tenant's gets the same answer as one that does not exist.
func (e *edit) requireNamespace(text, tenant string) {
	id := statedb.Must(job.ParseNamespace(text)) // validate has seen it.
	var n cellv1.Namespace
	known := e.record(e.layout.namespace(id), &n)
	if !known || n.GetTenantId() != tenant {
		refuse(fault.NotFound, "NAMESPACE_NOT_FOUND", "tenant %s has no namespace %s", tenant, text)
	}
}

// node records where a node is. Its folder is recorded once: a node with another
// folder has lost what it confirmed.
func (e *edit) node(n *cellv1.Node) *cellv1.Node {
	if e.get(e.key(famGoneNode, n.GetId())) != nil {
		refuse(fault.Conflict, ReasonNodeIDUsed, "node %s was removed from the cell; start the node with a new id and an empty folder", n.GetId())
	}
	n = e.spoken(n)
	key := e.key(famNode, n.GetId())
	var old cellv1.Node
	known := e.record(key, &old)
	switch folder := old.GetFolderId(); {
	case !known:
		e.count(famNode, "nodes", nodesMax)
	case folder != "" && n.GetFolderId() == "":
		n, _ = proto.Clone(n).(*cellv1.Node)
		n.FolderId = folder
	case folder != "" && n.GetFolderId() != folder:
		refuse(fault.Conflict, ReasonNodeIDUsed,
			"node %s is in the cell with another folder, which has the data it confirmed; start it with that folder, or remove it from the cell and start this one with a new id", n.GetId())
	}
	e.setRecord(key, n)
	return n
}

// removeNode may be repeated.
func (e *edit) removeNode(id string, index uint64) {
	if e.get(e.key(famGoneNode, id)) != nil {
		return
	}
	if e.get(e.key(famNode, id)) == nil {
		refuse(fault.NotFound, "NODE_NOT_FOUND", "node %s not found", id)
	}
	e.uncount(famNode, id)
	e.unspoken(id)
	e.remove(e.key(famNode, id))
	e.setNumber(e.key(famGoneNode, id), index)
}

func (e *edit) shards(s *cellv1.Shards) {
	key := e.key(famMeta, metaShards)
	var old cellv1.Shards
	if e.record(key, &old) && !slices.Equal(old.GetIds(), s.GetIds()) {
		refuse(fault.Conflict, "SHARDS_FIXED", "the shards of a cell can't change once they are set")
	}
	e.setRecord(key, s)
}

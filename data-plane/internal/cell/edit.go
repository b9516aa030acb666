package cell

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// edit is one change set being applied. Reads see its own writes, and nothing
// reaches the transaction before flush, so that a refusal half-way changes nothing.
// Errors are a *fault.Error (refused) or a failure of storage.
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

func newEdit(l layout, txn *statedb.Txn, now time.Time, speaks cellversion.Range) *edit {
	return &edit{layout: l, txn: txn, now: now, speaks: speaks, index: make(map[string]int)}
}

func (e *edit) flush() error {
	if e.cutoffs != nil {
		if err := e.setRecord(e.key(famMeta, metaCutoffs), e.cutoffs); err != nil {
			return err
		}
	}
	for _, w := range e.writes {
		if w.value == nil {
			e.txn.Delete(w.key)
			continue
		}
		e.txn.Set(w.key, w.value)
	}
	return nil
}

// get returns nil for a key that is not there.
func (e *edit) get(key []byte) ([]byte, error) {
	if i, ok := e.index[string(key)]; ok {
		return e.writes[i].value, nil
	}
	v, err := e.txn.Get(key)
	if errors.Is(err, statedb.ErrNotFound) {
		return nil, nil
	}
	return v, err
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
func (e *edit) record(key []byte, m proto.Message) (bool, error) {
	b, err := e.get(key)
	if err != nil || b == nil {
		return false, err
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return false, fmt.Errorf("decode record %x: %w", key, err)
	}
	return true, nil
}

func (e *edit) setRecord(key []byte, m proto.Message) error {
	b, err := marshal(m)
	if err != nil {
		return fmt.Errorf("encode record %x: %w", key, err)
	}
	e.set(key, b)
	return nil
}

// marshal writes fields in the order of their numbers, unknown ones last, so that
// a record has the same bytes whether this version knows its newest field or not.
func marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func (e *edit) number(key []byte) (uint64, error) {
	b, err := e.get(key)
	if err != nil || b == nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("number %x has %d bytes", key, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

func (e *edit) setNumber(key []byte, n uint64) {
	e.set(key, binary.BigEndian.AppendUint64(nil, n))
}

// count adds a record to its family's total.
func (e *edit) count(family byte, what string, most uint64) error {
	n, err := e.number(e.layout.count(family))
	if err != nil {
		return err
	}
	if n >= most {
		return fault.New(fault.Exhausted, "LIMIT_REACHED", "the cell already has %d %s, its limit", most, what)
	}
	e.setNumber(e.layout.count(family), n+1)
	return nil
}

// uncount takes a record that leaves its family off the total.
func (e *edit) uncount(family byte, id string) error {
	n, err := e.number(e.layout.count(family))
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("nothing is counted in family %#x but %s exists", family, id)
	}
	e.setNumber(e.layout.count(family), n-1)
	return nil
}

// born counts a new live record of a tenant.
func (e *edit) born(q *quota, tenant string) error {
	own, err := e.number(e.own(q.family, tenant))
	if err != nil {
		return err
	}
	if own >= q.each {
		return fault.New(fault.Exhausted, "LIMIT_REACHED", "the tenant has %d %s, the most that one tenant can have in a cell; delete some first", own, q.what)
	}
	e.setNumber(e.own(q.family, tenant), own+1)
	if own < q.reserved {
		return nil
	}
	return e.count(q.family, q.what+" above the reserve of each tenant", q.shared)
}

// died takes off a record that is no longer live. A deleted tenant's records no longer
// count against the shared part.
func (e *edit) died(q *quota, tenant string) error {
	own, err := e.number(e.own(q.family, tenant))
	if err != nil {
		return err
	}
	if own == 0 {
		return fmt.Errorf("tenant %s counts nothing in family %#x that dies", tenant, q.family)
	}
	e.setNumber(e.own(q.family, tenant), own-1)
	var t cellv1.Tenant
	if _, err := e.record(e.key(famTenant, tenant), &t); err != nil || t.GetDeleted() || own <= q.reserved {
		return err
	}
	return e.uncount(q.family, tenant)
}

// giveBack returns a deleted tenant's use of the shared part.
func (e *edit) giveBack(q *quota, tenant string) error {
	own, err := e.number(e.own(q.family, tenant))
	if err != nil || own <= q.reserved {
		return err
	}
	key, beyond := e.layout.count(q.family), own-q.reserved
	n, err := e.number(key)
	if err != nil {
		return err
	}
	if n < beyond {
		return fmt.Errorf("tenant %s has %d of family %#x beyond its reserve, all have %d", tenant, beyond, q.family, n)
	}
	e.setNumber(key, n-beyond)
	return nil
}

// generation refuses a change set that is not newer than what its source wrote before.
// Sources of forgotten tenants share one floor.
func (e *edit) generation(req *cellv1.ApplyRequest) error {
	source, generation := req.GetSource(), req.GetGeneration()
	if source == "" {
		return nil
	}
	key := e.key(famSource, source)
	seen, err := e.number(key)
	if err != nil {
		return err
	}
	if seen == 0 && req.GetIncarnation() != "" {
		if seen, err = e.forgotten(); err != nil {
			return err
		}
	}
	if generation <= seen {
		return fault.New(fault.Conflict, "STALE_GENERATION", "generation %d of %q isn't above generation %d, which is already applied", generation, source, seen)
	}
	e.setNumber(key, generation)
	if req.GetIncarnation() != "" {
		e.writer = tombstone{generation, source}
	}
	return nil
}

// control refuses desired state from another incarnation of the control plane's database
// than the cell's current one: an older copy of the database would undo what was done
// since.
func (e *edit) control(req *cellv1.ApplyRequest) error {
	if req.GetIncarnation() == "" {
		return nil
	}
	key := e.key(famMeta, metaControl)
	var known cellv1.GetIndexResponse
	if _, err := e.record(key, &known); err != nil {
		return err
	}
	if is := known.GetIncarnation(); is != "" && is != req.GetIncarnation() && is != req.GetReplacesIncarnation() {
		return fault.New(fault.Conflict, "OTHER_INCARNATION", "the cell follows incarnation %s of the control plane's database, not %s", is, req.GetIncarnation())
	}
	if known.GetIncarnation() == req.GetIncarnation() && known.GetGeneration() >= req.GetGeneration() {
		return nil
	}
	known.Incarnation, known.Generation = req.GetIncarnation(), max(known.GetGeneration(), req.GetGeneration())
	return e.setRecord(key, &known)
}

// apply runs one change and returns the record as stored.
func (e *edit) apply(c *cellv1.Change, index uint64) (*cellv1.Change, error) {
	switch v := c.GetChange().(type) {
	case *cellv1.Change_Tenant:
		return c, e.tenant(v.Tenant)
	case *cellv1.Change_Namespace:
		n, err := e.namespace(v.Namespace)
		return &cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: n}}, err
	case *cellv1.Change_Key:
		k, err := e.apiKey(v.Key)
		return &cellv1.Change{Change: &cellv1.Change_Key{Key: k}}, err
	case *cellv1.Change_Node:
		n, err := e.node(v.Node)
		return &cellv1.Change{Change: &cellv1.Change_Node{Node: n}}, err
	case *cellv1.Change_RemoveNodeId:
		return c, e.removeNode(v.RemoveNodeId, index)
	case *cellv1.Change_Shards:
		return c, e.shards(v.Shards)
	case *cellv1.Change_TokenKey:
		return c, e.tokenKey(v.TokenKey)
	case *cellv1.Change_UserCutoff:
		cut, err := e.userCutoff(v.UserCutoff)
		return &cellv1.Change{Change: &cellv1.Change_UserCutoff{UserCutoff: cut}}, err
	case *cellv1.Change_SweptNamespaceId:
		n, err := e.swept(v.SweptNamespaceId)
		return &cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: n}}, err
	case *cellv1.Change_Version:
		return c, e.raise(v.Version)
	case *cellv1.Change_Forget:
		gone, err := e.forget(v.Forget)
		return &cellv1.Change{Change: &cellv1.Change_Forget{Forget: gone}}, err
	default:
		return nil, errUnknownChange
	}
}

func (e *edit) tenant(t *cellv1.Tenant) error {
	key := e.key(famTenant, t.GetId())
	var old cellv1.Tenant
	known, err := e.record(key, &old)
	if err != nil {
		return err
	}
	if old.GetDeleted() && !t.GetDeleted() {
		return fault.New(fault.Conflict, "TENANT_DELETED", "tenant %s was deleted with everything in it; create a new one", t.GetId())
	}
	if err := e.countTenant(t, known && !old.GetDeleted()); err != nil {
		return err
	}
	if t.GetDeleted() && !old.GetDeleted() {
		e.markDeleted(t.GetId())
	}
	if known && !old.GetDeleted() {
		e.remove(e.key(famTenantName, old.GetName()))
	}
	if !t.GetDeleted() {
		if err := e.claim(e.key(famTenantName, t.GetName()), []byte(t.GetId()), "tenant", t.GetName()); err != nil {
			return err
		}
	}
	return e.setRecord(key, t)
}

// countTenant counts live tenants and their records.
func (e *edit) countTenant(t *cellv1.Tenant, wasLive bool) error {
	live := !t.GetDeleted()
	if live == wasLive {
		return nil
	}
	if live {
		return e.count(famTenant, "tenants", tenantsMax)
	}
	err := e.uncount(famTenant, t.GetId())
	for _, q := range []*quota{&keyQuota, &namespaceQuota} {
		if err == nil {
			err = e.giveBack(q, t.GetId())
		}
	}
	return err
}

// claim reserves a unique name.
func (e *edit) claim(key, owner []byte, what, name string) error {
	held, err := e.get(key)
	if err != nil {
		return err
	}
	if held != nil {
		return fault.New(fault.Conflict, "NAME_TAKEN", "another %s is already called %q", what, name)
	}
	e.set(key, owner)
	return nil
}

// requireTenant: new things of a deleted tenant are refused, old ones may still
// be changed (a key must be revocable).
func (e *edit) requireTenant(id string, created bool) error {
	var t cellv1.Tenant
	known, err := e.record(e.key(famTenant, id), &t)
	if err != nil {
		return err
	}
	if !known || created && t.GetDeleted() {
		return fault.New(fault.NotFound, "TENANT_NOT_FOUND", "tenant %s not found", id)
	}
	return nil
}

func (e *edit) namespace(in *cellv1.Namespace) (*cellv1.Namespace, error) {
	id, err := job.ParseNamespace(in.GetId())
	if err != nil {
		return nil, err // validate has seen it.
	}
	var old cellv1.Namespace
	known, err := e.record(e.layout.namespace(id), &old)
	if err != nil {
		return nil, err
	}
	switch {
	case known && old.GetTenantId() != in.GetTenantId():
		return nil, fault.New(fault.Conflict, "WRONG_TENANT", "namespace %s belongs to another tenant", in.GetId())
	case old.GetDeleted() && !in.GetDeleted():
		return nil, fault.New(fault.Conflict, "NAMESPACE_DELETED", "namespace %s was deleted with its jobs; create a new one", in.GetId())
	}
	wasLive := known && !old.GetDeleted()
	if err := e.requireTenant(in.GetTenantId(), !wasLive && !in.GetDeleted()); err != nil {
		return nil, err
	}
	n, _ := proto.Clone(in).(*cellv1.Namespace)
	n.Swept = old.GetSwept()
	if known {
		err = keepShard(n, &old)
	} else {
		err = e.place(n)
	}
	if err != nil {
		return nil, err
	}
	if err := e.countOwn(&namespaceQuota, n.GetTenantId(), wasLive, !n.GetDeleted()); err != nil {
		return nil, err
	}
	if err := e.liveNamespace(id, n, &old, wasLive); err != nil {
		return nil, err
	}
	if n.GetDeleted() && !old.GetDeleted() {
		e.markDeleted(n.GetId())
	}
	return n, e.setRecord(e.layout.namespace(id), n)
}

// countOwn updates the count of a tenant's live records.
func (e *edit) countOwn(q *quota, tenant string, wasLive, live bool) error {
	switch {
	case live && !wasLive:
		return e.born(q, tenant)
	case wasLive && !live:
		return e.died(q, tenant)
	}
	return nil
}

// keepShard refuses to move a namespace: its jobs are on its shard.
func keepShard(n, old *cellv1.Namespace) error {
	if n.GetShard() != 0 && n.GetShard() != old.GetShard() {
		return fault.New(fault.Conflict, "SHARD_FIXED", "namespace %s is on shard %d and can't move", n.GetId(), old.GetShard())
	}
	n.Shard = old.GetShard()
	return nil
}

// place gives a new namespace its shard: the one asked for, else the one with the
// fewest live namespaces, the lowest number among equals.
func (e *edit) place(n *cellv1.Namespace) error {
	var shards cellv1.Shards
	if _, err := e.record(e.key(famMeta, metaShards), &shards); err != nil {
		return err
	}
	if len(shards.GetIds()) == 0 {
		return fault.New(fault.Unavailable, "NO_SHARDS", "the cell has no shards yet; try again")
	}
	if n.GetShard() != 0 {
		if !slices.Contains(shards.GetIds(), n.GetShard()) {
			return fault.New(fault.NotFound, "SHARD_NOT_FOUND", "the cell has no shard %d", n.GetShard())
		}
		return nil
	}
	fewest := ^uint64(0)
	for _, id := range shards.GetIds() {
		held, err := e.number(e.shard(id))
		if err != nil {
			return err
		}
		if held < fewest {
			fewest, n.Shard = held, id
		}
	}
	return nil
}

// liveNamespace keeps the names and the shards' counts in step with the record.
func (e *edit) liveNamespace(id job.Namespace, n, old *cellv1.Namespace, wasLive bool) error {
	held, err := e.number(e.shard(n.GetShard()))
	if err != nil {
		return err
	}
	if wasLive {
		e.remove(e.namespaceName(old.GetTenantId(), old.GetName()))
		if held == 0 {
			return fmt.Errorf("shard %d counts no namespace but holds %s", n.GetShard(), n.GetId())
		}
		held--
	}
	if !n.GetDeleted() {
		if err := e.claim(e.namespaceName(n.GetTenantId(), n.GetName()), id[:], "namespace of the tenant", n.GetName()); err != nil {
			return err
		}
		held++
	}
	e.setNumber(e.shard(n.GetShard()), held)
	return nil
}

func (e *edit) apiKey(in *cellv1.Key) (*cellv1.Key, error) {
	k, _ := proto.Clone(in).(*cellv1.Key)
	key := e.key(famKey, k.GetId())
	var old cellv1.Key
	known, err := e.record(key, &old)
	if err != nil {
		return nil, err
	}
	switch {
	case !known:
	case old.GetTenantId() != k.GetTenantId():
		return nil, fault.New(fault.Conflict, "WRONG_TENANT", "key %s belongs to another tenant", k.GetId())
	case old.GetRevoked() && !k.GetRevoked():
		return nil, fault.New(fault.Conflict, "KEY_REVOKED", "key %s was revoked, which can't be undone; create a new one", k.GetId())
	}
	if err := e.requireTenant(k.GetTenantId(), !known); err != nil {
		return nil, err
	}
	for _, text := range k.GetNamespaceIds() {
		if slices.Contains(old.GetNamespaceIds(), text) {
			continue // It may be forgotten by now; the key must still be changeable.
		}
		if err := e.requireNamespace(text, k.GetTenantId()); err != nil {
			return nil, err
		}
	}
	if err := e.countOwn(&keyQuota, k.GetTenantId(), known && !old.GetRevoked(), !k.GetRevoked()); err != nil {
		return nil, err
	}
	if k.GetRevoked() && !old.GetRevoked() {
		e.markDeleted(k.GetId())
	}
	keepSecretsEnded(k, &old)
	return k, e.setRecord(key, k)
}

// requireNamespace accepts a deleted namespace, so that a key naming one can be
// changed. Another tenant's gets the same answer as one that does not exist.
func (e *edit) requireNamespace(text, tenant string) error {
	id, err := job.ParseNamespace(text)
	if err != nil {
		return err // validate has seen it.
	}
	var n cellv1.Namespace
	known, err := e.record(e.layout.namespace(id), &n)
	if err != nil {
		return err
	}
	if !known || n.GetTenantId() != tenant {
		return fault.New(fault.NotFound, "NAMESPACE_NOT_FOUND", "tenant %s has no namespace %s", tenant, text)
	}
	return nil
}

// node records where a node is. Its folder is recorded once: a node with another
// folder has lost what it confirmed.
func (e *edit) node(n *cellv1.Node) (*cellv1.Node, error) {
	gone, err := e.get(e.key(famGoneNode, n.GetId()))
	if err != nil {
		return nil, err
	}
	if gone != nil {
		return nil, fault.New(fault.Conflict, ReasonNodeIDUsed, "node %s was removed from the cell; start the node with a new id and an empty folder", n.GetId())
	}
	if n, err = e.spoken(n); err != nil {
		return nil, err
	}
	key := e.key(famNode, n.GetId())
	var old cellv1.Node
	known, err := e.record(key, &old)
	if err != nil {
		return nil, err
	}
	switch folder := old.GetFolderId(); {
	case !known:
		if err := e.count(famNode, "nodes", nodesMax); err != nil {
			return nil, err
		}
	case folder != "" && n.GetFolderId() == "":
		n, _ = proto.Clone(n).(*cellv1.Node)
		n.FolderId = folder
	case folder != "" && n.GetFolderId() != folder:
		return nil, fault.New(fault.Conflict, ReasonNodeIDUsed,
			"node %s is in the cell with another folder, which has the data it confirmed; start it with that folder, or remove it from the cell and start this one with a new id", n.GetId())
	}
	return n, e.setRecord(key, n)
}

// removeNode may be repeated.
func (e *edit) removeNode(id string, index uint64) error {
	gone, err := e.get(e.key(famGoneNode, id))
	if err != nil || gone != nil {
		return err
	}
	known, err := e.get(e.key(famNode, id))
	if err != nil {
		return err
	}
	if known == nil {
		return fault.New(fault.NotFound, "NODE_NOT_FOUND", "node %s not found", id)
	}
	if err := e.uncount(famNode, id); err != nil {
		return err
	}
	if err := e.unspoken(id); err != nil {
		return err
	}
	e.remove(e.key(famNode, id))
	e.setNumber(e.key(famGoneNode, id), index)
	return nil
}

func (e *edit) shards(s *cellv1.Shards) error {
	key := e.key(famMeta, metaShards)
	var old cellv1.Shards
	known, err := e.record(key, &old)
	if err != nil {
		return err
	}
	if known && !slices.Equal(old.GetIds(), s.GetIds()) {
		return fault.New(fault.Conflict, "SHARDS_FIXED", "the shards of a cell can't change once they are set")
	}
	return e.setRecord(key, s)
}

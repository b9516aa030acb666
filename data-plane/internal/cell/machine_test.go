package cell

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// bench is a Machine over a store, without raft.
type bench struct {
	t       testing.TB
	store   *statedb.Group
	machine *Machine
	index   uint64
	digest  uint64
	later   time.Duration // Added to the clock of the log.
	// clock replaces the clock of the log, by index.
	clock func(index uint64) time.Time
}

func openStore(t testing.TB) *statedb.DB {
	t.Helper()
	db, err := statedb.Open("state", statedb.Options{FS: vfs.NewMem(), CacheBytes: 8 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func newBench(t testing.TB) *bench {
	t.Helper()
	return benchOver(t, openStore(t).Group(GroupID))
}

func benchOver(t testing.TB, store *statedb.Group) *bench {
	t.Helper()
	b := &bench{t: t, store: store, machine: NewMachine(store)}
	if err := b.machine.Reset(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) now(index uint64) time.Time {
	if b.clock != nil {
		return b.clock(index)
	}
	return time.Unix(0, int64(index)).Add(b.later)
}

// payloads runs entries in one transaction, as a group does.
func (b *bench) payloads(entries ...[]byte) ([]any, error) {
	b.t.Helper()
	txn := b.store.NewTxn()
	results := make([]any, len(entries))
	for i, p := range entries {
		b.index++
		var err error
		results[i], err = b.machine.Apply(txn, group.Entry{Index: b.index, Now: b.now(b.index), Payload: p})
		if err != nil {
			b.index--
			return nil, err // The txn is dropped: a node stops here.
		}
		if b.digest, err = txn.EndEntry(b.digest, b.index); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := txn.Commit(); err != nil {
		b.t.Fatal(err)
	}
	b.machine.Committed(b.index)
	return results, nil
}

func (b *bench) request(req *cellv1.ApplyRequest) any {
	b.t.Helper()
	payload, err := marshal(req)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := b.payloads(payload)
	if err != nil {
		b.t.Fatal(err)
	}
	return res[0]
}

// must applies changes that must be accepted and returns them as stored.
func (b *bench) must(changes ...*cellv1.Change) []*cellv1.Change {
	b.t.Helper()
	switch res := b.request(&cellv1.ApplyRequest{Changes: changes}).(type) {
	case *cellv1.ApplyResponse:
		return res.GetStored()
	default:
		b.t.Fatalf("refused: %v", res)
		return nil
	}
}

// refused applies changes that must be refused for a reason and leave no trace.
func (b *bench) refused(reason string, changes ...*cellv1.Change) {
	b.t.Helper()
	before := b.machine.View()
	dump := b.dump()
	f, ok := b.request(&cellv1.ApplyRequest{Changes: changes}).(*fault.Error)
	if !ok || f.Reason != reason {
		b.t.Errorf("got %v, want a refusal %s", f, reason)
	}
	if b.machine.View() != before || !bytes.Equal(b.dump(), dump) {
		b.t.Errorf("the refusal %s left a trace", reason)
	}
}

// dump is every key and value of the group.
func (b *bench) dump() []byte {
	b.t.Helper()
	var out bytes.Buffer
	p := b.store.Prefix()
	err := b.store.Scan(p[:], binary.BigEndian.AppendUint32(nil, b.store.ID()+1), func(k, v []byte) (bool, error) {
		fmt.Fprintf(&out, "%x=%x\n", k, v)
		return true, nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.Bytes()
}

func tenantID(n int) string { return "tn_" + ulidText(n) }
func nsID(n int) string     { return "ns_" + ulidText(n) }
func keyID(n int) string    { return fmt.Sprintf("key_%012d", n) }

func ulidText(n int) string {
	var ns job.Namespace
	ns[14], ns[15] = byte(n>>8), byte(n)
	return strings.TrimPrefix(ns.String(), "ns_")
}

func digest(n byte) []byte { return bytes.Repeat([]byte{n}, digestBytes) }

func tenantChange(t *cellv1.Tenant) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Tenant{Tenant: t}}
}

func namespaceChange(n *cellv1.Namespace) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: n}}
}

func keyChange(k *cellv1.Key) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Key{Key: k}}
}

func userID(n int) string { return "usr_" + ulidText(n) }

func testTokenKey(n int) *cellv1.TokenKey {
	return &cellv1.TokenKey{Id: fmt.Sprintf("tk_%024x", n), PublicKey: digest(byte(n))}
}

func tokenKeyChange(k *cellv1.TokenKey) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_TokenKey{TokenKey: k}}
}

func cutoffChange(tenant, user string, notBefore int64) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_UserCutoff{UserCutoff: &cellv1.UserCutoff{TenantId: tenant, UserId: user, NotBeforeNs: notBefore}}}
}

func shardsChange(ids ...uint32) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Shards{Shards: &cellv1.Shards{Ids: ids}}}
}

func removeChange(id string) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_RemoveNodeId{RemoveNodeId: id}}
}

func forgetChange(gone ...*cellv1.Gone) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Forget{Forget: &cellv1.Forget{Gone: gone}}}
}

func testTenant(n int, name string) *cellv1.Change {
	return tenantChange(&cellv1.Tenant{Id: tenantID(n), Name: name})
}

func testNamespace(n, tenant int, name string) *cellv1.Change {
	return namespaceChange(&cellv1.Namespace{Id: nsID(n), TenantId: tenantID(tenant), Name: name})
}

func testKey(n, tenant int, namespaces ...int) *cellv1.Key {
	k := &cellv1.Key{Id: keyID(n), TenantId: tenantID(tenant), Digests: [][]byte{digest(byte(n))}, Grants: []*cellv1.Grant{{Permissions: permission.Of(permission.JobFetch).Bytes()}}}
	for _, ns := range namespaces {
		k.Grants[0].NamespaceIds = append(k.Grants[0].NamespaceIds, nsID(ns))
	}
	return k
}

func aGrant() *cellv1.Grant {
	return &cellv1.Grant{Permissions: permission.Of(permission.JobFetch).Bytes()}
}

func grantsChange(grants ...*cellv1.Grant) *cellv1.Change {
	return keyChange(&cellv1.Key{Id: keyID(1), TenantId: tenantID(1), Digests: [][]byte{digest(1)}, Grants: grants})
}

func cidrsChange(cidrs ...string) *cellv1.Change {
	return keyChange(&cellv1.Key{Id: keyID(1), TenantId: tenantID(1), Digests: [][]byte{digest(1)}, Cidrs: cidrs})
}

func testNode1(id string) *cellv1.Node {
	return &cellv1.Node{Id: id, RaftAddress: "127.0.0.1:7000", ApiUrl: "http://127.0.0.1:7001"}
}

// furnished is a cell with shards 2 and 3 and tenants 1 "acme" and 2 "globex".
func furnished(t testing.TB) *bench {
	t.Helper()
	b := newBench(t)
	b.must(shardsChange(2, 3), testTenant(1, "acme"), testTenant(2, "globex"))
	return b
}

func TestApply_NamespaceGoesToTheEmptiestShardAndStays(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	for i, want := range []uint32{2, 3, 2, 3} {
		got := b.must(testNamespace(i+1, 1, fmt.Sprintf("space-%d", i)))[0].GetNamespace().GetShard()
		if got != want {
			t.Errorf("namespace %d is on shard %d, want %d", i, got, want)
		}
	}
	// Two leave shard 2; the next two go there.
	for _, i := range []int{1, 3} {
		b.must(namespaceChange(&cellv1.Namespace{Id: nsID(i), TenantId: tenantID(1), Name: fmt.Sprintf("space-%d", i-1), Deleted: true}))
	}
	stored := b.must(testNamespace(5, 1, "space-5"), testNamespace(6, 2, "space-5"), testNamespace(7, 1, "space-7"))
	for i, want := range []uint32{2, 2, 2} {
		if got := stored[i].GetNamespace().GetShard(); got != want {
			t.Errorf("namespace %d after deletions is on shard %d, want %d", i+5, got, want)
		}
	}
	renamed := b.must(testNamespace(2, 1, "renamed"))[0].GetNamespace()
	if renamed.GetShard() != 3 {
		t.Errorf("renaming moved the namespace to shard %d", renamed.GetShard())
	}
	moved, _ := proto.Clone(renamed).(*cellv1.Namespace)
	moved.Shard = 2
	b.refused("SHARD_FIXED", namespaceChange(moved))
}

func TestApply_RefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	b.must(testNamespace(1, 1, "jobs"), testNamespace(2, 2, "jobs"), keyChange(testKey(1, 1, 1)))
	deleted := &cellv1.Tenant{Id: tenantID(3), Name: "gone-tenant", Deleted: true}
	b.must(tenantChange(deleted))
	foreign := testKey(1, 2)
	for name, c := range map[string]struct {
		reason string
		change *cellv1.Change
	}{
		"tenant name of another":        {"NAME_TAKEN", testTenant(9, "acme")},
		"namespace name of another":     {"NAME_TAKEN", testNamespace(9, 1, "jobs")},
		"namespace of no tenant":        {"TENANT_NOT_FOUND", testNamespace(9, 9, "other")},
		"namespace of deleted tenant":   {"TENANT_NOT_FOUND", testNamespace(9, 3, "other")},
		"namespace of another tenant":   {"WRONG_TENANT", testNamespace(1, 2, "mine-now")},
		"namespace on no shard":         {"SHARD_NOT_FOUND", namespaceChange(&cellv1.Namespace{Id: nsID(9), TenantId: tenantID(1), Name: "nine", Shard: 9})},
		"key of no tenant":              {"TENANT_NOT_FOUND", keyChange(testKey(9, 9))},
		"key of deleted tenant":         {"TENANT_NOT_FOUND", keyChange(testKey(9, 3))},
		"key of another tenant":         {"WRONG_TENANT", keyChange(foreign)},
		"key for foreign namespace":     {"NAMESPACE_NOT_FOUND", keyChange(testKey(9, 1, 2))},
		"key for unknown namespace":     {"NAMESPACE_NOT_FOUND", keyChange(testKey(9, 1, 9))},
		"other shards":                  {"SHARDS_FIXED", shardsChange(2, 3, 4)},
		"removing a node nobody knows":  {"NODE_NOT_FOUND", removeChange("node-9")},
		"nothing":                       {"VALIDATION_ERROR", tenantChange(&cellv1.Tenant{})},
		"namespace without shard to be": {"SHARD_NOT_FOUND", namespaceChange(&cellv1.Namespace{Id: nsID(9), TenantId: tenantID(1), Name: "nine", Shard: 1})},
	} {
		t.Run(name, func(t *testing.T) {
			b.refused(c.reason, c.change)
			// All or nothing: a good change before it goes the same way.
			b.refused(c.reason, testTenant(100, "innocent"), c.change)
		})
	}
}

func TestApply_NameOfADeletedThingIsFree(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	b.must(testNamespace(1, 1, "jobs"))
	b.must(
		namespaceChange(&cellv1.Namespace{Id: nsID(1), TenantId: tenantID(1), Name: "jobs", Deleted: true}),
		testNamespace(2, 1, "jobs"),
		tenantChange(&cellv1.Tenant{Id: tenantID(2), Name: "globex", Deleted: true}),
		testTenant(3, "globex"),
	)
	v := b.machine.View()
	if n, ok := v.NamespaceByName(tenantID(1), "jobs"); !ok || n.GetId() != nsID(2) {
		t.Errorf("name jobs leads to %v", n)
	}
	if x, ok := v.TenantByName("globex"); !ok || x.GetId() != tenantID(3) {
		t.Errorf("name globex leads to %v", x)
	}
	if x, ok := v.TenantByID(tenantID(2)); !ok || !x.GetDeleted() {
		t.Errorf("the deleted tenant is %v", x)
	}
	b.refused("TENANT_DELETED", testTenant(2, "globex"))
	b.refused("TENANT_DELETED", testTenant(2, "another"))
	b.refused("NAMESPACE_DELETED", testNamespace(1, 1, "another"))
}

func TestApply_RevocationIsForEver(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	k := testKey(1, 1)
	b.must(keyChange(k))
	gone, _ := proto.Clone(k).(*cellv1.Key)
	gone.Revoked, gone.Digests = true, nil
	b.must(keyChange(gone))
	b.refused("KEY_REVOKED", keyChange(k))
	b.must(tenantChange(&cellv1.Tenant{Id: tenantID(1), Name: "acme", Deleted: true}))
	b.must(keyChange(gone)) // Repeating it is no error, even when the tenant is gone.
	if got, _ := b.machine.View().KeyByID(keyID(1)); !got.GetRevoked() {
		t.Errorf("the key is %v", got)
	}
}

func TestApply_GenerationMustGrowPerSource(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	apply := func(source string, generation uint64, change *cellv1.Change) string {
		req := &cellv1.ApplyRequest{Source: source, Generation: generation}
		if change != nil {
			req.Changes = append(req.Changes, change)
		}
		if f, ok := b.request(req).(*fault.Error); ok {
			return f.Reason
		}
		return ""
	}
	for i, c := range []struct {
		source     string
		generation uint64
		change     *cellv1.Change
		reason     string
	}{
		{"control", 5, nil, ""},
		{"control", 5, testTenant(5, "five"), "STALE_GENERATION"},
		{"control", 4, testTenant(5, "five"), "STALE_GENERATION"},
		{"other", 1, testTenant(5, "five"), ""},
		{"other", 2, testTenant(6, "five"), "NAME_TAKEN"},
		{"other", 2, testTenant(6, "six"), ""}, // A refused generation was not used up.
		{"", 0, testTenant(7, "seven"), ""},
		{"", 0, nil, "VALIDATION_ERROR"},
		{"zero", 0, nil, "STALE_GENERATION"},
	} {
		if got := apply(c.source, c.generation, c.change); got != c.reason {
			t.Errorf("step %d: %q, want %q", i, got, c.reason)
		}
	}
}

func TestApply_RemovedNodeIDNeverComesBack(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	node := &cellv1.Change{Change: &cellv1.Change_Node{Node: testNode1("node-1")}}
	b.must(node)
	b.must(removeChange("node-1"))
	b.must(removeChange("node-1"))
	b.refused("NODE_ID_USED", node)
	if len(b.machine.View().Nodes()) != 0 {
		t.Error("the removed node is still listed")
	}
}

func TestApply_TotalsAreLimited(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	for i := range nodesMax {
		b.must(&cellv1.Change{Change: &cellv1.Change_Node{Node: testNode1(fmt.Sprintf("n%d", i))}})
	}
	one := &cellv1.Change{Change: &cellv1.Change_Node{Node: testNode1("one-more")}}
	b.refused("LIMIT_REACHED", one)
	b.must(removeChange("n0"), one)
}

func TestValidate_NamesEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 41)
	many := make([]string, keyNamespacesMax+1)
	for name, c := range map[string]struct {
		change *cellv1.Change
		paths  string
	}{
		"tenant": {
			tenantChange(&cellv1.Tenant{Id: "tn_1", Name: "www", Limits: &cellv1.Limits{PayloadBytesMax: -1, EnqueuePerSecond: -1, StreamsMax: -1}}),
			"tenant.id tenant.name tenant.limits.payload_bytes_max tenant.limits.enqueue_per_second tenant.limits.streams_max",
		},
		"plan": {
			planChange(&cellv1.Limits{EnqueueBurst: -1, OpenJobsMax: -1, StoredBytesMax: -1, Hold: &cellv1.Hold{Value: -1, UntilNs: -1}}),
			"tenant.limits.enqueue_burst tenant.limits.open_jobs_max tenant.limits.stored_bytes_max tenant.limits.hold tenant.limits.hold.limit tenant.limits.hold.value tenant.limits.hold.until_ns",
		},
		"huge burst":     {planChange(&cellv1.Limits{EnqueueBurst: 1 << 31}), "tenant.limits.enqueue_burst"},
		"long limit":     {planChange(&cellv1.Limits{Hold: &cellv1.Hold{Enqueue: true, Limit: strings.Repeat("x", limitNameBytesMax+1)}}), "tenant.limits.hold.limit"},
		"strange limit":  {planChange(&cellv1.Limits{Hold: &cellv1.Hold{Dispatch: true, Limit: "a\nb"}}), "tenant.limits.hold.limit"},
		"short name":     {testTenant(1, "ab"), "tenant.name"},
		"long name":      {testTenant(1, long), "tenant.name"},
		"digit first":    {testTenant(1, "1ab"), "tenant.name"},
		"dash last":      {testTenant(1, "ab-"), "tenant.name"},
		"capital":        {testTenant(1, "Acme"), "tenant.name"},
		"single t":       {testTenant(1, "t"), "tenant.name tenant.name"},
		"namespace":      {namespaceChange(&cellv1.Namespace{Id: "ns_", TenantId: "x", Name: "-"}), "namespace.id namespace.tenant_id namespace.name"},
		"key":            {keyChange(&cellv1.Key{Id: "key_short", TenantId: "", NotAfterNs: -1, Name: strings.Repeat("x", 129)}), "key.id key.tenant_id key.name key.not_after_ns key.digests"},
		"key lists":      {keyChange(&cellv1.Key{Id: keyID(1), TenantId: tenantID(1), Digests: [][]byte{{1}, digest(1), digest(2)}, Roles: []string{"king", "viewer", "viewer"}, NamespaceIds: []string{nsID(1), nsID(1), "x"}}), "key.digests key.digests[0] key.roles[0] key.roles[2] key.namespace_ids[1] key.namespace_ids[2]"},
		"key namespaces": {keyChange(&cellv1.Key{Id: keyID(1), TenantId: tenantID(1), Digests: [][]byte{digest(1)}, Roles: []string{"admin"}, NamespaceIds: many}), "key.namespace_ids"},
		"key grants": {grantsChange(
			&cellv1.Grant{Permissions: []byte{1}, NamespaceIds: []string{nsID(1), nsID(1)}}, &cellv1.Grant{Permissions: make([]byte, 16), Queues: []string{"a*", "a*", "a*b"}},
		), "key.grants[0].permissions key.grants[0].namespace_ids[1] key.grants[1].permissions key.grants[1].queues[1] key.grants[1].queues[2]"},
		"many grants":              {grantsChange(slices.Repeat([]*cellv1.Grant{aGrant()}, 65)...), "key.grants"},
		"many unreadable":          {grantsChange(slices.Repeat([]*cellv1.Grant{{}}, 65)...), "key.grants"},
		"many namespaces":          {grantsChange(aGrant(), &cellv1.Grant{Permissions: aGrant().GetPermissions(), NamespaceIds: many}), "key.grants"},
		"many patterns":            {grantsChange(slices.Repeat([]*cellv1.Grant{{Permissions: aGrant().GetPermissions(), Queues: []string{"a", "b"}}}, 33)...), "key.grants"},
		"long patterns":            {grantsChange(slices.Repeat([]*cellv1.Grant{{Permissions: aGrant().GetPermissions(), Queues: []string{strings.Repeat("a", 128)}}}, 33)...), "key.grants"},
		"grants and roles":         {keyChange(&cellv1.Key{Id: keyID(1), TenantId: tenantID(1), Digests: [][]byte{digest(1)}, Roles: []string{"admin"}, Grants: []*cellv1.Grant{aGrant()}}), "key.roles"},
		"key of nobody known":      {keyChange(&cellv1.Key{Id: keyID(1), TenantId: tenantID(1), Digests: [][]byte{digest(1)}, PrincipalId: "key_1", DefaultNamespaceId: "x"}), "key.principal_id key.default_namespace_id[0]"},
		"addresses":                {cidrsChange("10.0.0.1", "10.0.0.1/8", "::ffff:10.0.0.0/104", "2001:DB8::/48", "fe80::1%eth0/64", "10.0.0.0/8", "10.0.0.0/8"), "key.cidrs[0] key.cidrs[1] key.cidrs[2] key.cidrs[3] key.cidrs[4] key.cidrs[6]"},
		"many addresses":           {cidrsChange(slices.Repeat([]string{"10.0.0.0/8"}, 33)...), "key.cidrs"},
		"cutoff of a strange user": {cutoffChange(tenantID(1), "u", 1), "user_cutoff.user_id"},
		"node":                     {&cellv1.Change{Change: &cellv1.Change_Node{Node: &cellv1.Node{Id: "-", RaftAddress: "host", ApiUrl: "ftp://h:1"}}}, "node.id node.raft_address node.api_url"},
		"url with a path":          {&cellv1.Change{Change: &cellv1.Change_Node{Node: &cellv1.Node{Id: "n", RaftAddress: "h:1", ApiUrl: "http://h:1/x"}}}, "node.api_url"},
		"remove":                   {removeChange(""), "remove_node_id"},
		"no shards":                {shardsChange(), "shards.ids"},
		"meta as shard":            {shardsChange(1, 2), "shards.ids"},
		"shard twice":              {shardsChange(2, 2), "shards.ids"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := fault.As(validateAsked(&cellv1.ApplyRequest{Changes: []*cellv1.Change{c.change}}))
			if err == nil {
				t.Fatal("accepted")
			}
			var got []string
			for _, f := range err.Fields {
				got = append(got, strings.TrimPrefix(f.Path, "changes[0]."))
			}
			if strings.Join(got, " ") != c.paths {
				t.Errorf("got  %s\nwant %s", strings.Join(got, " "), c.paths)
			}
		})
	}
}

func planChange(l *cellv1.Limits) *cellv1.Change {
	return tenantChange(&cellv1.Tenant{Id: tenantID(1), Name: "acme", Limits: l})
}

// An older program of the cell stores fields that it does not know as they come.
func TestApply_TakesLimitsThatAnOlderProgramDoesNotKnowAsTheyCome(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	b.must(planChange(&cellv1.Limits{EnqueueBurst: -1, Hold: &cellv1.Hold{Dispatch: true}}))
	if got, _ := b.machine.View().TenantByID(tenantID(1)); got.GetLimits().GetEnqueueBurst() != -1 || !got.GetLimits().GetHold().GetDispatch() {
		t.Errorf("stored %v", got)
	}
}

func TestReset_ReadsTheSameViewAsWasBuilt(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	b.must(testNamespace(1, 1, "jobs"), testNamespace(2, 2, "jobs"), keyChange(testKey(1, 1, 1)))
	b.must(&cellv1.Change{Change: &cellv1.Change_Node{Node: testNode1("node-1")}}, tenantChange(&cellv1.Tenant{Id: tenantID(2), Name: "globex", Deleted: true}))
	want := b.machine.View().State()
	if err := b.machine.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := b.machine.View().State(); !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if _, ok := b.machine.View().TenantByName("globex"); ok {
		t.Error("a deleted tenant is found by name")
	}
}

func TestDecode_UnknownOutsideARecordStopsTheNode(t *testing.T) {
	t.Parallel()
	good, err := marshal(&cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(1, "acme")}})
	if err != nil {
		t.Fatal(err)
	}
	unknown := []byte{0xF8, 0x01, 0x01}                              // Field 31, varint.
	inChange := append([]byte{0x0A, byte(len(unknown))}, unknown...) // changes[0] = {31: 1}.
	inRecord := []byte{0x0A, 0x05, 0x0A, 0x03, 0xF8, 0x01, 0x01}     // changes[0].tenant = {31: 1}.
	for name, p := range map[string][]byte{"request": append(good, unknown...), "change": inChange, "empty change": {0x0A, 0x00}, "garbage": {0xFF}} {
		if _, err := decode(p); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := newBench(t).payloads(p); err == nil {
			t.Errorf("%s: applied", name)
		}
	}
	if _, err := decode(inRecord); err != nil {
		t.Errorf("inside a record: %v", err)
	}
}

// Only live records count: keys that are made and revoked over and over do not fill a cell.
func TestApply_CapsCountLiveRecords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(shardsChange(2, 3), testTenant(1, "acme"), testTenant(2, "globex"))
	for round := range 3 { // 15,000 keys were ever made, and 5,000 live at most.
		for from := 0; from < keysEach; from += changesMax / 2 {
			var add []*cellv1.Change
			for i := range changesMax / 2 {
				add = append(add, keyChange(testKey(round*keysEach+from+i, 1)))
			}
			b.must(add...)
		}
		b.refused("LIMIT_REACHED", keyChange(testKey(99_999, 1)))
		var revoke []*cellv1.Change
		for i := range keysEach {
			k := testKey(round*keysEach+i, 1)
			k.Revoked = true
			revoke = append(revoke, keyChange(k))
		}
		for some := range slices.Chunk(revoke, changesMax) {
			b.must(some...)
		}
	}
	b.must(keyChange(testKey(99_999, 1)), keyChange(testKey(99_998, 2)))
}

// However much others use, each tenant has its reserve; a deleted tenant uses nothing.
func TestApply_ATenantHasAReserveThatOthersCannotTake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(shardsChange(2, 3), testTenant(1, "acme"), testTenant(2, "globex"))
	for i := range keysReserved + 3 {
		b.must(keyChange(testKey(i, 2)))
	}
	b.setNumber(b.machine.layout.count(famKey), keysShared) // The others have it all.
	for i := range keysReserved {
		b.must(keyChange(testKey(100+i, 1)))
	}
	b.refused("LIMIT_REACHED", keyChange(testKey(200, 1)))
	gone := testTenant(2, "globex")
	gone.GetTenant().Deleted = true
	b.must(gone) // It had three beyond its reserve.
	for i := range 3 {
		b.must(keyChange(testKey(200+i, 1)))
	}
	b.refused("LIMIT_REACHED", keyChange(testKey(203, 1)))
	k := testKey(0, 2)
	k.Revoked = true
	b.must(keyChange(k)) // It was counted off with its tenant.
	b.refused("LIMIT_REACHED", keyChange(testKey(203, 1)))
}

// setNumber writes a counter behind the machine's back.
func (b *bench) setNumber(key []byte, n uint64) {
	b.t.Helper()
	txn := b.store.NewTxn()
	txn.Set(key, binary.BigEndian.AppendUint64(nil, n))
	b.index++
	var err error
	if b.digest, err = txn.EndEntry(b.digest, b.index); err == nil {
		err = txn.Commit()
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// Whoever makes keys asks celladmin what fits; a key that does must be accepted here.
func TestLimits_OfKeysAreThoseOfCelladmin(t *testing.T) {
	t.Parallel()
	ours := []int{keyGrantsMax, keyNamespacesMax, keyQueuesMax, keyQueueBytesMax, keyCIDRsMax}
	theirs := []int{celladmin.GrantsMax, celladmin.GrantNamespacesMax, celladmin.GrantQueuesMax, celladmin.GrantQueueBytesMax, celladmin.CIDRsMax}
	if !slices.Equal(ours, theirs) {
		t.Errorf("%v here, %v there", ours, theirs)
	}
}

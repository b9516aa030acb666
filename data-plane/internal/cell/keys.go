package cell

import (
	"encoding/binary"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Families of the meta group's span. The byte follows the group's prefix; 0x00
// is the group's applied record. Never reuse a number.
const (
	famMeta          = 0x01 // One of the meta… names → see there.
	famTenant        = 0x10 // tenant id → Tenant
	famTenantName    = 0x11 // name → tenant id; live tenants only
	famNamespace     = 0x12 // 16 bytes → Namespace
	famNamespaceName = 0x13 // tenant id, name → 16 bytes; live namespaces only
	famKey           = 0x14 // key id → Key
	famNode          = 0x15 // node id → Node
	famGoneNode      = 0x16 // node id → index of its removal; an id never comes back (R11)
	famSource        = 0x17 // source → highest generation applied
	famShard         = 0x18 // uint32 → live namespaces on it
	famCount         = 0x19 // a record family's byte → records that live; of what tenants have, those beyond their reserve
	famTokenKey      = 0x1a // token key id → TokenKey
	famOwn           = 0x1b // a record family's byte, tenant id → what of it lives in the tenant
	famTombstone     = 0x1c // 8 bytes when, id of a tenant, namespace or key → who deleted it
)

// Names in famMeta.
const (
	metaChanged = "changed" // Index of the last entry that changed anything.
	metaControl = "control" // GetIndexResponse: the control plane that the cell goes by.
	metaShards  = "shards"  // Shards
	metaVersion = "version" // CellVersion
	metaCutoffs = "cutoffs" // UserCutoffs; few and short-lived, so one record for all
)

// layout builds the keys of one group.
type layout struct{ prefix [4]byte }

func (l layout) key(family byte, parts ...string) []byte {
	b := make([]byte, 0, 48)
	b = append(b, l.prefix[:]...)
	b = append(b, family)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func (l layout) namespace(id job.Namespace) []byte { return l.key(famNamespace, string(id[:])) }

// namespaceName needs no separator: tenant ids all have the same length.
func (l layout) namespaceName(tenant, name string) []byte {
	return l.key(famNamespaceName, tenant, name)
}

func (l layout) shard(id uint32) []byte {
	return binary.BigEndian.AppendUint32(l.key(famShard), id)
}

func (l layout) count(family byte) []byte { return l.key(famCount, string([]byte{family})) }

func (l layout) own(family byte, tenant string) []byte {
	return l.key(famOwn, string([]byte{family}), tenant)
}

// tombstone sorts deletions by their time.
func (l layout) tombstone(at int64, id string) []byte {
	return append(binary.BigEndian.AppendUint64(l.key(famTombstone), uint64(max(at, 0))), id...)
}

func (l layout) parseTombstone(key []byte) (at int64, id string, err error) {
	rest := key[len(l.key(famTombstone)):]
	if len(rest) < 8 {
		return 0, "", fmt.Errorf("the key of a deletion is too short: %x", key)
	}
	return int64(binary.BigEndian.Uint64(rest)), string(rest[8:]), nil // tombstone wrote it.
}

// span is every key of a family.
func (l layout) span(family byte) (from, to []byte) { return l.key(family), l.key(family + 1) }

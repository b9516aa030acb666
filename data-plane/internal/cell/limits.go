package cell

import (
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Limits of the desired state. Beyond one the whole change set is refused with
// fault.Exhausted (totals) or fault.Invalid (one record). They are part of apply:
// changing one needs every node to change at the same time.
const (
	tenantsMax   = 20_000
	nodesMax     = 64
	shardsMax    = 1024
	tokenKeysMax = 16    // Two while a signing key is changed, and some of every region.
	cutoffsMax   = 4_096 // Removed members within cutoffKept.

	changesMax    = 2_000   // In one entry.
	entryBytesMax = 1 << 20 // As every log entry.

	digestBytes      = 32 // SHA-256.
	digestsMax       = 2  // The second while a key is rotated.
	keyNamespacesMax = 64 // Over all grants of a key, as the following.
	keyGrantsMax     = 64
	keyQueuesMax     = 64
	keyQueueBytesMax = 4096
	keyCIDRsMax      = 32
	keyNameBytesMax  = 128
	sourceBytesMax   = 128
	nodeIDBytesMax   = 64
	// limitNameBytesMax of a limit that is the reason for a hold.
	limitNameBytesMax = 64
	addressBytesMax   = 256
	publicKeyBytes    = 32 // Ed25519.

	// Limits of live keys and namespaces: deleted and revoked ones, and those of deleted
	// tenants, do not count. Each tenant has a reserve of its own. Beyond that it draws on what
	// all share, up to a part of it.
	keysReserved       = 5
	keysShared         = 100_000 // With the reserves about 20 MB in every proxy.
	keysEach           = 5_000
	namespacesReserved = 2
	namespacesShared   = 60_000
	namespacesEach     = 2_000

	// cutoffKept is how long a cutoff is remembered: longer than any token that was
	// issued before it may live.
	cutoffKept = 15 * time.Minute
	// cutoffAheadMax is how far the caller's clock may be ahead.
	cutoffAheadMax = time.Minute
)

// quota bounds a family's records, per tenant and in all.
type quota struct {
	family                 byte
	what                   string
	reserved, each, shared uint64
}

var (
	keyQuota       = quota{famKey, "keys", keysReserved, keysEach, keysShared}
	namespaceQuota = quota{famNamespace, "namespaces", namespacesReserved, namespacesEach, namespacesShared}
)

const (
	tenantIDPrefix = "tn_"
	keyIDPrefix    = "key_"
	userIDPrefix   = "usr_"

	serviceAccountPrefix = "sa_"

	tokenKeyPrefix = "tk_"
	tokenKeyHex    = 24
	// keyIDChars is the length of an API key's public part.
	keyIDChars = 12
)

func isTenantID(id string) bool { return isULID(tenantIDPrefix, id) }

func isUserID(id string) bool { return isULID(userIDPrefix, id) }

// isPrincipalID accepts whom a key may belong to.
func isPrincipalID(id string) bool { return isUserID(id) || isULID(serviceAccountPrefix, id) }

// isULID accepts a prefix and the ULID text that namespace ids have too.
func isULID(prefix, id string) bool {
	ulid, ok := strings.CutPrefix(id, prefix)
	if !ok {
		return false
	}
	_, err := job.ParseNamespace("ns_" + ulid)
	return err == nil
}

func isKeyID(id string) bool {
	rest, ok := strings.CutPrefix(id, keyIDPrefix)
	if !ok || len(rest) != keyIDChars {
		return false
	}
	return all(rest, func(c byte) bool { return isDigit(c) || isLower(c) || c >= 'A' && c <= 'Z' })
}

func isTokenKeyID(id string) bool {
	digits, ok := strings.CutPrefix(id, tokenKeyPrefix)
	return ok && len(digits) == tokenKeyHex && all(digits, func(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' })
}

// isNodeID accepts what a raft server id of ours looks like ("node-1", "node-1/2").
func isNodeID(id string) bool {
	if id == "" || len(id) > nodeIDBytesMax || id[0] == '-' || id[0] == '/' || id[0] == '.' {
		return false
	}
	return all(id, func(c byte) bool {
		return isDigit(c) || isLower(c) || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.' || c == '/'
	})
}

// isName is [a-z][a-z0-9-]{1,38}[a-z0-9], the form of tenant and namespace names.
func isName(s string) bool {
	if len(s) < 3 || len(s) > 40 || !isLower(s[0]) || s[len(s)-1] == '-' {
		return false
	}
	return all(s, func(c byte) bool { return isDigit(c) || isLower(c) || c == '-' })
}

// isReservedName lists the host names under a cell's domain that are not tenants.
func isReservedName(s string) bool {
	switch s {
	case "app", "api", "www", "admin", "mail", "t", "docs", "status":
		return true
	}
	return false
}

// isPrintable accepts what is safe in a header or a log line.
func isPrintable(s string) bool {
	return all(s, func(c byte) bool { return c >= 0x20 && c <= 0x7e })
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

func all(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

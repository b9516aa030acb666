// Package ids makes the immutable names of the control plane's records: a prefix that
// tells the kind, and a ULID. It must not know what is named. Surprising: ids made in
// one millisecond still sort in the order they were made.
package ids

import (
	"crypto/rand"
	"crypto/sha256"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// Kind is the prefix of an id.
type Kind string

// Kinds of records.
const (
	Tenant     Kind = "tn_"
	Namespace  Kind = "ns_"
	User       Kind = "usr_"
	Invitation Kind = "inv_"
	Connection Kind = "sso_"
	Session    Kind = "ses_"
	Factor     Kind = "fac_"
	Signup     Kind = "sgn_"
	Audit      Kind = "aud_"
	AuditSink  Kind = "snk_"
	Domain     Kind = "dom_"
	Outbox     Kind = "out_"
	Role       Kind = "role_"
	Binding    Kind = "bnd_"
	Group      Kind = "grp_"
	// ServiceAccount is a machine.
	ServiceAccount Kind = "sa_"
	// Trust exchanges tokens.
	Trust Kind = "trust_"
)

// Maker makes ids. It is safe for concurrent use.
type Maker struct {
	mu      sync.Mutex
	entropy io.Reader // Guarded by mu.
}

// NewMaker makes a Maker that draws from the system's randomness.
func NewMaker() *Maker { return &Maker{entropy: ulid.Monotonic(rand.Reader, 0)} }

// New makes an id of a kind as of now.
func (m *Maker) New(k Kind, now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(k) + ulid.MustNew(ulid.Timestamp(now), m.entropy).String()
}

// Derived makes the id of something made elsewhere at a time. It is the same for
// the same arguments, and sorts by that time.
func Derived(k Kind, at time.Time, of ...string) string {
	var id ulid.ULID
	if err := id.SetTime(ulid.Timestamp(at)); err != nil {
		panic(err) // Not possible before the year 10889.
	}
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	copy(id[6:], sum[:])
	return string(k) + id.String()
}

// Bound is the lowest id of a kind that something made at a time can have.
func Bound(k Kind, at time.Time) string {
	var id ulid.ULID
	if err := id.SetTime(ulid.Timestamp(at)); err != nil {
		panic(err) // Not possible before the year 10889.
	}
	return string(k) + id.String()
}

// Is reports whether text has the form of an id of a kind.
func Is(k Kind, text string) bool {
	if len(text) != len(k)+ulid.EncodedSize || text[:len(k)] != string(k) {
		return false
	}
	_, err := ulid.ParseStrict(text[len(k):])
	return err == nil
}

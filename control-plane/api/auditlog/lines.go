package auditlog

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Kinds of lines. An export has one KindExport, then keys and heads, then entries in the
// order of the chain.
const (
	KindExport = "export"
	KindKey    = "key"
	KindEntry  = "entry"
	KindHead   = "head"
)

// Entry is an entry of a tenant's audit log.
type Entry struct {
	Kind        string            `json:"kind"`
	TenantID    string            `json:"tenant_id"`
	Seq         int64             `json:"seq"`
	ID          string            `json:"id"`
	At          Time              `json:"at"`
	ActorType   string            `json:"actor_type,omitempty"`
	ActorID     string            `json:"actor_id,omitempty"`
	Actor       string            `json:"actor,omitempty"`
	Action      string            `json:"action"`
	TargetType  string            `json:"target_type,omitempty"`
	TargetID    string            `json:"target_id,omitempty"`
	Target      string            `json:"target,omitempty"`
	NamespaceID string            `json:"namespace_id,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	RequestID   string            `json:"request_id,omitempty"`
	Peer        string            `json:"peer,omitempty"`
	UserAgent   string            `json:"user_agent,omitempty"`
	Changes     map[string]Change `json:"changes,omitempty"`
	PrevHash    string            `json:"prev_hash,omitempty"`
	Hash        string            `json:"hash,omitempty"`
}

// Change is a field before and after.
type Change struct {
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

// Head says, signed, how far the chain reached at a time, and where it begins now: entries
// before FirstSeq were deleted at the end of their retention, and FirstAfter is the hash of
// the last of them.
type Head struct {
	Kind       string `json:"kind"`
	TenantID   string `json:"tenant_id"`
	Seq        int64  `json:"seq"`
	Hash       string `json:"hash,omitempty"`
	FirstSeq   int64  `json:"first_seq"`
	FirstAfter string `json:"first_after,omitempty"`
	At         Time   `json:"at"`
	KeyID      string `json:"key_id"`
	Signature  string `json:"signature,omitempty"`
}

// Export is the first line of a file and says, signed, what must be in it: the entries From
// to To, and how many heads. From is To+1 for no entries.
type Export struct {
	Kind     string `json:"kind"`
	Version  int    `json:"version"`
	TenantID string `json:"tenant_id"`
	Tenant   string `json:"tenant"`
	From     int64  `json:"from"`
	To       int64  `json:"to"`
	// AfterHash is the hash of the entry before From, and Hash that of To.
	AfterHash string `json:"after_hash,omitempty"`
	Hash      string `json:"hash,omitempty"`
	// FirstSeq and FirstAfter are where the chain began when the file was made.
	FirstSeq   int64  `json:"first_seq"`
	FirstAfter string `json:"first_after,omitempty"`
	Heads      int    `json:"heads"`
	// After and Before are the times that were asked for.
	After     *Time  `json:"after,omitempty"`
	Before    *Time  `json:"before,omitempty"`
	At        Time   `json:"at"`
	KeyID     string `json:"key_id"`
	Signature string `json:"signature,omitempty"`
}

// Key is a public key with which heads were signed.
type Key struct {
	Kind      string `json:"kind"`
	KeyID     string `json:"key_id"`
	Algorithm string `json:"algorithm"`  // Ed25519.
	PublicKey string `json:"public_key"` // In base64.
	CreatedAt Time   `json:"created_at"`
}

// Time is written in UTC with all nanoseconds that are not zero.
type Time struct{ time.Time }

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.UTC().Format(time.RFC3339Nano)), nil }

// MarshalJSON implements json.Marshaler: that of time.Time would keep the zone.
func (t Time) MarshalJSON() ([]byte, error) {
	text, err := t.MarshalText()
	return []byte(`"` + string(text) + `"`), err
}

const algorithm = "Ed25519"

// KeyID names a public key by what it is: corvo_audit_ and the first half of its SHA-256.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return "corvo_audit_" + hex.EncodeToString(sum[:16])
}

// NewKey is the line of a public key.
func NewKey(public ed25519.PublicKey, created time.Time) Key {
	return Key{Kind: KindKey, KeyID: KeyID(public), Algorithm: algorithm, PublicKey: base64.StdEncoding.EncodeToString(public), CreatedAt: Time{created}}
}

// HashOf computes what the hash of an entry must be.
func HashOf(e Entry) (string, error) {
	e.Kind = KindEntry
	o, err := objectOf(e)
	if err != nil {
		return "", fmt.Errorf("audit entry %s: %w", e.ID, err)
	}
	return o.hash(), nil
}

// Sign signs a head.
func (h *Head) Sign(private ed25519.PrivateKey) (err error) {
	h.Kind = KindHead
	h.KeyID, h.Signature, err = sign(private, func(id string) any { h.KeyID = id; return *h })
	return err
}

// Sign signs what an export has.
func (x *Export) Sign(private ed25519.PrivateKey) (err error) {
	x.Kind, x.Version = KindExport, 1
	x.KeyID, x.Signature, err = sign(private, func(id string) any { x.KeyID = id; return *x })
	return err
}

func sign(private ed25519.PrivateKey, line func(keyID string) any) (keyID, signature string, err error) {
	public, _ := private.Public().(ed25519.PublicKey) // It is nothing else.
	keyID = KeyID(public)
	o, err := objectOf(line(keyID))
	if err != nil {
		return "", "", fmt.Errorf("sign: %w", err)
	}
	return keyID, base64.StdEncoding.EncodeToString(ed25519.Sign(private, o.canonical(memberSignature))), nil
}

// Line is the text of an entry, a head, a key or the first line.
func Line(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("line of an audit log: %w", err)
	}
	return string(text), nil
}

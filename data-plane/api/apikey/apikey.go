// Package apikey owns the text of an API key: how one is made, read, checked for
// typing mistakes, digested for storage and kept out of logs.
//
// It must not know who a key belongs to or what it may do; that is the cell's
// desired state.
//
// Surprising: a correct checksum proves nothing; only a known digest does. The
// checksum is there so that a cut-off or mistyped key is refused without a look-up,
// and so that secret scanners have no false positives.
package apikey

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"regexp"
	"strings"
)

// Pattern is the published expression that secret scanners search for.
const Pattern = `corvo_(dp|mg|pat|scim|tmp)_[0-9A-Za-z]{61}`

// Kind is what a key is for; it is part of the key's text.
type Kind string

const (
	DataPlane  Kind = "dp"   // Jobs.
	Management Kind = "mg"   // The control API, and queue administration at the tenant URL.
	Personal   Kind = "pat"  // A person's own.
	SCIM       Kind = "scim" // One directory connection.
	Temporary  Kind = "tmp"  // Short-lived, from an exchange.
)

const (
	prefix    = "corvo_"
	idPrefix  = "key_"
	idLen     = 12
	secretLen = 43 // The fewest base62 digits that hold 256 bits.
	crcLen    = 6  // 62^6 > 2^32.
	bodyLen   = idLen + secretLen + crcLen

	// digestDomain keeps a digest of a key from being the digest of anything else.
	digestDomain = "corvo.api-key.v1\x00"

	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Errors of Parse and Renew. None of them contains any part of the text.
var (
	ErrFormat   = errors.New("not a Corvo API key: want corvo_<kind>_ followed by 61 letters and digits")
	ErrKind     = errors.New("unknown kind of API key: want dp, mg, pat, scim or tmp")
	ErrID       = errors.New("not the id of an API key: want key_ followed by 12 letters and digits")
	ErrChecksum = errors.New("the API key's checksum does not match: it was cut off or mistyped")
)

// Key is a well-formed API key. Printing, logging or marshalling it shows its
// public id only; the zero value is no key.
type Key struct {
	kind Kind
	id   string
	// A pointer, because fmt reads the unexported fields of an outer struct
	// without asking our Format; what it then prints is an address.
	text *string
}

// Generate makes a new key with 256 random bits.
func Generate(kind Kind) (Key, error) {
	var b strings.Builder
	writeRandomText(&b, idLen)
	return form(kind, b.String())
}

// Renew makes a key with a new secret under the id of another: the result of a
// rotation.
func Renew(kind Kind, id string) (Key, error) {
	if !IsID(id) {
		return Key{}, ErrID
	}
	return form(kind, strings.TrimPrefix(id, idPrefix))
}

// IsID reports whether text has the form of a key's public id.
func IsID(text string) bool {
	short, ok := strings.CutPrefix(text, idPrefix)
	return ok && len(short) == idLen && isBase62(short)
}

func form(kind Kind, id string) (Key, error) {
	if !kind.valid() {
		return Key{}, ErrKind
	}
	var b strings.Builder
	b.Grow(len(prefix) + len(kind) + 1 + bodyLen)
	b.WriteString(prefix)
	b.WriteString(string(kind))
	b.WriteByte('_')
	b.WriteString(id)
	writeSecret(&b)
	sum := checksum(b.String())
	b.Write(sum[:])
	return Parse(b.String())
}

// Parse reads a key and checks its checksum.
func Parse(text string) (Key, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return Key{}, ErrFormat
	}
	kind, body, ok := strings.Cut(rest, "_")
	if !ok || len(body) != bodyLen || !isBase62(body) {
		return Key{}, ErrFormat
	}
	if !Kind(kind).valid() {
		return Key{}, ErrKind
	}
	signed := text[:len(text)-crcLen]
	if sum := checksum(signed); string(sum[:]) != text[len(signed):] {
		return Key{}, ErrChecksum
	}
	return Key{kind: Kind(kind), id: body[:idLen], text: &text}, nil
}

// Kind is what the key is for.
func (k Key) Kind() Kind { return k.kind }

// ID is the key's public id, key_<id12>.
func (k Key) ID() string {
	if k.text == nil {
		return ""
	}
	return idPrefix + k.id
}

// IsZero reports whether k is no key at all.
func (k Key) IsZero() bool { return k.text == nil }

// Reveal returns the whole key with its secret.
func (k Key) Reveal() string {
	if k.text == nil {
		return ""
	}
	return *k.text
}

// Digest is what is stored in place of the key. A random 256-bit secret needs no
// slow hash.
func (k Key) Digest() [sha256.Size]byte {
	var buf [len(digestDomain) + len(prefix) + len(SCIM) + 1 + bodyLen]byte
	b := append(buf[:0], digestDomain...)
	if k.text != nil {
		b = append(b, *k.text...)
	}
	return sha256.Sum256(b)
}

// IsDigest reports whether b can be a Digest, which is never all zeros.
func IsDigest(b []byte) bool {
	var zero [sha256.Size]byte
	return len(b) == sha256.Size && !bytes.Equal(b, zero[:])
}

// Format prints the redacted form, whatever the verb.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.redacted()) }

// LogValue logs the redacted form.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.redacted()) }

// MarshalText marshals the redacted form, so that a key inside a document dumped as
// JSON does not reveal its secret.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.redacted()), nil }

func (k Key) redacted() string {
	if k.text == nil {
		return "no key"
	}
	return prefix + string(k.kind) + "_" + k.id + hidden
}

const hidden = "[redacted]"

// Looser than Pattern on purpose: a key that was cut off, mistyped or glued to
// other text is secret all the same.
var keyLike = regexp.MustCompile(`(?i)(corvo_[a-z0-9]{1,8}_[0-9a-z]{1,12})[0-9a-z]*`)

// Redact returns text with the secret of everything that looks like a key removed.
func Redact(text string) string {
	return keyLike.ReplaceAllStringFunc(text, func(m string) string {
		parts := keyLike.FindStringSubmatch(m)
		if parts[1] == m {
			return m
		}
		return parts[1] + hidden
	})
}

func (k Kind) valid() bool {
	switch k {
	case DataPlane, Management, Personal, SCIM, Temporary:
		return true
	}
	return false
}

// checksum is CRC-32 (IEEE) as six base62 digits.
func checksum(text string) [crcLen]byte {
	// crc32.ChecksumIEEE wants bytes; the copy stays on the stack.
	var buf [len(prefix) + len(SCIM) + 1 + bodyLen]byte
	n := crc32.ChecksumIEEE(append(buf[:0], text...))
	var out [crcLen]byte
	for i := crcLen - 1; i >= 0; i-- {
		out[i] = alphabet[n%62]
		n /= 62
	}
	return out
}

// writeSecret writes 256 random bits as 43 base62 digits.
func writeSecret(b *strings.Builder) {
	var n [32]byte
	rand.Read(n[:]) // Never fails: the runtime ends the process instead.
	var out [secretLen]byte
	for i := secretLen - 1; i >= 0; i-- {
		var rem uint32
		for j := range n {
			cur := rem<<8 | uint32(n[j])
			n[j] = byte(cur / 62)
			rem = cur % 62
		}
		out[i] = alphabet[rem]
	}
	b.Write(out[:])
}

// writeRandomText writes n base62 digits, each equally likely.
func writeRandomText(b *strings.Builder, n int) {
	var one [1]byte
	for n > 0 {
		rand.Read(one[:])
		if one[0] >= 248 { // 248 = 4*62: above it the first digits would be more likely.
			continue
		}
		b.WriteByte(alphabet[one[0]%62])
		n--
	}
}

func isBase62(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z') {
			return false
		}
	}
	return true
}

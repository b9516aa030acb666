package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// KeyBytes is the length of a master key.
const KeyBytes = 32

const (
	version    = "s1"
	keyIDBytes = 4
	// sealedMax bounds what Open looks at; what we seal is at most some kilobytes.
	sealedMax = 1 << 20
)

// Errors of Open.
var (
	ErrUnknownKey = errors.New("encrypted with a master key that this process doesn't have")
	// ErrTampered is also for a wrong purpose: they cannot be distinguished.
	ErrTampered  = errors.New("the encrypted text was changed, or encrypted for another purpose")
	ErrMalformed = errors.New("not an encrypted text")
)

// Box seals and signs. It is safe for concurrent use.
type Box struct {
	keys []masterKey // The first one seals.
}

type masterKey struct {
	id     string
	secret []byte
}

// New makes a Box of master keys, the one in use first.
func New(keys ...[]byte) (*Box, error) {
	if len(keys) == 0 {
		return nil, errors.New("no master key given")
	}
	b := &Box{}
	for i, k := range keys {
		if len(k) != KeyBytes {
			return nil, fmt.Errorf("master key %d has %d bytes, want %d", i+1, len(k), KeyBytes)
		}
		m := masterKey{secret: bytes.Clone(k)}
		id, err := m.derive("key-id", "", keyIDBytes)
		if err != nil {
			return nil, fmt.Errorf("derive id of master key %d: %w", i+1, err)
		}
		m.id = hex.EncodeToString(id)
		b.keys = append(b.keys, m)
	}
	return b, nil
}

// KeyIDs are the ids of the master keys, the sealing one first. Every sealed text
// contains the id of its key, which reveals nothing about the key.
func (b *Box) KeyIDs() []string {
	ids := make([]string, len(b.keys))
	for i, k := range b.keys {
		ids[i] = k.id
	}
	return ids
}

// NewKey draws a master key.
func NewKey() []byte {
	k := make([]byte, KeyBytes)
	rand.Read(k) // Never fails: the runtime ends the process instead.
	return k
}

// derive gives the key of one use and purpose. A use never contains a zero byte, so
// that no other use and purpose give the same text.
func (m masterKey) derive(use, purpose string, n int) ([]byte, error) {
	return hkdf.Key(sha256.New, m.secret, nil, "corvo.seal.v1\x00"+use+"\x00"+purpose, n)
}

func (m masterKey) aead(p Purpose) (cipher.AEAD, error) {
	key, err := m.derive("seal", p.name, KeyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Seal encrypts plain for a purpose. The text is safe in a URL.
func (b *Box) Seal(purpose Purpose, plain []byte) (string, error) {
	k := b.keys[0]
	a, err := k.aead(purpose)
	if err != nil {
		return "", fmt.Errorf("seal %s: %w", purpose, err)
	}
	head := version + "." + k.id + "."
	return head + encoding.EncodeToString(a.Seal(nil, nil, plain, []byte(head))), nil
}

// Open decrypts what Seal made for the same purpose.
func (b *Box) Open(purpose Purpose, text string) ([]byte, error) {
	id, sealed, err := split(text)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", purpose, err)
	}
	for _, k := range b.keys {
		if k.id != id {
			continue
		}
		a, err := k.aead(purpose)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", purpose, err)
		}
		plain, err := a.Open(nil, nil, sealed, []byte(version+"."+id+"."))
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", purpose, ErrTampered)
		}
		return plain, nil
	}
	return nil, fmt.Errorf("open %s: %w (key id %s)", purpose, ErrUnknownKey, id)
}

// split reads the outer form of a sealed text.
func split(text string) (keyID string, sealed []byte, err error) {
	if len(text) > sealedMax {
		return "", nil, ErrMalformed
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[0] != version || !isKeyID(parts[1]) {
		return "", nil, ErrMalformed
	}
	if sealed, err = decode(parts[2]); err != nil {
		return "", nil, ErrMalformed
	}
	return parts[1], sealed, nil
}

// Prefix begins every text that was sealed with the master key of that id; with any, if it
// is empty.
func Prefix(keyID string) string {
	if keyID == "" {
		return version + "."
	}
	return version + "." + keyID + "."
}

// sealedText finds what was sealed, inside of other text too.
var sealedText = regexp.MustCompile(version + `\.[0-9a-f]{8}\.[A-Za-z0-9_-]+`)

// Find gives the texts in s that were sealed with the master key of that id.
func Find(s, keyID string) []string {
	return slices.DeleteFunc(sealedText.FindAllString(s, -1), func(t string) bool { return !strings.HasPrefix(t, Prefix(keyID)) })
}

func isKeyID(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == keyIDBytes && hex.EncodeToString(b) == s
}

// MAC signs data for a purpose: 32 bytes that only a holder of the master key can make.
func (b *Box) MAC(purpose string, data []byte) []byte { return b.keys[0].mac(purpose, data) }

// CheckMAC reports whether sum is the MAC of data by any of the master keys.
func (b *Box) CheckMAC(purpose string, data, sum []byte) bool {
	return len(sum) == sha256.Size && b.checkShortMAC(purpose, data, sum)
}

// checkShortMAC compares the first bytes alone; sum must not be empty.
func (b *Box) checkShortMAC(purpose string, data, sum []byte) bool {
	return slices.ContainsFunc(b.keys, func(k masterKey) bool { return hmac.Equal(k.mac(purpose, data)[:len(sum)], sum) })
}

func (m masterKey) mac(purpose string, data []byte) []byte {
	key, err := m.derive("mac", purpose, KeyBytes)
	if err != nil {
		panic(err) // Not possible: hkdf refuses only absurd lengths.
	}
	h := hmac.New(sha256.New, key)
	h.Write(data) // A hash never fails.
	return h.Sum(nil)
}

var encoding = base64.RawURLEncoding.Strict()

// decode accepts only the text that encode makes: the library would skip line breaks.
func decode(text string) ([]byte, error) {
	b, err := encoding.DecodeString(text)
	if err != nil || encoding.EncodedLen(len(b)) != len(text) {
		return nil, ErrMalformed
	}
	return b, nil
}

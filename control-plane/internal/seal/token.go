package seal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// tokenBytes is 256 bits, which cannot be guessed, so a fast hash is enough to
// store it.
const tokenBytes = 32

// NewToken makes a random secret: the text for its holder, prefix first, and the digest
// for the database.
func NewToken(prefix string) (text, digestHex string) {
	var raw [tokenBytes]byte
	rand.Read(raw[:]) // Never fails: the runtime ends the process instead.
	text = prefix + encoding.EncodeToString(raw[:])
	return text, Digest(text)
}

// Digest is what is stored in place of a token: hex SHA-256, with a prefix that keeps it
// from being the digest of anything else.
func Digest(text string) string {
	sum := sha256.Sum256([]byte("corvo.token.v1\x00" + text))
	return hex.EncodeToString(sum[:])
}

package statedb

import (
	"bytes"
	"crypto/sha256"
	"hash"
)

// tailHash hashes a stream whose last 32 bytes are the checksum of the rest.
type tailHash struct {
	h    hash.Hash
	tail []byte // At most sha256.Size bytes that may be the trailer.
}

func newTailHash(h hash.Hash) *tailHash { return &tailHash{h: h} }

// push takes the next bytes and returns those that cannot be part of the trailer.
func (t *tailHash) push(p []byte) []byte {
	all := append(t.tail, p...)
	cut := max(len(all)-sha256.Size, 0)
	body := all[:cut:cut]
	t.tail = bytes.Clone(all[cut:])
	if _, err := t.h.Write(body); err != nil {
		panic(err) // Documented to never happen.
	}
	return body
}

func (t *tailHash) matches() bool { return bytes.Equal(t.h.Sum(nil), t.tail) }

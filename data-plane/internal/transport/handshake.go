package transport

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The handshake, before the first raft byte:
//
//	dialer   hello     magic "CVRT" | version u8 | lane u8 | group u32 |
//	                   cell | from | to (each u8 length + text) | nonce [32]
//	listener challenge nonce [32] | HMAC(secret, "listener" | hello | nonce)
//	dialer   proof     HMAC(secret, "dialer" | hello | nonce)
//	listener verdict   u8
//
// Both proofs cover both nonces and all names, and differ in their label, so
// neither can be replayed or reflected. Names are checked only after the proof:
// a stranger learns nothing but that something speaks this protocol.
const (
	handshakeVersion = 1

	nameBytesMax = 255
	nonceBytes   = 32
	proofBytes   = sha256.Size
	fixedBytes   = len(magic) + 1 + 1 + 4
	helloMax     = fixedBytes + 3*(1+nameBytesMax) + nonceBytes

	magic = "CVRT"

	listenerLabel = "corvo raft listener\x00"
	dialerLabel   = "corvo raft dialer\x00"
)

// lane separates what must not wait for each other. It stands in the hello so
// that the receiving side can treat a snapshot's connection by its own limits.
type lane uint8

const (
	laneRPC      lane = 1
	laneSnapshot lane = 2
)

// verdict is the listener's last word. Other values than these are refusals too.
type verdict uint8

const (
	accepted verdict = iota
	wrongCell
	wrongNode
	unknownGroup
)

func (v verdict) String() string {
	switch v {
	case accepted:
		return "accepted"
	case wrongCell:
		return "wrong cell"
	case wrongNode:
		return "wrong node"
	case unknownGroup:
		return "unknown group"
	default:
		return fmt.Sprintf("verdict %d", uint8(v))
	}
}

var (
	errNotOurs  = errors.New("not a raft connection of this version")
	errBadProof = errors.New("peer does not hold the cell's secret")
)

type hello struct {
	lane     lane
	group    uint32
	cell     string
	from, to string
	nonce    [nonceBytes]byte
}

func (h *hello) encode() ([]byte, error) {
	b := append(make([]byte, 0, helloMax), magic...)
	b = append(b, handshakeVersion, byte(h.lane))
	b = binary.BigEndian.AppendUint32(b, h.group)
	for _, name := range []string{h.cell, h.from, h.to} {
		if len(name) == 0 || len(name) > nameBytesMax {
			return nil, fmt.Errorf("name %q has %d bytes, not 1 to %d", name, len(name), nameBytesMax)
		}
		b = append(b, byte(len(name)))
		b = append(b, name...)
	}
	return append(b, h.nonce[:]...), nil
}

// readHello reads a hello and also returns its bytes, which the proofs cover. It
// reads not one byte more than the hello and stops at the first wrong one.
func readHello(r io.Reader) (hello, []byte, error) {
	var raw bytes.Buffer
	r = io.TeeReader(r, &raw)
	fixed := make([]byte, fixedBytes)
	if _, err := io.ReadFull(r, fixed); err != nil {
		return hello{}, nil, fmt.Errorf("read hello: %w", err)
	}
	if string(fixed[:len(magic)]) != magic || fixed[len(magic)] != handshakeVersion {
		return hello{}, nil, errNotOurs
	}
	h := hello{lane: lane(fixed[5]), group: binary.BigEndian.Uint32(fixed[6:])}
	if h.lane != laneRPC && h.lane != laneSnapshot {
		return hello{}, nil, fmt.Errorf("%w: lane %d", errNotOurs, h.lane)
	}
	for _, name := range []*string{&h.cell, &h.from, &h.to} {
		if err := readName(r, name); err != nil {
			return hello{}, nil, fmt.Errorf("read hello: %w", err)
		}
	}
	if _, err := io.ReadFull(r, h.nonce[:]); err != nil {
		return hello{}, nil, fmt.Errorf("read hello: %w", err)
	}
	return h, raw.Bytes(), nil
}

func readName(r io.Reader, name *string) error {
	var n [1]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return err
	}
	if n[0] == 0 {
		return fmt.Errorf("%w: empty name", errNotOurs)
	}
	text := make([]byte, n[0])
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	*name = string(text)
	return nil
}

// dialHandshake introduces this side and returns nil once the listener has
// proven itself and accepted.
func dialHandshake(c io.ReadWriter, secret []byte, h hello) error {
	h.nonce = newNonce()
	raw, err := h.encode()
	if err != nil {
		return err
	}
	if _, err := c.Write(raw); err != nil {
		return fmt.Errorf("send hello: %w", err)
	}
	var challenge [nonceBytes + proofBytes]byte
	if _, err := io.ReadFull(c, challenge[:]); err != nil {
		return fmt.Errorf("read challenge: %w", err)
	}
	nonce, theirs := challenge[:nonceBytes], challenge[nonceBytes:]
	if !hmac.Equal(theirs, proof(secret, listenerLabel, raw, nonce)) {
		return errBadProof
	}
	if _, err := c.Write(proof(secret, dialerLabel, raw, nonce)); err != nil {
		return fmt.Errorf("send proof: %w", err)
	}
	var v [1]byte
	if _, err := io.ReadFull(c, v[:]); err != nil {
		return fmt.Errorf("read verdict: %w", err)
	}
	if verdict(v[0]) != accepted {
		return fmt.Errorf("node %s refused the connection: %s", h.to, verdict(v[0]))
	}
	return nil
}

// listenHandshake reads a peer's introduction and lets it prove itself. The
// caller still has to send a verdict.
func listenHandshake(c io.ReadWriter, secret []byte) (hello, error) {
	h, raw, err := readHello(c)
	if err != nil {
		return hello{}, err
	}
	nonce := newNonce()
	if _, err := c.Write(append(nonce[:], proof(secret, listenerLabel, raw, nonce[:])...)); err != nil {
		return hello{}, fmt.Errorf("send challenge: %w", err)
	}
	var theirs [proofBytes]byte
	if _, err := io.ReadFull(c, theirs[:]); err != nil {
		return hello{}, fmt.Errorf("read proof: %w", err)
	}
	if !hmac.Equal(theirs[:], proof(secret, dialerLabel, raw, nonce[:])) {
		return hello{}, errBadProof
	}
	return h, nil
}

func proof(secret []byte, label string, raw, nonce []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(label))
	mac.Write(raw)
	mac.Write(nonce)
	return mac.Sum(nil)
}

// newNonce never fails: crypto/rand ends the process if the system has no
// randomness.
func newNonce() (n [nonceBytes]byte) {
	_, _ = rand.Read(n[:])
	return n
}

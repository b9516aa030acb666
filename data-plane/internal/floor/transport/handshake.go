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
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
)

// The handshake, before the first raft byte:
//
//	dialer   hello     magic "CVRT" | version u8 | lane u8 | group u32 |
//	                   cell | from | to (each u8 length + text) | nonce [32]
//	listener challenge nonce [32] | HMAC(secret, "listener" | hello | nonce)
//	dialer   proof     frame(statement) | HMAC(secret, "dialer" | hello | nonce | frame)
//	listener status    u8 | frame(reason or statement) | HMAC(secret, "verdict" | hello | nonce | all before)
//
// The secret is the one that the listener signs with; the dialer finds out which of
// those that it accepts this is.
//
// A frame is a u16 length and so many bytes. All proofs cover both nonces and all
// names, and differ in their label, so none can be replayed or reflected. Names are
// checked only after the proof: a stranger learns nothing but that something speaks
// this protocol. Each side reads its record of the other before it sends the message
// that the other answers with its statement, so that a statement is never compared
// with a record newer than itself.
const (
	handshakeVersion = 3

	nameBytesMax = 255
	nonceBytes   = 32
	proofBytes   = sha256.Size
	fixedBytes   = len(magic) + 1 + 1 + 4
	helloMax     = fixedBytes + 3*(1+nameBytesMax) + nonceBytes

	magic = "CVRT"

	listenerLabel = "corvo raft listener\x00"
	dialerLabel   = "corvo raft dialer\x00"
	statusLabel   = "corvo raft verdict\x00"
)

// lane separates traffic that must not wait for each other. It is part of the hello
// so that the listener can give a snapshot's connection limits of its own.
type lane uint8

const (
	laneRPC      lane = 1
	laneSnapshot lane = 2
	// laneAsk carries no raft messages: it ends with the status. Its statement covers
	// all groups.
	laneAsk lane = 3
)

// status is how the listener ends the handshake. Values that are not listed here are
// refusals too, of no kind: a program that doesn't know one tries again.
type status uint8

const (
	accepted status = iota
	wrongCell
	wrongNode
	unknownGroup
	noCell
	removed
	otherFolder
	olderCopy
	otherVersion
	unreadable
)

func (v status) String() string {
	switch v {
	case accepted:
		return "accepted"
	case wrongCell:
		return "wrong cell"
	case wrongNode:
		return "wrong node"
	case unknownGroup:
		return "unknown group"
	case noCell:
		return "no cell yet"
	case removed:
		return "removed"
	case otherFolder:
		return "another folder"
	case olderCopy:
		return "older copy"
	case otherVersion:
		return "another version"
	case unreadable:
		return "unreadable record"
	default:
		return fmt.Sprintf("status %d", uint8(v))
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
	if h.lane < laneRPC || h.lane > laneAsk {
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

// dialHandshake runs the dialer's side and returns nil once the listener has proven
// itself, has accepted, and has passed guard.
func dialHandshake(c io.ReadWriter, secrets *cellsecret.Secrets, h hello, guard Guard) error {
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
	secret := matching(secrets, h.to, theirs, raw, nonce)
	if secret == nil {
		return errBadProof
	}
	judge := guard.Check(h.to)
	said := appendFrame(nil, guard.Statement(h.group).Encode())
	if _, err := c.Write(append(said, proof(secret, dialerLabel, raw, nonce, said)...)); err != nil {
		return fmt.Errorf("send proof: %w", err)
	}
	v, body, err := readStatus(c, secret, raw, nonce)
	if err != nil {
		return err
	}
	if v != accepted {
		r := &Refusal{By: h.to, Of: h.from, status: v, Reason: string(body)}
		guard.Refused(r)
		return r
	}
	s, err := DecodeStatement(body)
	if err != nil {
		return err
	}
	if r := judge(s); r != nil {
		r.By, r.Of = h.from, h.to
		return r
	}
	return nil
}

// listenHandshake runs the listener's side up to the peer's proof. The caller still
// has to send a status with answer. judge is guard's check of the peer, taken
// before the peer made its statement.
func listenHandshake(c io.ReadWriter, secrets *cellsecret.Secrets, guard Guard) (h hello, s Statement, judge func(Statement) *Refusal, answer func(status, []byte) error, err error) {
	fail := func(err error) (hello, Statement, func(Statement) *Refusal, func(status, []byte) error, error) {
		return hello{}, Statement{}, nil, nil, err
	}
	h, raw, err := readHello(c)
	if err != nil {
		return fail(err)
	}
	judge = guard.Check(h.from)
	secret := secrets.Now().Raw()[0]
	nonce := newNonce()
	if _, err := c.Write(append(nonce[:], proof(secret, listenerLabel, raw, nonce[:])...)); err != nil {
		return fail(fmt.Errorf("send challenge: %w", err))
	}
	frame, said, err := readFrame(c)
	if err != nil {
		return fail(fmt.Errorf("read proof: %w", err))
	}
	var theirs [proofBytes]byte
	if _, err := io.ReadFull(c, theirs[:]); err != nil {
		return fail(fmt.Errorf("read proof: %w", err))
	}
	if !hmac.Equal(theirs[:], proof(secret, dialerLabel, raw, nonce[:], frame)) {
		return fail(errBadProof)
	}
	if s, err = DecodeStatement(said); err != nil {
		return fail(err)
	}
	answer = func(v status, body []byte) error {
		out := appendFrame([]byte{byte(v)}, body)
		if _, err := c.Write(append(out, proof(secret, statusLabel, raw, nonce[:], out)...)); err != nil {
			return fmt.Errorf("send status: %w", err)
		}
		return nil
	}
	return h, s, judge, answer, nil
}

// matching returns the secret with which the listener made its proof, nil if it was
// none of those that this node accepts.
func matching(secrets *cellsecret.Secrets, listener string, theirs, raw, nonce []byte) []byte {
	set := secrets.Now()
	for i, secret := range set.Raw() {
		if hmac.Equal(theirs, proof(secret, listenerLabel, raw, nonce)) {
			set.NoteUse(i, listener, time.Now())
			return secret
		}
	}
	return nil
}

func readStatus(c io.Reader, secret, raw, nonce []byte) (status, []byte, error) {
	var v [1]byte
	if _, err := io.ReadFull(c, v[:]); err != nil {
		return 0, nil, fmt.Errorf("read status: %w", err)
	}
	frame, body, err := readFrame(c)
	if err != nil {
		return 0, nil, fmt.Errorf("read status: %w", err)
	}
	var theirs [proofBytes]byte
	if _, err := io.ReadFull(c, theirs[:]); err != nil {
		return 0, nil, fmt.Errorf("read status: %w", err)
	}
	if !hmac.Equal(theirs[:], proof(secret, statusLabel, raw, nonce, append(v[:], frame...))) {
		return 0, nil, errBadProof
	}
	return status(v[0]), body, nil
}

// frameBytesMax is room for a statement of some thousand groups.
const frameBytesMax = 1<<16 - 1

func appendFrame(b, body []byte) []byte {
	body = body[:min(len(body), frameBytesMax)]
	return append(binary.BigEndian.AppendUint16(b, uint16(len(body))), body...)
}

// readFrame returns the whole frame, and its content.
func readFrame(r io.Reader) (frame, body []byte, err error) {
	var n [2]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, nil, err
	}
	frame = append(n[:], make([]byte, binary.BigEndian.Uint16(n[:]))...)
	if _, err := io.ReadFull(r, frame[2:]); err != nil {
		return nil, nil, err
	}
	return frame, frame[2:], nil
}

func proof(secret []byte, label string, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(label))
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

// newNonce never fails: crypto/rand ends the process if the system has no
// randomness.
func newNonce() (n [nonceBytes]byte) {
	_, _ = rand.Read(n[:])
	return n
}

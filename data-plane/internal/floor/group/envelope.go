package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
)

// envelope is what every log entry starts with.
//
//	form 1 byte | flags 1 byte | calendar time 8 bytes | lease time - calendar time, varint |
//	version of the cell, uvarint | [check index 8, check digest 8] | payload
type envelope struct {
	// version is that of the cell, as the proposer knew it. Apply uses the larger of it and
	// the last applied one.
	version cellversion.Version
	// stamp is the proposer's times. Apply uses the larger of each and the last
	// applied one plus one.
	stamp Times
	// check, if set, is the digest the proposer's state had at checkIndex. A
	// replica that stands at checkIndex when it meets the entry must agree (R21).
	check       bool
	checkIndex  uint64
	checkDigest uint64
	payload     []byte
}

const (
	envelopeForm  = 1
	flagCheck     = 1 << 0
	envelopeHead  = 10
	envelopeCheck = 16
)

var errEnvelope = errors.New("malformed log entry")

func (e envelope) encode() []byte {
	b := make([]byte, 0, envelopeHead+binary.MaxVarintLen64+binary.MaxVarintLen32+envelopeCheck+len(e.payload))
	var flags byte
	if e.check {
		flags |= flagCheck
	}
	b = append(b, envelopeForm, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(e.stamp.Calendar))
	b = binary.AppendVarint(b, e.stamp.Lease-e.stamp.Calendar) // Mostly one byte.
	b = binary.AppendUvarint(b, uint64(e.version))
	if e.check {
		b = binary.BigEndian.AppendUint64(b, e.checkIndex)
		b = binary.BigEndian.AppendUint64(b, e.checkDigest)
	}
	return append(b, e.payload...)
}

func decodeEnvelope(b []byte) (envelope, error) {
	var e envelope
	if len(b) < envelopeHead {
		return e, fmt.Errorf("%w: %d bytes", errEnvelope, len(b))
	}
	if b[0] != envelopeForm {
		return e, fmt.Errorf("%w: form %d, this node knows %d", errEnvelope, b[0], envelopeForm)
	}
	flags := b[1]
	if flags&^flagCheck != 0 {
		return e, fmt.Errorf("%w: unknown flags %#x", errEnvelope, flags)
	}
	e.stamp.Calendar = int64(binary.BigEndian.Uint64(b[2:]))
	b = b[envelopeHead:]
	apart, n := binary.Varint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 { // The shortest form, and no other.
		return e, fmt.Errorf("%w: lease time", errEnvelope)
	}
	e.stamp.Lease = e.stamp.Calendar + apart
	if e.stamp.Calendar < 0 || e.stamp.Lease < 0 {
		return e, fmt.Errorf("%w: negative time", errEnvelope)
	}
	b = b[n:]
	version, n := binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 || version == 0 || version > math.MaxUint32 {
		return e, fmt.Errorf("%w: version of the cell", errEnvelope)
	}
	e.version = cellversion.Version(version)
	b = b[n:]
	if flags&flagCheck != 0 {
		if len(b) < envelopeCheck {
			return e, fmt.Errorf("%w: short digest check", errEnvelope)
		}
		e.check = true
		e.checkIndex = binary.BigEndian.Uint64(b)
		e.checkDigest = binary.BigEndian.Uint64(b[8:])
		b = b[envelopeCheck:]
	}
	e.payload = b
	return e, nil
}

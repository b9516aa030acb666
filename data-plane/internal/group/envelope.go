package group

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// envelope is what every log entry starts with.
//
//	version 1 byte | flags 1 byte | stamp 8 bytes | [check index 8, check digest 8] | payload
type envelope struct {
	// stamp is the proposer's time in Unix nanoseconds. Apply uses the larger of
	// it and the last applied time plus one.
	stamp int64
	// check, if set, is the digest the proposer's state had at checkIndex. A
	// replica that stands at checkIndex when it meets the entry must agree (R21).
	check       bool
	checkIndex  uint64
	checkDigest uint64
	payload     []byte
}

const (
	envelopeVersion = 1
	flagCheck       = 1 << 0
	envelopeHead    = 10
	envelopeCheck   = 16
)

var errEnvelope = errors.New("malformed log entry")

func (e envelope) encode() []byte {
	b := make([]byte, 0, envelopeHead+envelopeCheck+len(e.payload))
	var flags byte
	if e.check {
		flags |= flagCheck
	}
	b = append(b, envelopeVersion, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(e.stamp))
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
	if b[0] != envelopeVersion {
		return e, fmt.Errorf("%w: version %d, this node knows %d", errEnvelope, b[0], envelopeVersion)
	}
	flags := b[1]
	if flags&^flagCheck != 0 {
		return e, fmt.Errorf("%w: unknown flags %#x", errEnvelope, flags)
	}
	e.stamp = int64(binary.BigEndian.Uint64(b[2:]))
	if e.stamp < 0 {
		return e, fmt.Errorf("%w: negative time", errEnvelope)
	}
	b = b[envelopeHead:]
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

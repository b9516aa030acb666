package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/hashicorp/raft"
)

// An entry on disk, all integers big-endian:
//
//	format u8 | type u8 | term u64 | cumulative u64 | appendedAt i64 |
//	dataLen u32 | data | extensionsLen u32 | extensions | crc u32
//
// The checksum covers the key too, so an entry that turns up under another
// group or index is corrupt and not merely misplaced.
const (
	entryFormat = 1

	entryHeaderBytes = 1 + 1 + 8 + 8 + 8
	lengthBytes      = 4
	checksumBytes    = 4
	entryMinBytes    = entryHeaderBytes + 2*lengthBytes + checksumBytes

	// noTime stands for the zero time.Time, which has no Unix nanoseconds.
	noTime = math.MinInt64
)

// ErrCorrupt is matched by every error about damaged data.
var ErrCorrupt = errors.New("corrupt raft log")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entryBytes is the size of one entry on disk, key included, as retention counts
// it.
func entryBytes(log *raft.Log) uint64 {
	return uint64(entryKeyBytes + entryMinBytes + len(log.Data) + len(log.Extensions))
}

// appendEntry encodes log into dst. cumulative is the sum of entryBytes over the
// group's log up to and including this entry; it makes "how many bytes lie
// between two indexes" two reads instead of a scan.
func appendEntry(dst, key []byte, log *raft.Log, cumulative uint64) ([]byte, error) {
	if len(log.Data) > math.MaxUint32 || len(log.Extensions) > math.MaxUint32 {
		return nil, fmt.Errorf("entry %d is larger than 4 GiB", log.Index)
	}
	start := len(dst)
	dst = append(dst, entryFormat, byte(log.Type))
	dst = binary.BigEndian.AppendUint64(dst, log.Term)
	dst = binary.BigEndian.AppendUint64(dst, cumulative)
	dst = binary.BigEndian.AppendUint64(dst, uint64(unixNano(log.AppendedAt)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(log.Data)))
	dst = append(dst, log.Data...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(log.Extensions)))
	dst = append(dst, log.Extensions...)
	return binary.BigEndian.AppendUint32(dst, checksum(key, dst[start:])), nil
}

// decodeEntry parses what appendEntry wrote. The returned log shares no memory with
// value, which Pebble reuses. Its Index is left to the caller.
func decodeEntry(key, value []byte) (log raft.Log, cumulative uint64, err error) {
	if len(value) < entryMinBytes {
		return raft.Log{}, 0, fmt.Errorf("%w: entry of %d bytes", ErrCorrupt, len(value))
	}
	body, sum := value[:len(value)-checksumBytes], value[len(value)-checksumBytes:]
	if checksum(key, body) != binary.BigEndian.Uint32(sum) {
		return raft.Log{}, 0, fmt.Errorf("%w: checksum mismatch", ErrCorrupt)
	}
	if body[0] != entryFormat {
		return raft.Log{}, 0, fmt.Errorf("%w: unknown entry format %d", ErrCorrupt, body[0])
	}
	log.Type = raft.LogType(body[1])
	log.Term = binary.BigEndian.Uint64(body[2:])
	cumulative = binary.BigEndian.Uint64(body[10:])
	log.AppendedAt = fromUnixNano(int64(binary.BigEndian.Uint64(body[18:])))

	rest := body[entryHeaderBytes:]
	if log.Data, rest, err = takeBytes(rest); err != nil {
		return raft.Log{}, 0, fmt.Errorf("%w: data: %w", ErrCorrupt, err)
	}
	if log.Extensions, rest, err = takeBytes(rest); err != nil {
		return raft.Log{}, 0, fmt.Errorf("%w: extensions: %w", ErrCorrupt, err)
	}
	if len(rest) != 0 {
		return raft.Log{}, 0, fmt.Errorf("%w: %d bytes after the entry", ErrCorrupt, len(rest))
	}
	return log, cumulative, nil
}

// takeBytes reads one length-prefixed field and copies it. An empty field is
// nil: raft does not tell nil from empty, and nil costs nothing.
func takeBytes(src []byte) (field, rest []byte, err error) {
	if len(src) < lengthBytes {
		return nil, nil, errors.New("length is cut off")
	}
	n := binary.BigEndian.Uint32(src)
	src = src[lengthBytes:]
	if uint64(n) > uint64(len(src)) {
		return nil, nil, fmt.Errorf("%d bytes announced, %d present", n, len(src))
	}
	if n == 0 {
		return nil, src, nil
	}
	return append([]byte(nil), src[:n]...), src[n:], nil
}

func checksum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.UnixNano()
}

func fromUnixNano(n int64) time.Time {
	if n == noTime {
		return time.Time{}
	}
	return time.Unix(0, n)
}

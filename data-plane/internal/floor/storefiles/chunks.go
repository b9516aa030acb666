package storefiles

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
)

// Pebble ends the replay of its newest write-ahead log, and the reading of its manifest, at
// the first chunk with a wrong checksum, as it must after a torn write. For the log it looks
// for proof that the chunk had been synced, but only in later blocks of 32 KiB; for the
// manifest it does not look at all. A flipped bit therefore silently drops everything after
// it. findDamage runs before Pebble opens the store and looks for two proofs:
//
//   - a valid chunk further on which can only have been written after the broken one was
//     synced: in a write-ahead log, one whose sync offset promises what lies before it; in
//     a manifest, one that begins a record, because each is synced before the next. (The
//     first two are synced together, before the marker names the manifest: see list.)
//   - one bit which, flipped back, makes the broken chunk valid. A torn write
//     does that by chance about once in 16,000 times.
//
// It cannot see more than one flipped bit within the very last record, of which chunks
// without a sync offset prove nothing: a power loss may keep the later pages of a write.
//
// Formats of a chunk (record/record.go of Pebble), little-endian:
//
//	crc u32 | length u16 | encoding u8 | payload                                     manifest
//	crc u32 | length u16 | encoding u8 | log number u32 | sync offset u64 | payload  write-ahead log
const blockBytes = 32 << 10

// format is one of the two.
type format struct {
	header      int
	first, last byte // Encodings: full, first, middle, last.
	// numbered: the header has the log's number and a sync offset.
	numbered bool
	number   uint32
}

func walFormat(number uint32) format {
	return format{header: 19, first: 9, last: 12, numbered: true, number: number}
}

func manifestFormat() format { return format{header: 7, first: 1, last: 4} }

// findDamage returns the offset of a damaged chunk, -1 if there is none. Without mend, only
// a valid chunk further on is a proof.
func (f format) findDamage(r io.Reader, mend bool) (int64, error) {
	block, broken := make([]byte, blockBytes), int64(-1)
	for start := int64(0); ; start += blockBytes {
		n, err := io.ReadFull(r, block)
		if n == 0 && errors.Is(err, io.EOF) {
			return -1, nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		if broken >= 0 {
			if f.vouched(block[:n], 0, broken) {
				return broken, nil
			}
			continue
		}
		end := f.skipChunks(block[:n])
		if end+f.header > n && n == blockBytes {
			continue // The block is full; the rest is padding.
		}
		if rest := block[end:n]; len(rest) > 0 {
			broken = start + int64(end)
			if f.vouched(rest, 1, broken) || mend && f.mendable(rest) {
				return broken, nil
			}
		}
	}
}

// skipChunks returns the offset in block after its valid chunks.
func (f format) skipChunks(block []byte) int {
	at := 0
	for {
		n := f.chunkBytes(block[at:])
		if n == 0 {
			return at
		}
		at += n
	}
}

// chunkBytes is the size of the chunk at the front of b, or 0 if it is not a valid
// one of this file.
func (f format) chunkBytes(b []byte) int {
	if len(b) < f.header {
		return 0
	}
	n := f.header + int(binary.LittleEndian.Uint16(b[4:]))
	if n > len(b) || !f.ours(b) || binary.LittleEndian.Uint32(b) != pebbleChecksum(b[6:n]) {
		return 0
	}
	return n
}

func (f format) ours(b []byte) bool {
	return b[6] >= f.first && b[6] <= f.last && (!f.numbered || binary.LittleEndian.Uint32(b[7:]) == f.number)
}

// vouched looks after a broken chunk for a valid one that proves that it was synced. It tries
// every position, because the broken chunk's length cannot be trusted.
func (f format) vouched(rest []byte, from int, offset int64) bool {
	for at := from; at+f.header <= len(rest); at++ {
		if b := rest[at:]; f.ours(b) && f.follows(b, offset) && f.chunkBytes(b) > 0 {
			return true
		}
	}
	return false
}

// follows says whether a valid chunk was written after what is at offset had been synced.
func (f format) follows(b []byte, offset int64) bool {
	if f.numbered {
		return binary.LittleEndian.Uint64(b[11:]) > uint64(offset)
	}
	return b[6] <= f.first+1 // Full or first.
}

// mendable says whether flipping one bit makes the front of rest a valid chunk.
func (f format) mendable(rest []byte) bool {
	if len(rest) < f.header {
		return false
	}
	b := append([]byte(nil), rest...)
	for bit := range 16 { // The length, which the checksum does not cover.
		b[4+bit/8] ^= 1 << (bit % 8)
		if f.chunkBytes(b) > 0 {
			return true
		}
		b[4+bit/8] ^= 1 << (bit % 8)
	}
	n := f.header + int(binary.LittleEndian.Uint16(b[4:]))
	if n > len(b) {
		return false
	}
	stored, covered := binary.LittleEndian.Uint32(b), b[6:n]
	if bits.OnesCount32(stored^pebbleChecksum(covered)) == 1 && f.ours(b) {
		return true // The checksum itself.
	}
	at := flippedBit(covered, rawChecksum(stored)^crc32.Checksum(covered, castagnoli))
	if at < 0 {
		return false
	}
	covered[at/8] ^= 1 << (at % 8)
	return f.chunkBytes(b) > 0
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// flippedBit finds the bit of b whose flip changes b's CRC by diff, -1 if none
// does. The CRC is linear: the change depends only on how many bytes follow the
// bit, so one pass from the end tries them all.
func flippedBit(b []byte, diff uint32) int {
	if diff == 0 {
		return -1
	}
	var change [8]uint32
	for bit := range change {
		change[bit] = castagnoli[1<<bit]
	}
	for at := len(b) - 1; at >= 0; at-- {
		for bit, c := range change {
			if c == diff {
				return at*8 + bit
			}
			change[bit] = c>>8 ^ castagnoli[byte(c)] // One more zero byte behind.
		}
	}
	return -1
}

// pebbleChecksum is CRC32C with the masking of Pebble's internal/crc.
func pebbleChecksum(b []byte) uint32 {
	return bits.RotateLeft32(crc32.Checksum(b, castagnoli), -15) + checksumMask
}

// rawChecksum undoes the masking.
func rawChecksum(masked uint32) uint32 { return bits.RotateLeft32(masked-checksumMask, 15) }

const checksumMask = 0xa282ead8

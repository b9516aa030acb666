package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble ends the replay of its newest write-ahead log at the first chunk with a
// wrong checksum, as it must after a torn write. It looks for proof that the chunk
// had been synced, but only in later blocks of 32 KiB. A flipped bit in the last
// block therefore silently drops every synced entry after it. This check runs
// before Pebble opens the store and looks for two proofs inside that block:
//
//   - a valid chunk further on, whose sync offset promises what lies before it;
//   - one bit which, flipped back, makes the broken chunk valid. A torn write
//     does that by chance about once in 16,000 times.
//
// It cannot see more than one flipped bit within the very last record.
//
// Format of a chunk (record/record.go of Pebble), little-endian:
//
//	crc u32 | length u16 | encoding u8 | log number u32 | sync offset u64 | payload
const (
	walBlockBytes  = 32 << 10
	walHeaderBytes = 4 + 2 + 1 + 4 + 8

	// Encodings of chunks with a sync offset: full, first, middle, last.
	walSyncFirst = 9
	walSyncLast  = 12
)

// checkWAL returns an error that matches ErrCorrupt if the newest write-ahead
// log in dir is damaged where it had been synced.
func checkWAL(fs vfs.FS, dir string) error {
	name, number, err := newestWAL(fs, dir)
	if err != nil || name == "" {
		return err
	}
	f, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		return err
	}
	offset, err := findDamage(f, number)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("check write-ahead log %s: %w", name, err)
	}
	if offset >= 0 {
		return fmt.Errorf("%w: write-ahead log %s is damaged at offset %d, inside what was synced", ErrCorrupt, name, offset)
	}
	return nil
}

// newestWAL finds the log that Pebble replays last; it is strict about the
// others by itself. It returns "" for a new store.
func newestWAL(fs vfs.FS, dir string) (name string, number uint32, err error) {
	names, err := fs.List(dir)
	if err != nil {
		if _, statErr := fs.Stat(dir); statErr != nil {
			return "", 0, nil
		}
		return "", 0, err
	}
	for _, n := range names {
		base, ok := strings.CutSuffix(n, ".log")
		if !ok {
			continue
		}
		if v, err := strconv.ParseUint(base, 10, 32); err == nil && uint32(v) >= number {
			name, number = n, uint32(v)
		}
	}
	return name, number, nil
}

// findDamage returns the offset of a damaged chunk, -1 if there is none.
func findDamage(r io.Reader, number uint32) (int64, error) {
	block := make([]byte, walBlockBytes)
	for start := int64(0); ; start += walBlockBytes {
		n, err := io.ReadFull(r, block)
		if n == 0 && errors.Is(err, io.EOF) {
			return -1, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		end := skipChunks(block[:n], number)
		if end+walHeaderBytes > n && n == walBlockBytes {
			continue // The block is full; the rest is padding.
		}
		rest := block[end:n]
		if promised(rest, number, start+int64(end)) || mendable(rest, number) {
			return start + int64(end), nil
		}
		// Pebble checks later blocks itself.
		return -1, nil
	}
}

// skipChunks returns the offset in block after its valid chunks.
func skipChunks(block []byte, number uint32) int {
	at := 0
	for {
		n := chunkBytes(block[at:], number)
		if n == 0 {
			return at
		}
		at += n
	}
}

// chunkBytes is the size of the chunk at the front of b, or 0 if it is not a valid
// one of this log.
func chunkBytes(b []byte, number uint32) int {
	if len(b) < walHeaderBytes {
		return 0
	}
	n := walHeaderBytes + int(binary.LittleEndian.Uint16(b[4:]))
	if n > len(b) || !ours(b, number) || binary.LittleEndian.Uint32(b) != pebbleChecksum(b[6:n]) {
		return 0
	}
	return n
}

func ours(b []byte, number uint32) bool {
	return b[6] >= walSyncFirst && b[6] <= walSyncLast && binary.LittleEndian.Uint32(b[7:]) == number
}

// promised looks after a broken chunk for a valid one that says the log was synced
// beyond offset. It tries every position, because the broken chunk's length cannot
// be trusted.
func promised(rest []byte, number uint32, offset int64) bool {
	for at := 1; at+walHeaderBytes <= len(rest); at++ {
		b := rest[at:]
		if ours(b, number) && chunkBytes(b, number) > 0 && binary.LittleEndian.Uint64(b[11:]) > uint64(offset) {
			return true
		}
	}
	return false
}

// mendable says whether flipping one bit makes the front of rest a valid chunk.
func mendable(rest []byte, number uint32) bool {
	if len(rest) < walHeaderBytes {
		return false
	}
	b := append([]byte(nil), rest...)
	for bit := range 16 { // The length, which the checksum does not cover.
		b[4+bit/8] ^= 1 << (bit % 8)
		if chunkBytes(b, number) > 0 {
			return true
		}
		b[4+bit/8] ^= 1 << (bit % 8)
	}
	n := walHeaderBytes + int(binary.LittleEndian.Uint16(b[4:]))
	if n > len(b) {
		return false
	}
	stored, covered := binary.LittleEndian.Uint32(b), b[6:n]
	if bits.OnesCount32(stored^pebbleChecksum(covered)) == 1 && ours(b, number) {
		return true // The checksum itself.
	}
	at := flippedBit(covered, rawChecksum(stored)^crc32.Checksum(covered, castagnoli))
	if at < 0 {
		return false
	}
	covered[at/8] ^= 1 << (at % 8)
	return chunkBytes(b, number) > 0
}

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

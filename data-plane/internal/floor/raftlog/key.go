package raftlog

import "encoding/binary"

// Keys, all integers big-endian so that byte order is index order:
//
//	group u32 | 'l' | index u64   an entry
//	group u32 | 's' | name        a stable value
//
// Group 0 belongs to the store itself (format, probe) and is no raft group.
const (
	ownGroup = 0

	entryTag  = 'l'
	stableTag = 's'

	entryKeyBytes = 4 + 1 + 8
)

func entryKey(group uint32, index uint64) []byte {
	return appendEntryKey(make([]byte, 0, entryKeyBytes), group, index)
}

func appendEntryKey(dst []byte, group uint32, index uint64) []byte {
	dst = binary.BigEndian.AppendUint32(dst, group)
	dst = append(dst, entryTag)
	return binary.BigEndian.AppendUint64(dst, index)
}

// entrySpan is the half-open key range of all entries of a group.
func entrySpan(group uint32) (lower, upper []byte) {
	upper = binary.BigEndian.AppendUint32(nil, group)
	return entryKey(group, 0), append(upper, entryTag+1)
}

func entryIndex(key []byte) uint64 {
	return binary.BigEndian.Uint64(key[len(key)-8:])
}

func stableKey(group uint32, name []byte) []byte {
	key := make([]byte, 0, 5+len(name))
	key = binary.BigEndian.AppendUint32(key, group)
	key = append(key, stableTag)
	return append(key, name...)
}

package raftlog

import "github.com/hashicorp/raft"

// tail holds the newest entries of a group, consecutive and already durable, so
// that replication and apply read memory and not Pebble. hashicorp/raft once cached
// entries it had failed to store (hashicorp/raft#430); here entries are added only
// after a successful commit.
type tail struct {
	bytesMax int
	bytes    int
	head     int // entries[:head] are dropped and zeroed.
	entries  []raft.Log
}

func (t *tail) get(index uint64, log *raft.Log) bool {
	live := t.entries[t.head:]
	if len(live) == 0 || index < live[0].Index {
		return false
	}
	at := index - live[0].Index
	if at >= uint64(len(live)) {
		return false
	}
	*log = live[at]
	return true
}

// add appends entries that follow the ones held and drops the oldest. A gap never
// reaches here: its owner clears the tail first.
func (t *tail) add(logs []*raft.Log) {
	if t.bytesMax <= 0 {
		return
	}
	for _, log := range logs {
		t.entries = append(t.entries, *log)
		t.bytes += int(entryBytes(log))
	}
	for t.bytes > t.bytesMax {
		t.dropOldest()
	}
	t.pack()
}

func (t *tail) dropThrough(index uint64) {
	for t.head < len(t.entries) && t.entries[t.head].Index <= index {
		t.dropOldest()
	}
	t.pack()
}

func (t *tail) dropFrom(index uint64) {
	for n := len(t.entries); n > t.head && t.entries[n-1].Index >= index; n-- {
		t.bytes -= int(entryBytes(&t.entries[n-1]))
		t.entries[n-1] = raft.Log{}
		t.entries = t.entries[:n-1]
	}
}

func (t *tail) clear() { t.bytes, t.head, t.entries = 0, 0, nil }

func (t *tail) dropOldest() {
	t.bytes -= int(entryBytes(&t.entries[t.head]))
	t.entries[t.head] = raft.Log{} // Releases its data.
	t.head++
}

// pack moves the live entries to the front once more than half of the slice is
// dropped, which keeps the cost of a move constant per entry.
func (t *tail) pack() {
	if t.head*2 <= len(t.entries) {
		return
	}
	n := copy(t.entries, t.entries[t.head:])
	clear(t.entries[n:])
	t.entries, t.head = t.entries[:n], 0
}

package raftlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// The bytes of format 1 must stay readable forever.
func TestEntry_GoldenBytes(t *testing.T) {
	t.Parallel()
	key := entryKey(3, 258)
	log := raft.Log{Index: 258, Term: 5, Type: raft.LogConfiguration, Data: []byte("data"), Extensions: []byte("x"), AppendedAt: time.Unix(1, 2)}
	value, err := appendEntry(nil, key, &log, 1000)
	if err != nil {
		t.Fatal(err)
	}
	const want = "01050000000000000005" + "00000000000003e8" + "000000003b9aca02" + "0000000464617461" + "0000000178" + "7b795902"
	if got := hex.EncodeToString(value); got != want {
		t.Errorf("value = %s, want %s", got, want)
	}
	if got, want := hex.EncodeToString(key), "000000036c0000000000000102"; got != want {
		t.Errorf("key = %s, want %s", got, want)
	}
	if n := entryBytes(&log); n != uint64(len(key)+len(value)) {
		t.Errorf("entryBytes = %d, want %d", n, len(key)+len(value))
	}
}

func TestKeys_OrderByGroupThenIndex(t *testing.T) {
	t.Parallel()
	var last []byte
	for _, group := range []uint32{1, 2, 255, 256, 1 << 31} {
		for _, index := range []uint64{0, 1, 255, 256, 1 << 40, 1<<64 - 1} {
			key := entryKey(group, index)
			if bytes.Compare(last, key) >= 0 {
				t.Fatalf("key of group %d index %d does not follow the one before", group, index)
			}
			if lower, upper := entrySpan(group); bytes.Compare(key, lower) < 0 || bytes.Compare(key, upper) >= 0 {
				t.Fatalf("key of group %d index %d lies outside the span", group, index)
			}
			last = key
		}
		if _, upper := entrySpan(group); bytes.Compare(stableKey(group, nil), upper) < 0 {
			t.Fatalf("stable values of group %d lie in the span of entries", group)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	key := entryKey(1, 1)
	for _, log := range []raft.Log{
		{},
		{Term: 9, Type: raft.LogNoop, Data: []byte("data"), Extensions: []byte("ext"), AppendedAt: time.Unix(5, 6)},
	} {
		value, err := appendEntry(nil, key, &log, 77)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
		f.Add(value[:len(value)-checksumBytes])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, _, err := decodeEntry(key, body); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("error %v is not ErrCorrupt", err)
		}
		// Behind a right checksum the parser sees every shape of body.
		value := append(bytes.Clone(body), 0, 0, 0, 0)
		sum := checksum(key, body)
		for i := range checksumBytes {
			value[len(body)+i] = byte(sum >> (24 - 8*i))
		}
		log, cumulative, err := decodeEntry(key, value)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error %v is not ErrCorrupt", err)
			}
			return
		}
		again, err := appendEntry(nil, key, &log, cumulative)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, value) {
			t.Fatalf("decoded %x, encoded %x", value, again)
		}
	})
}

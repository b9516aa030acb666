package shard

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// A schedule that makes good what it missed goes on at a time that the timer has read
// past: it must not wait for the next leader.
func TestDueTimer_SeesARowBeforeThoseItHasRead(t *testing.T) {
	t.Parallel()
	db, err := statedb.Open("state", statedb.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	store := db.Group(testShardID)
	index := uint64(0)
	put := func(at int64) {
		t.Helper()
		index++
		txn := store.NewTxn()
		txn.Set(keys.In(store.Prefix()).Due(keys.Due{At: at, Kind: keys.DueSchedule}), nil)
		if _, err := txn.EndEntry(0, index); err != nil {
			t.Fatal(err)
		}
		if err := txn.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	var d dueTimer
	d.reset()
	ripe := func(now int64, limit int, want ...int64) {
		t.Helper()
		rows, err := d.ripe(store, now, limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, r := range rows {
			got = append(got, r.At)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("at %d there are %v, want %v", now, got, want)
		}
	}
	put(1000)
	ripe(2000, 10, 1000)
	put(500) // As the entry did that answered the first.
	d.added(500)
	ripe(2001, 10, 500, 1000)
	d.added(2001)
	ripe(2001, 2, 500, 1000) // As many as fit: what follows is read from the last.
	put(700)
	d.added(700)
	ripe(2002, 10, 700, 1000)
}

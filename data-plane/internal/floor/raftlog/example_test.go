package raftlog_test

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
)

// A node opens one Store. Each raft group has a Group of it, which is both of raft's stores:
// raft calls StoreLogs, GetLog, DeleteRange and Set. A failed write has no error that a
// caller could handle: Options.OnFatal ends the process.
func Example() {
	store, err := raftlog.Open("log", raftlog.Options{FS: vfs.NewMem()}) // Or ErrCorrupt, ErrRelaxedCrash, ErrInUse.
	check(err)
	check(store.SetNodeValue("node", []byte("n1"))) // What the node keeps beside its groups.

	log := store.Group(2)
	check(log.StoreLogs([]*raft.Log{{Index: 1, Term: 1, Data: []byte("hello")}})) // Synced when it returns.

	var entry raft.Log
	check(log.GetLog(1, &entry))
	fmt.Println(string(entry.Data))

	check(store.Close()) // After the groups.
	// Output: hello
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

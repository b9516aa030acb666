package state

import (
	"flag"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// folder is what the fault runs of services ask about at their end (rig.AuditState).
var folder = flag.String("state.folder", "", "the state `FOLDER` of a node that was stopped, for TestFolder to audit instead of its own")

// shardsMost bounds the groups of a cell that are looked for; the first group is the cell's own.
const shardsMost = 64

// INV-9, of the state as a stopped node left it.
func TestFolder_EveryRowBelongsToTheOthers(t *testing.T) {
	dir := *folder
	if dir == "" {
		dir = t.TempDir()
		leaveFolder(t, dir)
	}
	db, err := statedb.Open(dir, statedb.Options{CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	jobs, rows := 0, 0
	for id := uint32(2); id < 2+shardsMost; id++ {
		r := &replica{db: db, store: db.Group(id)}
		from, to := keys.In(r.store.Prefix()).All()
		if err := r.store.Scan(from, to, func(_, _ []byte) (bool, error) { rows++; return true, nil }); err != nil {
			t.Fatal(err)
		}
		jobs += len(r.audit(t))
	}
	if t.Logf("%d rows of %d jobs", rows, jobs); jobs == 0 {
		t.Error("there are no jobs")
	}
}

// leaveFolder leaves what a node does that ended with one job.
func leaveFolder(t *testing.T, dir string) {
	db, err := statedb.Open(dir, statedb.Options{CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	store := db.Group(3)
	r := &replica{db: db, store: store, machine: New(store, nil), now: epoch, lease: epoch, version: cellversion.Highest}
	c := &command.Enqueue{NS: auditNS(1), Queue: "q", ID: [16]byte{1}}
	if res := r.do(t, epoch, c); res.Refusal != Accepted {
		t.Fatalf("the job was refused: %d", res.Refusal)
	}
	r.close(t)
}

package dispatch

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testNS = job.Namespace{3}

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// rig is a table over a real store and the real state machine, without raft: it
// does between two entries what the proposal loop does.
type rig struct {
	*Table
	db      *statedb.DB
	store   *statedb.Group
	machine *state.Machine
	index   uint64
	digest  uint64
	now     int64
	jobs    uint64
}

func newRig(t tb) *rig {
	t.Helper()
	db, err := statedb.Open("state", statedb.Options{FS: vfs.NewMem(), CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	store := db.Group(2)
	return &rig{Table: New(store), db: db, store: store, machine: state.New(store, nil), now: 1_700_000_000_000_000_000}
}

// at is some time from now.
func (r *rig) at(d time.Duration) stateread.Times {
	return stateread.Times{Lease: r.now + int64(d), Calendar: r.now + int64(d)}
}

func (r *rig) close(t tb) {
	if err := r.db.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// newLeader forgets the memory.
func (r *rig) newLeader() { r.Table = New(r.store) }

// apply commits one entry and lets the table learn from it.
func (r *rig) apply(t tb, cmds ...command.Command) []state.Result {
	t.Helper()
	r.index++
	r.now += int64(time.Millisecond)
	txn := r.store.NewTxn()
	res, err := r.machine.Apply(txn, group.Entry{Index: r.index, Now: time.Unix(0, r.now), Lease: r.now, Payload: command.Encode(cmds)})
	if err != nil {
		t.Fatalf("entry %d: %v", r.index, err)
	}
	if r.digest, err = txn.EndEntry(r.digest, r.index); err != nil {
		t.Fatalf("entry %d: %v", r.index, err)
	}
	if err := txn.Commit(); err != nil {
		t.Fatalf("commit: %v", err)
	}
	r.machine.Committed(r.index)
	a := res.(*state.Applied)
	if err := r.Absorb(a); err != nil {
		t.Fatalf("absorb entry %d: %v", r.index, err)
	}
	return a.Results
}

func (r *rig) newJob(queue string, p job.Priority) *command.Enqueue {
	r.jobs++
	c := &command.Enqueue{NS: testNS, Queue: queue, Payload: []byte(`{}`), Priority: p, Retry: command.DefaultRetry()}
	binary.BigEndian.PutUint64(c.ID[:], r.jobs)
	return c
}

// enqueue adds n jobs in one entry.
func (r *rig) enqueue(t tb, queue string, p job.Priority, n int) []job.ID {
	t.Helper()
	ids, cmds := make([]job.ID, n), make([]command.Command, n)
	for i := range n {
		c := r.newJob(queue, p)
		ids[i], cmds[i] = c.ID, c
	}
	r.apply(t, cmds...)
	return ids
}

// choose takes n jobs of a queue and makes the Fetch for them.
func (r *rig) choose(t tb, queue string, n int) *command.Fetch {
	t.Helper()
	r.Begin(r.at(time.Millisecond)) // As apply will stamp the entry.
	taken, err := r.Take(testNS, []string{queue}, n)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return &command.Fetch{NS: testNS, Jobs: taken.Jobs, Floors: taken.Floors, Worker: "w", Lease: time.Hour}
}

// fetch takes n jobs and grants them in an entry of their own.
func (r *rig) fetch(t tb, queue string, n int) []state.Grant {
	t.Helper()
	c := r.choose(t, queue, n)
	if len(c.Jobs) == 0 {
		return nil
	}
	return r.apply(t, c)[0].Grants
}

// drain fetches until nothing is left.
func (r *rig) drain(t tb, queue string, n int) []job.ID {
	t.Helper()
	var all []job.ID
	for {
		grants := r.fetch(t, queue, n)
		if len(grants) == 0 {
			return all
		}
		all = append(all, idsOf(grants)...)
	}
}

func idsOf(grants []state.Grant) []job.ID {
	var ids []job.ID
	for _, g := range grants {
		ids = append(ids, g.ID)
	}
	return ids
}

func same(t tb, what string, got, want []job.ID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func (r *rig) floor(t tb, queue string, p job.Priority) (f [2]uint64) {
	t.Helper()
	c, err := stateread.ReadCounts(r.store, testNS, queue)
	if err != nil {
		t.Fatalf("counts: %v", err)
	}
	return [2]uint64{c.Floor[p].Index, uint64(c.Floor[p].Ordinal)}
}

func (r *rig) head(t tb, id job.ID) records.Head {
	t.Helper()
	h, err := stateread.ReadHead(r.store, testNS, id)
	if err != nil {
		t.Fatalf("head of %s: %v", id, err)
	}
	return h
}

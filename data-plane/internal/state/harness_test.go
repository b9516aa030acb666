package state

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// epoch is when the logs of these tests begin.
const epoch = int64(1_700_000_000_000_000_000)

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// replica applies entries as package group does, without raft.
type replica struct {
	db      *statedb.DB
	store   *statedb.Group
	machine *Machine
	index   uint64
	digest  uint64
	now     int64
}

// logEntry is what a log holds: commands and the proposer's time.
type logEntry struct {
	now  int64
	cmds []command.Command
}

func newReplica(t tb) *replica {
	t.Helper()
	db, err := statedb.Open("state", statedb.Options{FS: vfs.NewMem(), CacheBytes: 1 << 20, MemTableBytes: 256 << 10})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	store := db.Group(2)
	return &replica{db: db, store: store, machine: New(store, nil), now: epoch}
}

func (r *replica) close(t tb) {
	if err := r.db.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// apply runs entries within one transaction, the way one ApplyBatch does.
func (r *replica) apply(t tb, entries ...logEntry) []*Applied {
	t.Helper()
	txn := r.store.NewTxn()
	out := make([]*Applied, len(entries))
	for i, e := range entries {
		r.index++
		r.now = max(r.now+1, e.now)
		res, err := r.machine.Apply(txn, group.Entry{Index: r.index, Now: time.Unix(0, r.now), Payload: command.Encode(e.cmds)})
		if err != nil {
			t.Fatalf("entry %d: %v", r.index, err)
		}
		out[i] = res.(*Applied)
		if r.digest, err = txn.EndEntry(r.digest, r.index); err != nil {
			t.Fatalf("entry %d: %v", r.index, err)
		}
	}
	if err := txn.Commit(); err != nil {
		t.Fatalf("commit: %v", err)
	}
	r.machine.Committed(r.index)
	return out
}

// do runs one command in an entry of its own.
func (r *replica) do(t tb, now int64, c command.Command) Result {
	t.Helper()
	return r.apply(t, logEntry{now, []command.Command{c}})[0].Results[0]
}

// dump is every key and value of the group.
func (r *replica) dump(t tb) []byte {
	var b bytes.Buffer
	from, to := keys.In(r.store.Prefix()).All()
	err := r.store.Scan(from, to, func(k, v []byte) (bool, error) {
		fmt.Fprintf(&b, "%x=%x\n", k, v)
		return true, nil
	})
	if err != nil {
		t.Fatalf("dump: %v", err)
	}
	return b.Bytes()
}

// audit checks INV-9: every index row has its job and every job its index rows;
// counters equal the sets; locks have their due rows and owners. It also checks
// INV-13 as far as the store shows it: the feed's entries are in order.
func (r *replica) audit(t tb) map[job.ID]Head {
	t.Helper()
	a := &auditor{t: t, space: keys.In(r.store.Prefix()), heads: map[job.ID]Head{}, ready: map[job.ID][]byte{}, due: map[keys.Due][]byte{}, locks: map[string]lock{}}
	from, to := a.space.All()
	if err := r.store.Scan(from, to, a.row); err != nil {
		t.Fatalf("audit: %v", err)
	}
	a.jobs()
	a.records()
	a.queues(r.store)
	a.lockRows()
	return a.heads
}

type auditor struct {
	t     tb
	space keys.Space
	heads map[job.ID]Head
	ns    map[job.ID]job.Namespace
	ready map[job.ID][]byte
	due   map[keys.Due][]byte
	locks map[string]lock
	names map[queueKey]bool
	parts []part
}

func (a *auditor) row(k, v []byte) (bool, error) {
	k, v = bytes.Clone(k), bytes.Clone(v)
	switch k[4] {
	case 0x20:
		d, err := a.space.ParseDue(k)
		a.due[d] = v
		return true, err
	case 0x30:
		if index, err := a.space.FeedIndex(k); err != nil || index == 0 {
			return true, err
		}
		_, events, err := feed.Decode(v)
		if err == nil && len(events) == 0 {
			err = errors.New("a feed entry without events")
		}
		return true, err
	case 0x40:
		return true, a.namespaceRow(job.Namespace(k[5:21]), k[21], k, v)
	default:
		return false, fmt.Errorf("key %x is of no family", k)
	}
}

func (a *auditor) namespaceRow(ns job.Namespace, family byte, k, v []byte) error {
	switch family {
	case keys.Head:
		h, err := decodeHead(v)
		id := job.ID(k[22:38])
		if a.ns == nil {
			a.ns = map[job.ID]job.Namespace{}
		}
		a.heads[id], a.ns[id] = h, ns
		return err
	case 'r':
		a.ready[job.ID(v)] = k
	case keys.Unique, keys.Idempotency:
		l, err := decodeLock(v)
		a.locks[string(k)] = l
		return err
	case keys.QueueCounts:
		name, err := a.space.QueueName(k)
		if a.names == nil {
			a.names = map[queueKey]bool{}
		}
		a.names[queueKey{ns, name}] = true
		return err
	case keys.Body, keys.Result, keys.Checkpoint, keys.Progress, 'e':
		a.parts = append(a.parts, part{family, job.ID(k[22:38])})
	}
	return nil
}

// part is a record that belongs to a job.
type part struct {
	family byte
	id     job.ID
}

// records checks that every record belongs to a job that knows of it.
func (a *auditor) records() {
	flags := map[byte]byte{keys.Result: flagResult, keys.Checkpoint: flagCheckpoint, keys.Progress: flagProgress, 'e': flagErrors}
	bodies := 0
	for _, p := range a.parts {
		h, ok := a.heads[p.id]
		if !ok || p.family != keys.Body && !h.has(flags[p.family]) {
			a.t.Fatalf("record %q of job %s, which does not know of it", p.family, p.id)
		}
		if p.family == keys.Body {
			bodies++
		}
	}
	if bodies != len(a.heads) {
		a.t.Fatalf("%d bodies for %d heads", bodies, len(a.heads))
	}
}

func (a *auditor) jobs() {
	for id, h := range a.heads {
		assertHead(id, &h)
		if h.State == job.Pending {
			want := a.space.Ready(a.ns[id], h.Queue, h.Priority, h.Pos)
			if !bytes.Equal(a.ready[id], want) {
				a.t.Fatalf("pending job %s stands at %x, its row is %x", id, want, a.ready[id])
			}
			delete(a.ready, id)
		}
		if h.Due != 0 {
			d := keys.Due{At: h.Due, Kind: dueKind(h.State), NS: a.ns[id], ID: id}
			if _, ok := a.due[d]; !ok {
				a.t.Fatalf("job %s is %s until %d without a due row", id, h.State, h.Due)
			}
			delete(a.due, d)
		}
	}
	if len(a.ready) > 0 {
		a.t.Fatalf("ready rows of jobs that are not pending: %x", a.ready)
	}
}

func (a *auditor) queues(store *statedb.Group) {
	sets := map[queueKey]*[stateSlots]int64{}
	for id, h := range a.heads {
		k := queueKey{a.ns[id], h.Queue}
		if sets[k] == nil {
			sets[k] = new([stateSlots]int64)
		}
		sets[k][h.State]++
		c, err := ReadCounts(store, k.ns, k.name)
		if err != nil {
			a.t.Fatalf("counts of %v: %v", k, err)
		}
		if h.State == job.Pending && h.Pos.Less(c.Floor[h.Priority]) {
			a.t.Fatalf("job %s is ready at %v, below the floor %v", id, h.Pos, c.Floor[h.Priority])
		}
	}
	for k := range a.names {
		c, err := ReadCounts(store, k.ns, k.name)
		if err != nil {
			a.t.Fatalf("counts of %v: %v", k, err)
		}
		want := sets[k]
		if want == nil {
			want = new([stateSlots]int64)
		}
		if c.Jobs != *want {
			a.t.Fatalf("queue %v counts %v, its sets are %v", k, c.Jobs, *want)
		}
	}
}

func (a *auditor) lockRows() {
	for d, v := range a.due {
		if d.Kind != keys.DueUnique && d.Kind != keys.DueIdempotency {
			a.t.Fatalf("due row %+v belongs to no job", d)
		}
		queue, key, err := decodeLockName(v)
		if err != nil {
			a.t.Fatalf("due row %+v: %v", d, err)
		}
		family := byte(keys.Unique)
		if d.Kind == keys.DueIdempotency {
			family = keys.Idempotency
		}
		k := string(a.space.Lock(d.NS, family, queue, key))
		if l, ok := a.locks[k]; !ok || l.Expires != d.At || l.By != d.ID {
			a.t.Fatalf("due row %+v has lock %+v", d, l)
		}
		delete(a.locks, k)
	}
	if len(a.locks) > 0 {
		a.t.Fatalf("locks that never end: %+v", a.locks)
	}
}

package state

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
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
	lease   int64 // As now: of the last entry.
	lag     int64 // How far lease time is behind calendar time: the machine slept.
	version cellversion.Version
}

// logEntry is what a log holds: commands and the proposer's time.
type logEntry struct {
	now   int64
	lease int64 // 0: as far behind now as the replica's lease time is.
	cmds  []command.Command
}

// bothDue are the rows that wait for either clock, in the order of their times.
func bothDue(g *statedb.Group, from, to int64, limit int) ([]keys.Due, error) {
	rows, err := stateread.ReadDue(g, true, from, to, limit)
	if err != nil {
		return nil, err
	}
	dated, err := stateread.ReadDue(g, false, from, to, limit)
	rows = append(rows, dated...)
	slices.SortStableFunc(rows, func(a, b keys.Due) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Kind, b.Kind)) })
	return rows[:min(limit, len(rows))], err
}

// ripe returns the rows that are due at a calendar time and the matching lease time.
func (r *replica) ripe(t tb, now int64) []keys.Due {
	t.Helper()
	rows, err := stateread.ReadDue(r.store, true, 0, now-r.lag, 1000)
	if err != nil {
		t.Fatalf("read due: %v", err)
	}
	dated, err := stateread.ReadDue(r.store, false, 0, now, 1000)
	if err != nil {
		t.Fatalf("read due: %v", err)
	}
	return append(rows, dated...)
}

func newReplica(t tb) *replica {
	t.Helper()
	db, err := statedb.Open("state", statedb.Options{FS: vfs.NewMem(), CacheBytes: 1 << 20, MemTableBytes: 256 << 10})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	store := db.Group(2)
	return &replica{db: db, store: store, machine: New(store, nil), now: epoch, lease: epoch, version: cellversion.Highest}
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
	out := r.run(t, txn, entries)
	if err := txn.Commit(); err != nil {
		t.Fatalf("commit: %v", err)
	}
	r.machine.Committed(r.index)
	return out
}

// drop runs entries that are not committed in the end.
func (r *replica) drop(t tb, entries ...logEntry) {
	t.Helper()
	before := *r
	txn := r.store.NewTxn()
	r.run(t, txn, entries)
	if err := errors.Join(txn.Discard(), r.machine.Reset()); err != nil {
		t.Fatalf("drop: %v", err)
	}
	*r = before
}

func (r *replica) run(t tb, txn *statedb.Txn, entries []logEntry) []*Applied {
	t.Helper()
	out := make([]*Applied, len(entries))
	for i, e := range entries {
		r.index++
		r.now = max(r.now+1, e.now)
		r.lease = max(r.lease+1, cmp.Or(e.lease, e.now-r.lag))
		res, err := r.machine.Apply(txn, group.Entry{Index: r.index, Now: time.Unix(0, r.now), Lease: r.lease, Version: r.version, Payload: command.Encode(e.cmds)})
		if err != nil {
			t.Fatalf("entry %d: %v", r.index, err)
		}
		out[i] = res.(*Applied)
		if r.digest, err = txn.EndEntry(r.digest, r.index); err != nil {
			t.Fatalf("entry %d: %v", r.index, err)
		}
	}
	return out
}

// do runs one command in an entry of its own.
func (r *replica) do(t tb, now int64, c command.Command) Result {
	t.Helper()
	return r.apply(t, logEntry{now: now, cmds: []command.Command{c}})[0].Results[0]
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
// counters equal the sets; locks have their due rows and owners. What a deleted queue
// left is nobody's, as long as its sweep is still to come, and is not returned. It also checks
// INV-13: the feed's entries are in order, every namespace's events are numbered
// without gaps, and its chain leads from the last to the first that was not trimmed.
func (r *replica) audit(t tb) map[job.ID]records.Head {
	t.Helper()
	return r.look(t).heads
}

// look is audit and returns all that it found.
func (r *replica) look(t tb) *auditor {
	t.Helper()
	a := &auditor{t: t, space: keys.In(r.store.Prefix()), heads: map[job.ID]records.Head{}, ready: map[job.ID][]byte{}, due: map[keys.Due][]byte{}, locks: map[string]records.Lock{}, events: map[job.Namespace][]uint64{},
		gens: map[queueKey]records.Generation{}, swept: map[queueKey]bool{}, left: map[job.ID]records.Head{}, ended: map[job.Namespace]bool{}, groups: newGroupRows(),
		schedules: map[keys.Due]records.Schedule{}, schedNames: map[string]job.ScheduleID{}, schedTally: map[job.Namespace]uint64{}}
	from, to := a.space.All()
	if err := r.store.Scan(from, to, a.row); err != nil {
		t.Fatalf("audit: %v", err)
	}
	a.leftovers()
	a.jobs()
	a.schedulesOf()
	a.records()
	a.queues(r.store)
	a.groupTies()
	a.meters.audit(a)
	a.acts.audit(a)
	a.lockRows()
	a.numbers(r.store)
	a.spent.audit(t)
	return a
}

// numbers checks those of the events.
func (a *auditor) numbers(store *statedb.Group) {
	for ns, seqs := range a.events {
		mark, err := feed.MarkOf(store, ns)
		if err != nil || mark.Seq != seqs[len(seqs)-1] {
			a.t.Fatalf("%s ends at event %d, mark %+v, %v", ns, seqs[len(seqs)-1], mark, err)
		}
		for i := range seqs {
			if seqs[i] != seqs[0]+uint64(i) {
				a.t.Fatalf("events of %s are %v", ns, seqs)
			}
		}
		if before := seqs[0] - 1; before > 0 {
			if lost, err := feed.Walk(store, ns, before-1, func(*feed.Row) bool { return false }); err != nil || !lost {
				a.t.Fatalf("events of %s from %d on are lost %v, %v", ns, before, lost, err)
			}
		}
	}
}

type auditor struct {
	acts   actRows
	meters meterRows
	t      tb
	space  keys.Space
	heads  map[job.ID]records.Head
	ns     map[job.ID]job.Namespace
	ready  map[job.ID][]byte
	due    map[keys.Due][]byte
	locks  map[string]records.Lock
	names  map[queueKey]bool
	parts  []part
	// events are the numbers of each namespace's events, in the order of the feed.
	events map[job.Namespace][]uint64
	// gens is the generation of each queue that has one; swept are those to be swept.
	gens  map[queueKey]records.Generation
	swept map[queueKey]bool
	left  map[job.ID]records.Head // Jobs of deleted queues.
	ended map[job.Namespace]bool
	spent spending
	// groups are the records of batches, chains and dependencies.
	groups groupRows

	schedTally map[job.Namespace]uint64
	schedules  map[keys.Due]records.Schedule // By namespace and id.
	schedNames map[string]job.ScheduleID
}

func (a *auditor) row(k, v []byte) (bool, error) {
	k, v = bytes.Clone(k), bytes.Clone(v)
	switch k[4] {
	case 0x00: // How far the replica is, which package group keeps.
		return true, nil
	case 0x20, 0x21:
		d, err := a.space.ParseDue(k)
		a.due[d] = v
		return true, err
	case 0x38:
		ns, queue, err := a.space.ParseSweep(k)
		if err != nil {
			return true, err
		}
		m, err := records.DecodeSweepMark(v)
		a.swept[queueKey{ns, queue}] = true
		a.gens[queueKey{ns, queue}] = records.Generation{Own: m.Gen}
		return true, err
	case 0x3a, 0x3b:
		return true, a.meters.row(a.space, k, v)
	case 0x3c, 0x3d:
		return true, a.acts.row(a.space, k, v)
	case 0x39:
		ns, err := a.space.EndedOf(k)
		a.ended[ns] = true
		if err == nil {
			_, err = records.DecodeEndedMark(v)
		}
		return true, err
	case 0x40:
		return true, a.namespaceRow(job.Namespace(k[5:21]), k[21], k, v)
	default:
		return false, fmt.Errorf("key %x is of no family", k)
	}
}

func (a *auditor) namespaceRow(ns job.Namespace, family byte, k, v []byte) error {
	if err := a.groups.row(ns, family, k, v); err != nil {
		return err
	}
	a.meters.part(ns, family, k, v)
	switch family {
	case 'v':
		first, err := a.space.EventNumber(k)
		if err != nil {
			return err
		}
		row, err := feed.Decode(ns, first, v)
		if err == nil && len(row.Events) == 0 {
			err = errors.New("a row without events")
		}
		for _, e := range row.Events {
			a.events[ns] = append(a.events[ns], e.Seq)
		}
		return err
	case 'A', 'B', 'O':
		return a.acts.namespaceRow(ns, family, k, v)
	case keys.Head:
		h, err := records.DecodeHead(v)
		id := job.ID(k[22:38])
		if a.ns == nil {
			a.ns = map[job.ID]job.Namespace{}
		}
		a.heads[id], a.ns[id] = h, ns
		return err
	case 'r':
		a.ready[job.ID(v)] = k
	case 'k':
		s, err := records.DecodeSchedule(v)
		a.schedules[keys.Due{NS: ns, ID: job.ID(k[22:38])}] = s
		return err
	case 'X':
		n, err := records.DecodeTally(v)
		a.schedTally[ns] = n
		return err
	case 'x':
		id, err := records.DecodeScheduleID(v)
		a.schedNames[string(k)] = id
		return err
	case keys.Unique, keys.Idempotency:
		l, err := records.DecodeLock(v)
		a.locks[string(k)] = l
		return err
	case keys.QueueConfig:
		name, err := a.space.QueueName(k)
		if err != nil {
			return err
		}
		c, err := records.DecodeQueueConfig(v)
		if k := (queueKey{ns, name}); a.swept[k] && a.gens[k].Own != c.Gen {
			a.t.Fatalf("queue %v is of generation %d, what is swept comes before %d", k, c.Gen, a.gens[k].Own)
		}
		a.gens[queueKey{ns, name}] = c.Generation()
		return err
	case keys.QueueCounts:
		name, err := a.space.QueueName(k)
		if a.names == nil {
			a.names = map[queueKey]bool{}
		}
		a.names[queueKey{ns, name}] = true
		return err
	case 'y', 'f':
		return a.spent.row(a.space, ns, family, k, v)
	case keys.Body, keys.Result, keys.Checkpoint, keys.Progress, keys.Hold, keys.JobUsage, keys.Waits, 'e', 't':
		a.parts = append(a.parts, part{family, job.ID(k[22:38])})
	}
	return nil
}

// part is a record that belongs to a job.
type part struct {
	family byte
	id     job.ID
}

// leftovers puts aside the jobs of deleted queues, and what deleted namespaces left among
// the rows of the group.
func (a *auditor) leftovers() {
	maps.DeleteFunc(a.due, func(d keys.Due, _ []byte) bool { return a.ended[d.NS] && d.Kind != keys.DueAudit })
	maps.DeleteFunc(a.events, func(ns job.Namespace, _ []uint64) bool { return a.ended[ns] })
	for id, h := range a.heads {
		k := queueKey{a.ns[id], h.Queue}
		if a.gens[k].Has(h.Gen, h.State.Leased()) {
			continue
		}
		if !a.swept[k] {
			a.t.Fatalf("job %s is of generation %d, its queue of %+v, and nobody sweeps", id, h.Gen, a.gens[k])
		}
		a.left[id] = h
		delete(a.heads, id)
		if h.Due != 0 { // Its row may have fired: nobody missed it.
			delete(a.due, keys.Due{At: h.Due, Kind: dueKind(h.State), NS: k.ns, ID: id})
		}
		delete(a.due, keys.Due{At: h.ExpireAt, Kind: keys.DueExpire, NS: k.ns, ID: id})
	}
}

// records checks that every record belongs to a job that knows of it.
func (a *auditor) records() {
	flags := map[byte]uint32{
		keys.Result: records.FlagResult, keys.Checkpoint: records.FlagCheckpoint, keys.Progress: records.FlagProgress, keys.Hold: records.FlagHold,
		keys.JobUsage: records.FlagUsage, keys.Waits: records.FlagBlocked, 'e': records.FlagErrors, 't': records.FlagIterations,
	}
	bodies := 0
	for _, p := range a.parts {
		h, ok := a.heads[p.id]
		if !ok {
			h, ok = a.left[p.id]
		}
		if !ok || p.family != keys.Body && !h.Has(flags[p.family]) {
			a.t.Fatalf("record %q of job %s, which does not know of it", p.family, p.id)
		}
		if p.family == keys.Body {
			bodies++
		}
	}
	if bodies != len(a.heads)+len(a.left) {
		a.t.Fatalf("%d bodies for %d heads", bodies, len(a.heads)+len(a.left))
	}
}

func (a *auditor) jobs() {
	for id, h := range a.heads {
		(&subject{Head: h, id: id}).assert()
		if h.State == job.Pending && !h.Blocked() {
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
	a.expiries()
	if len(a.ready) > 0 {
		a.t.Fatalf("ready rows of jobs that are not pending: %x", a.ready)
	}
}

// expiries checks that a job with a time to live has a row for its expiry until it ends;
// while it is cancelling the row may have fired.
func (a *auditor) expiries() {
	for id, h := range a.heads {
		d := keys.Due{At: h.ExpireAt, Kind: keys.DueExpire, NS: a.ns[id], ID: id}
		if _, ok := a.due[d]; ok != (h.ExpireAt != 0 && !h.State.Terminal()) && h.State != job.Cancelling {
			a.t.Fatalf("job %s is %s and expires at %d, it has a row %v", id, h.State, h.ExpireAt, ok)
		}
		delete(a.due, d)
	}
}

func (a *auditor) queues(store *statedb.Group) {
	sets := map[queueKey]*[records.StateSlots]int64{}
	for id, h := range a.heads {
		k := queueKey{a.ns[id], h.Queue}
		if sets[k] == nil {
			sets[k] = new([records.StateSlots]int64)
		}
		sets[k][h.State]++
		c, err := stateread.ReadCounts(store, k.ns, k.name)
		if err != nil {
			a.t.Fatalf("counts of %v: %v", k, err)
		}
		if !h.Pos.IsZero() && h.Pos.Less(c.Floor[h.Priority]) {
			a.t.Fatalf("job %s is ready at %v, below the floor %v", id, h.Pos, c.Floor[h.Priority])
		}
	}
	for k := range a.names {
		c, err := stateread.ReadCounts(store, k.ns, k.name)
		if err != nil {
			a.t.Fatalf("counts of %v: %v", k, err)
		}
		want := sets[k]
		if want == nil {
			want = new([records.StateSlots]int64)
		}
		if c.Jobs != *want {
			a.t.Fatalf("queue %v counts %v, its sets are %v", k, c.Jobs, *want)
		}
		if _, ok := a.gens[k]; !ok {
			a.t.Fatalf("queue %v has counters and does not exist", k)
		}
		a.limits(store, k)
	}
}

func (a *auditor) lockRows() {
	for d, v := range a.due {
		if d.Kind != keys.DueUnique && d.Kind != keys.DueIdempotency {
			a.t.Fatalf("due row %+v belongs to no job", d)
		}
		queue, key, err := records.DecodeLockName(v)
		if err != nil {
			a.t.Fatalf("due row %+v: %v", d, err)
		}
		family := byte(keys.Unique)
		if d.Kind == keys.DueIdempotency {
			family = keys.Idempotency
		}
		k := string(a.space.Lock(d.NS, family, queue, key))
		l, ok := a.locks[k]
		if q := (queueKey{d.NS, queue}); ok && !a.gens[q].Keeps(l.Gen) && !a.swept[q] {
			a.t.Fatalf("lock %q of queue %v is of generation %d, the queue of %+v, and nobody sweeps", key, q, l.Gen, a.gens[q])
		}
		if _, there := a.heads[l.Owner]; ok && family == keys.Unique && !there && !a.swept[queueKey{d.NS, queue}] {
			a.t.Fatalf("lock %q of queue %s is held by job %s, which is not there", key, queue, l.Owner)
		}
		if !ok || l.Expires != d.At || l.By != d.ID {
			a.t.Fatalf("due row %+v has lock %+v", d, l)
		}
		delete(a.locks, k)
	}
	if len(a.locks) > 0 {
		a.t.Fatalf("locks that never end: %+v", a.locks)
	}
}

// limits checks INV-6 and INV-7 as far as the store shows them: jobs leased before a
// limit was lowered may exceed it.
func (a *auditor) limits(store *statedb.Group, k queueKey) {
	qs, c, err := stateread.ReadQueueState(store, k.ns, k.name)
	if err != nil {
		a.t.Fatalf("state of %v: %v", k, err)
	}
	if !qs.Throttle.IsZero() {
		for i, r := range c.Starts {
			if r.N == 0 || r.Last < r.First || i > 0 && r.First < c.Starts[i-1].Last {
				a.t.Fatalf("queue %v counts starts %+v", k, c.Starts)
			}
		}
		if len(c.Starts) > records.StartRunsMax {
			a.t.Fatalf("queue %v counts %d runs of starts", k, len(c.Starts))
		}
	} else if len(c.Starts) > 0 {
		a.t.Fatalf("queue %v counts starts without a throttle", k)
	}
}

// sweepAll removes what deleted queues left, as the leader does.
func (r *replica) sweepAll(t tb) {
	t.Helper()
	for {
		queues, err := stateread.ReadSweeps(r.store)
		if err != nil {
			t.Fatalf("read sweeps: %v", err)
		}
		if len(queues) == 0 {
			return
		}
		for i := range queues {
			r.sweep(t, &queues[i])
		}
	}
}

func (r *replica) sweep(t tb, w *stateread.Sweeping) {
	t.Helper()
	for {
		c, err := w.Next(r.store)
		if err != nil {
			t.Fatalf("sweep: %v", err)
		}
		if c == nil {
			continue
		}
		if res := r.do(t, r.now, c); res.Refusal != Accepted {
			t.Fatalf("sweep %+v answered %d", c, res.Refusal)
		}
		if c.Done != 0 {
			return
		}
	}
}

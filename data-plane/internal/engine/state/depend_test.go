package state

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// A bounded number of jobs may wait for one; the refusal names it. A job that has ended
// keeps nobody waiting, and any number may depend on it.
func TestDepend_ThereIsALimitOfJobsThatWaitForOne(t *testing.T) {
	t.Parallel()
	p := newTrap(t)
	other, on := p.enqueue(1, nil), p.enqueue(2, nil)
	wait := func(n byte) Result { return p.replica.do(t, p.now, p.waiter(job.ID{n}, other, on)) }
	if res := wait(3); res.Refusal != Accepted {
		t.Fatalf("the first answered %+v", res)
	}
	p.dependents(on, DependentsMax-1)
	if res := wait(4); res.Refusal != Accepted {
		t.Fatalf("the last that fits answered %+v", res)
	}
	if res := wait(5); res.Refusal != TooMany || res.ID != on {
		t.Fatalf("one too many answered %+v", res)
	}
	if _, err := stateread.ReadHead(p.store, p.ns, job.ID{5}); err == nil {
		t.Fatal("the job that was refused is there")
	}
	if ids := p.look(t).groups.dependents[other]; len(ids) != 2 {
		t.Errorf("%d jobs wait for the other one: a refusal leaves nothing", len(ids))
	}
	for _, id := range []job.ID{other, on} {
		p.replica.do(t, p.now, &command.Fetch{NS: p.ns, Jobs: []job.ID{id}, Worker: "w", Lease: 1e9})
		p.replica.do(t, p.now, &command.Ack{NS: p.ns, ID: id})
	}
	if res := wait(5); res.Refusal != Accepted || res.State != job.Pending {
		t.Errorf("after both ended: %+v", res)
	}
}

// waiter is a job that waits for others.
func (p *trap) waiter(id job.ID, on ...job.ID) *command.Enqueue {
	return &command.Enqueue{NS: p.ns, ID: id, Queue: "r", Retry: command.DefaultRetry(), DependsOn: on}
}

// numbered is one of many ids.
func numbered(i int) (id job.ID) {
	binary.BigEndian.PutUint32(id[4:], uint32(i)+1)
	return id
}

// dependents writes rows of jobs that wait for one until there are n; most of those jobs
// do not exist, as if they had been deleted.
func (p *trap) dependents(on job.ID, n int) {
	p.t.Helper()
	had := len(p.look(p.t).groups.dependents[on])
	txn := p.store.NewTxn()
	for i := had; i < n; i++ {
		id := numbered(i)
		txn.Set(p.machine.space.Dependent(p.ns, on, uint64(i)), id[:])
	}
	w := records.Waiters{Made: uint64(n)}
	txn.Set(p.machine.space.Job(p.ns, keys.Waiters, on), w.Encode())
	p.index++
	if _, err := txn.EndEntry(0, p.index); err != nil {
		p.t.Fatal(err)
	}
	if err := txn.Commit(); err != nil {
		p.t.Fatal(err)
	}
}

// The last of many jobs that wait for one costs the same as the first: nothing
// is read or written that grows with them (law 8).
func TestDepend_AWaiterCostsTheSameHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	p := newTrap(t)
	on := p.enqueue(1, nil)
	const each = 100
	made := 0
	written := func() uint64 {
		before := p.db.Metrics().WAL.BytesIn
		for range each {
			p.replica.do(t, p.now, p.waiter(numbered(made), on))
			made++
		}
		return p.db.Metrics().WAL.BytesIn - before
	}
	first, last := written(), uint64(0)
	for range 9 {
		last = written()
	}
	if last > first+first/10 {
		t.Errorf("%d jobs that wait wrote %d bytes at first, and %d when %d waited", each, first, last, made)
	}
	for family, bytes := range p.largest(t) {
		if slices.Contains([]byte{keys.Waiters, 'd'}, family) && bytes > 32 {
			t.Errorf("a record of family %q has %d bytes", family, bytes)
		}
	}
}

// largest is the size of the largest record of each family of namespaces.
func (r *replica) largest(t tb) map[byte]int {
	sizes := map[byte]int{}
	from, to := keys.In(r.store.Prefix()).Namespaces(job.Namespace{})
	err := r.store.Scan(from, to, func(k, v []byte) (bool, error) {
		sizes[k[21]] = max(sizes[k[21]], len(v))
		return true, nil
	})
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	return sizes
}

// One call of many jobs that wait for the same many writes a small row for each pair.
func TestDepend_ACallOfManyThatWaitForManyWritesARowForEachPair(t *testing.T) {
	t.Parallel()
	p := newTrap(t)
	const targets, jobs = 50, 100
	var on []job.ID
	for i := range targets {
		on = append(on, p.enqueue(byte(i+1), nil))
	}
	p.do(p.waiter(job.ID{0xfe}, on...))
	p.dependents(on[targets-1], DependentsMax-jobs)
	cmds := []command.Command{&command.Atomic{Count: jobs}}
	for i := range jobs {
		cmds = append(cmds, p.waiter(job.ID{0xff, byte(i)}, on...))
	}
	before := p.db.Metrics().WAL.BytesIn
	for i, res := range p.apply(t, logEntry{now: p.now, cmds: cmds})[0].Results {
		if res.Refusal != Accepted {
			t.Fatalf("command %d: %+v", i, res)
		}
	}
	// A pair is in the row, in the list of the waiter and in its body.
	if each := (p.db.Metrics().WAL.BytesIn - before) / (targets * jobs); each > 256 {
		t.Errorf("each of %d pairs wrote %d bytes", targets*jobs, each)
	}
	if res := p.do(p.waiter(job.ID{0xfd}, on...)); res.Refusal != TooMany || res.ID != on[targets-1] {
		t.Errorf("one more answered %+v", res)
	}
}

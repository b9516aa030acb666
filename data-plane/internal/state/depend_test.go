package state

import (
	"encoding/binary"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// So many jobs may wait for one and no more; the refusal names the one. What has ended
// keeps nobody waiting, and is asked by any number.
func TestDepend_ThereIsALimitOfJobsThatWaitForOne(t *testing.T) {
	t.Parallel()
	p := newTrap(t)
	other, on := p.enqueue(1, nil), p.enqueue(2, nil)
	wait := func(n byte) Result {
		c := &command.Enqueue{NS: p.ns, ID: job.ID{n}, Queue: "r", Retry: command.DefaultRetry(), More: &command.EnqueueMore{DependsOn: []job.ID{other, on}}}
		return p.replica.do(t, p.now, c)
	}
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
	if _, err := ReadHead(p.store, p.ns, job.ID{5}); err == nil {
		t.Fatal("the job that was refused is there")
	}
	if ids, err := readIDList(p.store, p.machine.space, p.ns, keys.Dependents, other); err != nil || len(ids) != 2 {
		t.Errorf("%d jobs wait for the other one, %v: a refusal leaves nothing", len(ids), err)
	}
	for _, id := range []job.ID{other, on} {
		p.replica.do(t, p.now, &command.Fetch{NS: p.ns, Jobs: []job.ID{id}, Worker: "w", Lease: 1e9})
		p.replica.do(t, p.now, &command.Ack{NS: p.ns, ID: id})
	}
	if res := wait(5); res.Refusal != Accepted || res.State != job.Pending {
		t.Errorf("after both ended: %+v", res)
	}
}

// dependents writes a list of jobs that wait for one, most of which are not there, as
// those that were deleted are not.
func (p *trap) dependents(on job.ID, n int) {
	p.t.Helper()
	ids, err := readIDList(p.store, p.machine.space, p.ns, keys.Dependents, on)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := uint32(len(ids)); int(i) < n; i++ {
		var id job.ID
		binary.BigEndian.PutUint32(id[4:], i)
		ids = append(ids, id)
	}
	txn := p.store.NewTxn()
	txn.Set(p.machine.space.Job(p.ns, keys.Dependents, on), encodeIDs(ids))
	p.index++
	if _, err := txn.EndEntry(0, p.index); err != nil {
		p.t.Fatal(err)
	}
	if err := txn.Commit(); err != nil {
		p.t.Fatal(err)
	}
}

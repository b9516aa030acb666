package group

import (
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// gate is a log that stores nothing while somebody else has its token.
type gate struct {
	LogStore
	token chan struct{}
}

func (g gate) StoreLogsAnd(logs []*raft.Log, key []byte, value uint64) error {
	g.token <- struct{}{}
	defer func() { <-g.token }()
	return g.LogStore.StoreLogsAnd(logs, key, value)
}

func (m *tally) ran(index uint64) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs[index]
}

// While the log stores an entry it is applied, once, and nobody sees anything of it.
func TestAhead_AnEntryIsAppliedWhileItIsStoredAndNobodySeesIt(t *testing.T) {
	t.Parallel()
	token := make(chan struct{}, 1)
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}, wrapLog: func(l LogStore) LogStore { return gate{l, token} }})
	defer r.stop(t)
	leaderOf(t, r)
	index := r.put(t, 1) + 1
	before, digest := r.fsm.status()
	contents := r.contents(t)

	token <- struct{}{}
	goOn := sync.OnceFunc(func() { <-token })
	defer goOn()
	p := r.Propose(r.Now(), []byte("being stored"))
	eventually.True(t, patience, "the entry is applied", func() bool { return r.machine.ran(index) == 1 })
	r.fsm.turn <- struct{}{} // It is through.
	<-r.fsm.turn
	if at, d := r.fsm.status(); at != before || d != digest {
		t.Errorf("the state is at %d with digest %x before the entry is stored, was at %d with %x", at, d, before, digest)
	}
	if got := r.contents(t); got != contents {
		t.Errorf("the state has %q before the entry is stored", got)
	}
	select {
	case <-p.told.outcome:
		t.Error("the proposer is told before the entry is stored")
	default:
	}
	goOn()
	o, err := p.Wait()
	if err != nil || o.Index != index || o.Result != "being stored" {
		t.Errorf("the outcome is %+v, %v", o, err)
	}
	if n := r.machine.ran(index); n != 1 {
		t.Errorf("the entry was applied %d times", n)
	}
	if stored, err := r.fsm.store.Get(r.machine.key(index)); err != nil || string(stored) != "being stored" {
		t.Errorf("the state has %q, %v", stored, err)
	}
}

// What was applied ahead and is not what comes next leaves nothing behind.
func TestAhead_AnotherEntryInItsPlace(t *testing.T) {
	t.Parallel()
	r, plain := alone(t, 3), alone(t, 3)
	defer r.stop(t)
	defer plain.stop(t)
	resets := r.machine.resets.Load()
	r.fsm.applyAhead(&raft.Log{
		Index: r.AppliedIndex() + 1, Type: raft.LogCommand, Data: envelope{version: 1, stamp: r.Now(), payload: []byte("lost")}.encode(),
	})
	if r.fsm.ahead == nil {
		t.Fatal("nothing was applied ahead: the test proves nothing")
	}
	r.put(t, 2)
	plain.put(t, 2)
	if n := r.machine.resets.Load() - resets; n != 1 {
		t.Errorf("the machine was reset %d times", n)
	}
	if got, want := r.contents(t), plain.contents(t); got != want {
		t.Errorf("the state is\n%s\nwant\n%s", got, want)
	}
	at, digest := r.fsm.status()
	if wantAt, want := plain.fsm.status(); at != wantAt || digest != want {
		t.Errorf("the state is at %d with digest %x, want %d, %x", at, digest, wantAt, want)
	}
}

// Only the entry that is next can be applied ahead.
func TestAhead_NotBehindAnEntryThatIsNotAppliedYet(t *testing.T) {
	t.Parallel()
	r := alone(t, 1)
	defer r.stop(t)
	for _, index := range []uint64{r.AppliedIndex(), r.AppliedIndex() + 2} {
		r.fsm.applyAhead(&raft.Log{Index: index, Type: raft.LogCommand, Data: envelope{version: 1, stamp: r.Now(), payload: []byte("not next")}.encode()})
		if r.fsm.ahead != nil {
			t.Errorf("entry %d was applied behind %d", index, r.AppliedIndex())
		}
	}
}

// A leader that nobody hears has an entry stored and applied ahead; the others go on without it.
func TestAhead_TheLeaderLosesTheEntry(t *testing.T) {
	t.Parallel()
	ids := []string{"n1", "n2", "n3"}
	var all []*replica
	for _, id := range ids {
		all = append(all, mustOpen(t, setup{id: id, disks: memDisks(), bootstrap: ids, peers: all}))
	}
	old := leaderOf(t, all...)
	appliedBy(t, old.put(t, 5), all...)
	var others []*replica
	for _, r := range all {
		if r != old {
			others = append(others, r)
			r.wire.Disconnect(raft.ServerAddress(old.id))
			old.wire.Disconnect(raft.ServerAddress(r.id))
		}
	}
	p := old.Propose(old.Now(), []byte("lost"))
	lost := old.AppliedIndex() + 1
	eventually.True(t, patience, "the entry is applied ahead", func() bool { return old.machine.ran(lost) == 1 })
	if _, err := p.Wait(); err == nil {
		t.Error("an entry that nobody else has was confirmed")
	}
	leaderOf(t, others...).put(t, 5)
	for _, r := range others {
		r.wire.Connect(raft.ServerAddress(old.id), old.wire.InmemTransport)
		old.wire.Connect(raft.ServerAddress(r.id), r.wire.InmemTransport)
	}
	appliedBy(t, leaderOf(t, all...).put(t, 5), all...)
	for _, r := range all[1:] {
		if got, want := r.contents(t), all[0].contents(t); got != want {
			t.Errorf("%s has\n%s\nand %s\n%s", r.id, got, all[0].id, want)
		}
		at, digest := r.fsm.status()
		if wantAt, want := all[0].fsm.status(); at != wantAt || digest != want {
			t.Errorf("%s is at %d with digest %x, %s at %d with %x", r.id, at, digest, all[0].id, wantAt, want)
		}
	}
	for _, r := range all {
		r.stop(t)
	}
}

// A replica that stops gives back what it had applied ahead, for its store is closed next.
func TestAhead_IsGivenBackByAReplicaThatStops(t *testing.T) {
	t.Parallel()
	r := alone(t, 1)
	r.fsm.applyAhead(&raft.Log{Index: r.AppliedIndex() + 1, Type: raft.LogCommand, Data: envelope{version: 1, stamp: r.Now(), payload: []byte("x")}.encode()})
	r.stop(t)
	if r.fsm.ahead != nil {
		t.Error("the entry is still there")
	}
}

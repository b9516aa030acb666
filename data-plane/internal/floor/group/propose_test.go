package group

import (
	"fmt"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Entries are applied many at a time; each proposer is told of its own.
func TestPropose_EveryProposerGetsTheOutcomeOfItsEntry(t *testing.T) {
	t.Parallel()
	r := alone(t, 1)
	defer r.stop(t)
	const proposers, each = 20, 20
	var all sync.WaitGroup
	for p := range proposers {
		all.Go(func() {
			for i := range each {
				payload := fmt.Sprintf("entry %d of %d", i, p)
				o, err := r.Propose(r.Now(), []byte(payload)).Wait()
				if err != nil || o.Result != payload {
					t.Errorf("%q had the outcome %v, %v", payload, o, err)
					continue
				}
				if stored, err := r.fsm.store.Get(r.machine.key(o.Index)); err != nil || string(stored) != payload {
					t.Errorf("at %d of %q is %q, %v", o.Index, payload, stored, err)
				}
			}
		})
	}
	all.Wait()
	if n := len(r.fsm.proposed.waiting); n != 0 {
		t.Errorf("%d entries are still waited for", n)
	}
}

// The digest that an entry carries is of the state right before it, so it is left to an entry that is
// alone on its way.
func TestPropose_TheDigestGoesWithAnEntryThatIsAlone(t *testing.T) {
	t.Parallel()
	r := alone(t, 1)
	defer r.stop(t)
	r.fsm.mu.RLock() // Nothing is applied.
	var underWay []*Proposal
	for range checkEvery + 1 {
		underWay = append(underWay, r.Propose(r.Now(), []byte("under way")))
	}
	r.fsm.mu.RUnlock()
	for _, p := range underWay {
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	o, err := r.Propose(r.Now(), []byte("alone")).Wait()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.fsm.marks.at(o.Index); !ok {
		t.Errorf("the entry that was alone, at %d, carried no digest: %v", o.Index, r.fsm.marks.list)
	}
}

// lost is the future of an entry whose leader lost its leadership.
type lost struct{ raft.ApplyFuture }

func (lost) Error() error { return raft.ErrLeadershipLost }

// Who asked whether an entry is committed, and learned that nobody knows, learns the same when waiting for it.
func TestPropose_AnEntryWhoseFateIsUnknownIsSoForEverybodyWhoAsks(t *testing.T) {
	t.Parallel()
	r := alone(t, 1)
	defer r.stop(t)
	entry := new(byte)
	p := &Proposal{group: r.Group, entry: entry, told: r.fsm.proposed.expect(entry), future: lost{}}
	if p.Committed() {
		t.Error("the entry counts as committed")
	}
	eventually.Returns(t, patience, "waiting for the entry", func() {
		if _, err := p.Wait(); fault.CodeOf(err) != fault.UnknownOutcome {
			t.Errorf("the entry ends with %v", err)
		}
	})
}

// A group in which nothing happens is caught up without an entry. Else it waits for what is on its
// way, and once for an entry that nobody waits for any more.
func TestCatchUp_WritesOnlyBehindAnEntryOnItsWay(t *testing.T) {
	t.Parallel()
	r := alone(t, 1)
	defer r.stop(t)
	catchUp := func(what string, entries uint64) {
		t.Helper()
		before := r.raft.LastIndex()
		if err := r.CatchUp(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := r.raft.LastIndex() - before; got != entries {
			t.Errorf("%s: the log grew by %d entries, want %d", what, got, entries)
		}
	}
	catchUp("nothing was proposed", 0)
	if _, err := r.Propose(r.Now(), []byte("applied")).Wait(); err != nil {
		t.Fatal(err)
	}
	catchUp("all is applied", 0)

	entry := new(byte)
	p := &Proposal{group: r.Group, entry: entry, told: r.fsm.proposed.expect(entry), future: lost{}}
	if _, err := p.Wait(); fault.CodeOf(err) != fault.UnknownOutcome {
		t.Fatalf("the entry ends with %v", err)
	}
	catchUp("the fate of an entry is unknown", 1)
	catchUp("the barrier has passed it", 0)

	r.fsm.mu.RLock() // Nothing is applied.
	on := r.Propose(r.Now(), []byte("on its way"))
	done := make(chan error, 1)
	go func() { done <- r.CatchUp() }()
	if !on.Committed() {
		t.Error("the entry is not committed")
	}
	select {
	case err := <-done:
		t.Errorf("caught up, %v, before the entry is applied", err)
	default:
	}
	r.fsm.mu.RUnlock()
	if _, err := on.Wait(); err != nil {
		t.Error(err)
	}
	eventually.Returns(t, patience, "catching up", func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

package group

import (
	"context"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// Who gives a term up, because it doesn't know what became of an entry, gets another one behind a barrier.
func TestLead_AnOwnerThatReturnsEarlyLeadsAgain(t *testing.T) {
	t.Parallel()
	begins, serve, giveUp := make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}, lead: func(ctx context.Context, ready func()) {
		begins <- struct{}{}
		<-serve
		ready()
		select {
		case <-giveUp:
		case <-ctx.Done():
		}
	}})
	defer r.stop(t)
	var before uint64
	for term := range 2 {
		eventually.Returns(t, patience, "a term", func() { <-begins })
		if r.Leading() {
			t.Errorf("term %d: the replica leads before its owner is ready", term)
		}
		if got := r.raft.LastIndex(); term > 0 && got != before+1 {
			t.Errorf("the log ends at %d, want a barrier at %d", got, before+1)
		}
		serve <- struct{}{}
		leaderOf(t, r)
		before = r.put(t, 1)
		if term == 0 {
			giveUp <- struct{}{}
		}
	}
}

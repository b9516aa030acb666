package shard

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
)

// What ended long enough ago goes by itself, while others work; what has not ended stays,
// and so does what a longer time holds for.
func TestRetention_ALeaderDeletesWhatItsNamespaceKeepsNoLonger(t *testing.T) {
	t.Parallel()
	cell := newDesired()
	cell.keeps = retention.Of(nil, &cellv1.Retention{CompletedNs: int64(50 * time.Millisecond)})
	r := startWith(t, memDisks(), t.TempDir(), raftlog.Options{}, Options{Namespaces: cell, RetentionEvery: time.Millisecond})
	defer r.stop(t)
	ns := job.Namespace{7}
	const jobs, acked, dead = 2000, 1800, 100
	for n := range jobs {
		r.must(t, Request{After: []command.Command{&command.Enqueue{NS: ns, ID: madeNow(n), Queue: "q", Retry: command.DefaultRetry()}}})
		if n >= acked+dead {
			continue
		}
		got := r.must(t, Request{Fetch: &Fetch{NS: ns, Queues: []string{"q"}, Count: 1, Worker: "w", Lease: time.Minute}})
		if n < acked {
			r.must(t, Request{Settle: []command.Command{&command.Ack{NS: ns, ID: got.Grants[0].ID}}})
		} else {
			r.must(t, Request{Settle: []command.Command{&command.Fail{NS: ns, ID: got.Grants[0].ID, Terminal: true, Error: "no"}}})
		}
	}
	eventually.True(t, patience, "the completed jobs are gone", func() bool {
		c, err := stateread.ReadCounts(r.Store(), ns, "q")
		if err != nil {
			t.Fatal(err)
		}
		if c.Jobs[job.Dead] != dead || c.Jobs[job.Pending] != jobs-acked-dead {
			t.Fatalf("counts %+v", c)
		}
		return c.Jobs[job.Completed] == 0
	})
}

// madeNow is the id of a job that is made now.
func madeNow(n int) (id job.ID) {
	binary.BigEndian.PutUint64(id[:8], uint64(time.Now().UnixMilli())<<16)
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// keptNoLonger is a shard with completed jobs of some namespaces, which are to go; it takes
// nothing of the first one.
func keptNoLonger(t *testing.T, namespaces ...job.Namespace) *rig {
	t.Helper()
	cell := newDesired()
	r := startWith(t, memDisks(), t.TempDir(), raftlog.Options{}, Options{Namespaces: cell, RetentionEvery: 10 * time.Millisecond})
	for _, ns := range namespaces {
		r.must(t, Request{After: []command.Command{&command.Enqueue{NS: ns, ID: madeNow(0), Queue: "q", Retry: command.DefaultRetry()}}})
		got := r.must(t, Request{Fetch: &Fetch{NS: ns, Queues: []string{"q"}, Count: 1, Worker: "w", Lease: time.Minute}})
		r.must(t, Request{Settle: []command.Command{&command.Ack{NS: ns, ID: got.Grants[0].ID}}})
	}
	r.full(t, namespaces[0])
	cell.keep(retention.Of(nil, &cellv1.Retention{CompletedNs: int64(time.Millisecond)}))
	return r
}

// full has the shard refuse what comes of a namespace, until room.
func (r *rig) full(t *testing.T, ns job.Namespace) {
	t.Helper()
	if !r.term.Load().inbox.requests.Take(ns, inboxMax) {
		t.Fatal("the inbox has no room to be filled")
	}
}

func (r *rig) room(ns job.Namespace) { r.term.Load().inbox.requests.Give(ns, inboxMax) }

func (r *rig) waitRefusal(t *testing.T) {
	t.Helper()
	eventually.True(t, patience, "something is refused", func() bool { return r.Stats().Refused.Load() > 0 })
}

func (r *rig) waitGone(t *testing.T, ns job.Namespace) {
	t.Helper()
	eventually.True(t, patience, "the completed jobs are gone", func() bool {
		c, err := stateread.ReadCounts(r.Store(), ns, "q")
		if err != nil {
			t.Fatal(err)
		}
		return c.Jobs[job.Completed] == 0
	})
}

// What the shard refused to delete goes with the next try: the walk that found it is past it.
func TestRetention_WhatWasRefusedGoesOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	ns := job.Namespace{7}
	r := keptNoLonger(t, ns)
	defer r.stop(t)
	r.waitRefusal(t)
	r.room(ns)
	r.waitGone(t, ns)
}

// A namespace of which the shard takes nothing holds up no other one.
func TestRetention_ARefusedNamespaceDoesNotHoldUpItsNeighbour(t *testing.T) {
	t.Parallel()
	refused, neighbour := job.Namespace{7}, job.Namespace{8}
	r := keptNoLonger(t, refused, neighbour)
	defer r.stop(t)
	r.waitRefusal(t)
	r.waitGone(t, neighbour)
	r.room(refused)
	r.waitGone(t, refused)
}

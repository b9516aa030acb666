package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Power goes at a moment nobody chose: every byte that was not synced is gone, on
// the log's disk and on the state's, at one instant. What was acknowledged before
// it must be there after the restart (law 1, INV-1), and a completed job must not
// be handed out again (INV-3).
//
// The control run takes the log's sync away and must lose something, else the test
// could not see a loss.

// history is what callers were told.
type history struct {
	mu       sync.Mutex
	next     uint64
	enqueued map[job.ID]bool // Acknowledged.
	acked    map[job.ID]bool // Ack was acknowledged.
}

func (h *history) newID() job.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	var id job.ID
	binary.BigEndian.PutUint64(id[:], h.next)
	return id
}

func (h *history) note(set map[job.ID]bool, ids ...job.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		set[id] = true
	}
}

var lossNS = job.Namespace{7}

// produce and consume run until ctx ends or the shard is gone.
func produce(ctx context.Context, r *rig, h *history) {
	for ctx.Err() == nil {
		c := &command.Enqueue{NS: lossNS, ID: h.newID(), Queue: "q", Payload: []byte(`{}`), Priority: job.Normal, Retry: command.DefaultRetry()}
		if _, err := r.Do(ctx, Request{After: []command.Command{c}}); err != nil {
			return
		}
		h.note(h.enqueued, c.ID)
	}
}

func consume(ctx context.Context, r *rig, h *history) {
	for ctx.Err() == nil {
		rep, err := r.Do(ctx, Request{Fetch: &Fetch{NS: lossNS, Queues: []string{"q"}, Count: 3, Worker: "w", Lease: time.Hour, Wait: true}})
		if err != nil {
			return
		}
		for _, g := range rep.Grants {
			ack := &command.Ack{NS: lossNS, ID: g.ID, By: command.Holder{Token: command.Token{Attempt: g.Attempt, Epoch: g.Epoch}}}
			rep, err := r.Do(ctx, Request{Settle: []command.Command{ack}})
			if err != nil {
				return
			}
			if rep.Settled[0].Refusal == state.Accepted {
				h.note(h.acked, g.ID)
			}
		}
	}
}

// losses restarts from the clones and counts what was acknowledged and is gone.
func losses(t *testing.T, d rigDisks, h *history) (lost, undone int) {
	t.Helper()
	r := start(t, d, "", raftlog.Options{})
	defer r.stop(t)
	for id := range h.enqueued {
		head, err := stateread.ReadHead(r.Store(), lossNS, id)
		switch {
		case errors.Is(err, statedb.ErrNotFound):
			lost++
		case err != nil:
			t.Fatal(err)
		case h.acked[id] && head.State != job.Completed:
			undone++
		}
	}
	return lost, undone
}

// cutPower runs load over crashable disks and takes both disks' synced contents at
// one moment, together with what callers had been told before it.
func cutPower(t *testing.T, relaxed bool, after time.Duration) (rigDisks, *history) {
	t.Helper()
	log, db := vfs.NewCrashableMem(), vfs.NewCrashableMem()
	r := start(t, rigDisks{Disks: grouptest.Disks{Log: log, State: db}}, "", raftlog.Options{Relaxed: relaxed})
	defer r.stop(t)
	live := &history{enqueued: map[job.ID]bool{}, acked: map[job.ID]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { produce(ctx, r, live) })
		wg.Go(func() { consume(ctx, r, live) })
	}
	time.Sleep(after) // The moment is arbitrary on purpose.
	live.mu.Lock()    // Nobody is told anything between the copy of the history and the cut.
	told := &history{enqueued: map[job.ID]bool{}, acked: map[job.ID]bool{}}
	for id := range live.enqueued {
		told.enqueued[id] = true
	}
	for id := range live.acked {
		told.acked[id] = true
	}
	d := rigDisks{Disks: grouptest.Disks{Log: log.CrashClone(vfs.CrashCloneCfg{}), State: db.CrashClone(vfs.CrashCloneCfg{})}, acceptLoss: relaxed}
	live.mu.Unlock()
	cancel()
	wg.Wait()
	return d, told
}

func TestPowerLoss_NothingAcknowledgedIsLost(t *testing.T) {
	t.Parallel()
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		d, told := cutPower(t, false, time.Duration(20+rand.IntN(300))*time.Millisecond)
		if len(told.enqueued) == 0 {
			t.Fatal("nothing was acknowledged: the round proves nothing")
		}
		if lost, undone := losses(t, d, told); lost+undone > 0 {
			t.Fatalf("of %d acknowledged jobs %d are lost; of %d acknowledged acks %d are undone", len(told.enqueued), lost, len(told.acked), undone)
		}
	}
}

func TestPowerLoss_WithoutTheLogsSyncTheSameTestSeesLoss(t *testing.T) {
	t.Parallel()
	for range 20 {
		d, told := cutPower(t, true, 150*time.Millisecond)
		if lost, undone := losses(t, d, told); lost+undone > 0 {
			return
		}
	}
	t.Fatal("a log that is never synced lost nothing in 20 power cuts: the test cannot see a loss")
}

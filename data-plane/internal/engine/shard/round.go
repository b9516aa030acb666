package shard

import (
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
)

const (
	// turnedAwayPause is how long the loop leaves a raft alone that takes no entries.
	turnedAwayPause = 5 * time.Millisecond
	// followMax is how many entries may follow each other at once before a round looks at
	// everything again: timers, the digests of replicas.
	followMax = 31
)

// flight is an entry on its way.
type flight struct {
	*batch
	proposal *group.Proposal
	began    time.Time
}

// round builds one entry, commits it and answers, and does the same with those that follow
// it at once. It reports whether the term goes on.
func (t *term) round(first *request) bool {
	b := t.gather(first)
	if err := t.build(b); err != nil {
		t.refuse(b.requests, err)
		return t.stop(err)
	}
	if len(b.cmds) == 0 {
		t.answer(b, nil, 0, 0)
		return true
	}
	f, err := t.propose(b)
	if err != nil {
		return t.stop(err)
	}
	t.busy = t.shard.group.Applying()
	goesOn := true
	for n := 0; f != nil; n++ {
		var next *flight
		if n < followMax {
			next, err = t.follow(f)
		} else {
			t.pace.together()
		}
		goesOn = t.finish(f, next) && goesOn
		if err != nil {
			return t.stop(err)
		}
		f = next
	}
	return goesOn
}

// propose sends an entry on its way. An error is one of the store's; the callers have it.
func (t *term) propose(b *batch) (*flight, error) {
	if err := t.checkEntry(b); err != nil {
		t.refuse(b.requests, err)
		return nil, err
	}
	return &flight{batch: b, began: time.Now(), proposal: t.shard.group.Propose(b.now, command.Encode(b.cmds))}, nil
}

// follow proposes the next entry as soon as f is committed, while f is applied and its callers
// are answered: then the disk doesn't wait for either. Nil: the next entry is built when f is
// done, as it must be unless nothing in it asks the memory, which doesn't know of f yet.
func (t *term) follow(f *flight) (*flight, error) {
	if !t.pace.halves() || !f.proposal.Committed() {
		return nil, nil
	}
	b := &batch{now: t.shard.group.Now(), holdOff: t.shard.holdOff.Load()}
	if t.table.Hot() || t.sleep(b.now) <= 0 {
		return nil, nil
	}
	for now := time.Now(); t.hasRoom(b, now); {
		q := t.inbox.takeIf(t.mayFollow)
		if q == nil {
			break
		}
		t.add(b, q, now)
	}
	if len(b.requests) == 0 {
		return nil, nil
	}
	for _, q := range b.requests {
		if err := t.addRequest(b, q); err != nil {
			t.refuse(b.requests, err)
			return nil, err
		}
	}
	return t.propose(b)
}

// mayFollow: the request may be in an entry that is built while another one is under way. One
// without commands would have nothing to write, so a round answers it.
func (t *term) mayFollow(q *request) bool {
	return len(q.Settle)+len(q.After) > 0 && t.asksNothing(q)
}

// asksNothing: what comes of the request hangs on the state alone, not on the memory of the
// term: it fetches nothing, renews nothing, and nobody waits for its jobs.
func (t *term) asksNothing(q *request) bool {
	if q.Fetch != nil || len(q.Renew) > 0 {
		return false
	}
	for _, c := range q.After {
		if e, ok := c.(*command.Enqueue); ok && t.table.Awaited(e.NS, e.Queue) {
			return false
		}
	}
	return true
}

// finish waits for an entry, absorbs it and answers, while another one may be under way. It
// reports whether the term goes on.
func (t *term) finish(f, next *flight) bool {
	applied, index, err := t.outcome(f)
	if err != nil {
		t.refuse(f.requests, err)
		t.refuseMatched(f.batch, err)
		return t.turnedAway(err)
	}
	if err := t.absorb(f.batch, applied); err != nil {
		t.refuse(f.requests, err)
		return t.stop(err)
	}
	underWay := 0
	if next != nil {
		underWay = len(next.requests)
	}
	t.answer(f.batch, applied, index, underWay)
	return true
}

// outcome waits for an entry and learns how long it took.
func (t *term) outcome(f *flight) (*state.Applied, uint64, error) {
	o, err := f.proposal.Wait()
	if err != nil {
		return nil, 0, err
	}
	applied, ok := o.Result.(*state.Applied)
	if !ok {
		return nil, 0, fmt.Errorf("entry %d was applied to %T", o.Index, o.Result)
	}
	t.shard.stats.Entries.Add(1)
	t.shard.stats.Commands.Add(uint64(len(f.cmds)))
	t.shard.stats.Requests.Add(uint64(len(f.requests)))
	busy := t.shard.group.Applying()
	t.pace.committed(o.Committed.Sub(f.began))
	t.inbox.left(len(f.requests), time.Since(f.began))
	t.company.applied(f.cost, busy-t.busy)
	t.busy = busy
	return applied, o.Index, nil
}

// turnedAway: the entry was not committed. If raft did not even take it (it is
// handing the leadership over, which may come to nothing, or the entry is larger than
// any message) the term goes on, and the memory, which has given out jobs for the
// entry, starts again from the state.
func (t *term) turnedAway(err error) bool {
	if code := fault.CodeOf(err); code != fault.Unavailable && code != fault.TooLarge {
		return false
	}
	for w, q := range t.parked {
		delete(t.parked, w)
		t.parking.Give(w.NS, 1)
		t.shard.stats.Parked.Add(-1)
		q.done <- Reply{Err: err}
	}
	t.table = t.shard.newTable()
	t.due.reset()
	t.leases.reset()
	time.Sleep(turnedAwayPause) // What is due comes up again at once.
	return true
}

// stop ends the node because of an error of the store, not of raft.
func (t *term) stop(err error) bool {
	t.shard.opts.Fatal(fmt.Errorf("proposal loop of shard %d: %w", t.shard.store.ID(), err))
	return false
}

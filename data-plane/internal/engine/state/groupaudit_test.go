package state

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// groupRows are the records of batches, chains and dependencies of a store.
type groupRows struct {
	bodies     map[job.ID]records.Body
	batches    map[job.BatchID]records.Batch
	callbacks  map[job.BatchID]bool // There is what it is to carry.
	members    map[job.BatchID]map[job.ID]records.Outcome
	open       map[job.Namespace]uint64
	ofBatch    map[job.BatchID]job.Namespace
	steps      map[job.ChainID]int
	chains     map[job.ChainID]records.ChainState
	waits      map[job.ID][]job.ID
	dependents map[job.ID][]job.ID // In the order of their numbers.
	before     map[job.ID]bool     // They have no rows yet.
	numbers    map[job.ID][]uint64
	waiters    map[job.ID]records.Waiters
	calls      map[job.ChainID]chainCalls
}

// chainCalls is what a chain asks for besides its steps.
type chainCalls struct{ onFailure, onExit, goOn bool }

func newGroupRows() groupRows {
	return groupRows{
		bodies: map[job.ID]records.Body{}, batches: map[job.BatchID]records.Batch{}, members: map[job.BatchID]map[job.ID]records.Outcome{},
		open: map[job.Namespace]uint64{}, ofBatch: map[job.BatchID]job.Namespace{}, steps: map[job.ChainID]int{},
		chains: map[job.ChainID]records.ChainState{}, waits: map[job.ID][]job.ID{}, dependents: map[job.ID][]job.ID{},
		callbacks: map[job.BatchID]bool{}, before: map[job.ID]bool{}, numbers: map[job.ID][]uint64{}, waiters: map[job.ID]records.Waiters{}, calls: map[job.ChainID]chainCalls{},
	}
}

func (g *groupRows) row(ns job.Namespace, family byte, k, v []byte) (err error) {
	var first, last [16]byte
	if len(k) >= 38 {
		first, last = [16]byte(k[22:38]), [16]byte(k[len(k)-16:])
	}
	switch family {
	case keys.Body:
		g.bodies[first], err = records.DecodeBody(v)
	case 'g':
		g.batches[first], err = records.DecodeBatch(v)
		g.ofBatch[first] = ns
	case 'C':
		g.callbacks[first] = true
		_, err = records.DecodeCallback(v)
	case 'm':
		if g.members[first] == nil {
			g.members[first] = map[job.ID]records.Outcome{}
		}
		g.members[first][last], err = records.DecodeOutcome(v)
	case 'G':
		g.open[ns], err = records.DecodeTally(v)
	case 'l':
		c, err := records.DecodeChain(v)
		if err != nil {
			return err
		}
		g.steps[first] = len(c.Steps)
		g.calls[first] = chainCalls{c.OnFailure != nil, c.OnExit != nil, c.GoOn}
	case 'L':
		g.chains[first], err = records.DecodeChainState(v)
	case keys.Waits:
		g.waits[first], err = records.DecodeIDs("waits", v)
	case 'd':
		if len(k) == 38 { // As it was before there were rows.
			g.before[first] = true
			g.dependents[first], err = records.DecodeIDs("dependents", v)
			return err
		}
		g.dependents[first] = append(g.dependents[first], job.ID(v))
		g.numbers[first] = append(g.numbers[first], binary.BigEndian.Uint64(k[38:]))
	case keys.Waiters:
		g.waiters[first], err = records.DecodeWaiters(v)
	}
	return err
}

// groups checks INV-9 to INV-11 for what ties jobs together.
func (a *auditor) groupTies() {
	a.batches()
	a.jobChains()
	a.dependencies()
}

// there finds a job whose records are in the store, even if its queue was deleted.
func (a *auditor) there(id job.ID) (records.Head, bool) {
	if h, ok := a.heads[id]; ok {
		return h, true
	}
	h, ok := a.left[id]
	return h, ok
}

// batches: the numbers of a batch are those of its members, and it has fired if and
// only if it is sealed and all members have ended (INV-10).
func (a *auditor) batches() {
	unsealed := map[job.Namespace]uint64{}
	for id, b := range a.groups.batches {
		var counts [records.OutcomeSlots]uint64
		for member, o := range a.groups.members[id] {
			counts[o]++
			h, there := a.there(member)
			switch {
			case b.Fired():
			case o == records.NoOutcome && (!there || h.State.Terminal()):
				a.t.Fatalf("%s is open for member %s, which is %s, there %v", id, member, h.State, there)
			case o != records.NoOutcome && o != records.OutcomeDeleted && there && records.OutcomeOf(h.State) != o:
				a.t.Fatalf("member %s of %s ended %s and is %s", member, id, o, h.State)
			}
			if body := a.groups.bodies[member]; there && (body.Batch != id || !h.Has(records.FlagBatch)) {
				a.t.Fatalf("member %s of %s does not know it", member, id)
			}
		}
		open := counts[records.NoOutcome]
		counts[records.NoOutcome] = 0
		if !b.Fired() && (counts != b.Counts || open != b.Open) || int(b.Total) != len(a.groups.members[id]) {
			a.t.Fatalf("%s says %d open of %d, %v; its members %d, %v", id, b.Open, b.Total, b.Counts, open, counts)
		}
		if b.Fired() != (b.Sealed && b.Open == 0) {
			a.t.Fatalf("%s has fired %v, sealed %v, %d open", id, b.Fired(), b.Sealed, b.Open)
		}
		if !b.CallbackID.IsZero() != (b.Fired() && b.Callback != "") {
			a.t.Fatalf("%s has callback %s, fired %v", id, b.CallbackID, b.Fired())
		}
		if a.groups.callbacks[id] != (!b.Fired() && b.Callback != "") {
			a.t.Fatalf("%s calls back to %q, fired %v; what that is to carry is there %v", id, b.Callback, b.Fired(), a.groups.callbacks[id])
		}
		delete(a.groups.callbacks, id)
		if !b.Sealed {
			unsealed[a.groups.ofBatch[id]]++
		}
	}
	if len(a.groups.callbacks) > 0 {
		a.t.Fatalf("callbacks of no batch: %v", a.groups.callbacks)
	}
	for ns, n := range a.groups.open {
		if unsealed[ns] != n {
			a.t.Fatalf("%s counts %d open batches, there are %d", ns, n, unsealed[ns])
		}
	}
	for id, body := range a.groups.bodies { // A batch that was deleted long after its end is not there.
		if _, there := a.groups.batches[body.Batch]; there {
			if _, ok := a.groups.members[body.Batch][id]; !ok {
				a.t.Fatalf("job %s names %s, which does not know it", id, body.Batch)
			}
		}
	}
	for id := range a.groups.members {
		if _, there := a.groups.batches[id]; !there {
			a.t.Fatalf("members of %s are left, which is not there", id)
		}
	}
}

// jobChains: every job of a chain is the one that the chain names for its step, so that no
// step was made twice, and the next step exists if and only if the one before led to it
// (INV-11).
func (a *auditor) jobChains() {
	if len(a.groups.steps) != len(a.groups.chains) {
		a.t.Fatalf("%d chains have steps, %d have a state", len(a.groups.steps), len(a.groups.chains))
	}
	for id, s := range a.groups.chains {
		if a.groups.steps[id] != s.Steps {
			a.t.Fatalf("%s has %d steps, its state says %d", id, a.groups.steps[id], s.Steps)
		}
		calls := a.groups.calls[id]
		last, there := a.there(s.Jobs[len(s.Jobs)-1])
		switch s.Status {
		case records.ChainRunning:
			if !there || last.State.Terminal() {
				a.t.Fatalf("%s runs, its furthest step is %s, there %v", id, last.State, there)
			}
		case records.ChainCompleted:
			if len(s.Jobs) != s.Steps {
				a.t.Fatalf("%s is completed after %d of %d steps", id, len(s.Jobs), s.Steps)
			}
		case records.ChainFailed:
			if there && last.State != job.Dead || calls.goOn || calls.onFailure != !s.OnFailure.IsZero() {
				a.t.Fatalf("%s failed, its furthest step is %s, on_failure %s", id, last.State, s.OnFailure)
			}
		}
		if ended := s.Status == records.ChainCompleted || s.Status == records.ChainExited; (ended && calls.onExit) != !s.OnExit.IsZero() {
			a.t.Fatalf("%s is %s, on_exit %s", id, s.Status, s.OnExit)
		}
	}
	for id, body := range a.groups.bodies {
		m := body
		s, there := a.groups.chains[m.Chain]
		if !there {
			continue // In none, or in one that was deleted long after its end.
		}
		named := map[int]job.ID{records.ChainOnExit: s.OnExit, records.ChainOnFailure: s.OnFailure}[m.ChainStep]
		if m.ChainStep >= 0 && m.ChainStep < len(s.Jobs) {
			named = s.Jobs[m.ChainStep]
		}
		if named != id {
			a.t.Fatalf("job %s is step %d of %s, which names %s there", id, m.ChainStep, m.Chain, named)
		}
	}
}

// dependencies: a job that others wait for knows them, and has notified them or is about to.
func (a *auditor) dependencies() {
	for id, h := range a.heads {
		if _, waits := a.groups.waits[id]; waits != h.Has(records.FlagBlocked) || waits && h.State.Terminal() {
			a.t.Fatalf("job %s is %s and waits %v, its flag says %v", id, h.State, waits, h.Has(records.FlagBlocked))
		}
		_, told := a.due[keys.Due{At: h.Finished, Kind: keys.DueDeliver, NS: a.ns[id], ID: id}]
		if h.Has(records.FlagDependents) && h.State.Terminal() && !told {
			a.t.Fatalf("job %s is %s and tells nobody", id, h.State)
		}
	}
	for id, open := range a.groups.waits {
		if len(open) == 0 {
			a.t.Fatalf("job %s waits for nothing", id)
		}
		_, there := a.heads[id] // If its queue is gone, a firing removes one half before the sweep removes the other.
		for _, on := range open {
			if there && !slices.Contains(a.groups.dependents[on], id) {
				a.t.Fatalf("job %s waits for %s, which does not know it", id, on)
			}
		}
	}
	if len(a.groups.waiters)+len(a.groups.before) != len(a.groups.dependents) {
		a.t.Fatalf("%d jobs are waited for, %d say by how many", len(a.groups.dependents), len(a.groups.waiters))
	}
	for on := range a.groups.dependents {
		w, n := a.groups.waiters[on], a.groups.numbers[on]
		if !a.groups.before[on] && (w.Count() != uint64(len(n)) || n[0] != w.Told || n[len(n)-1] != w.Made-1) {
			a.t.Fatalf("job %s is waited for by %+v, the rows are %v", on, w, n)
		}
		if h, ok := a.there(on); (!ok || !h.Has(records.FlagDependents)) && !a.delivers(on) {
			a.t.Fatalf("others wait for %s, which tells nobody", on)
		}
	}
	maps.DeleteFunc(a.due, func(d keys.Due, _ []byte) bool { return d.Kind == keys.DueDeliver })
}

// delivers reports whether there is a row by which others learn how a job ended.
func (a *auditor) delivers(id job.ID) bool {
	for d := range a.due {
		if d.Kind == keys.DueDeliver && d.ID == id {
			return true
		}
	}
	return false
}

package state

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// What the end of a job does to others, as the oracle sees it.

type shadowBatch struct {
	ns            job.Namespace
	callback      *command.Step
	sealed, fired bool
	members       map[job.ID]Outcome
}

type shadowChain struct {
	ns job.Namespace
	*command.Chain
	status         ChainStatus
	jobs           []job.ID
	failed, exited bool // on_failure, on_exit was made.
}

// advance takes the chain of a job on, if the job is its furthest step.
func (m *oracle) advance(id job.ID, j *shadow, o Outcome, exit bool) {
	c := m.chains[j.chain]
	if c == nil || c.status != ChainRunning || c.jobs[len(c.jobs)-1] != id {
		return
	}
	exit = exit && o == OutcomeCompleted
	switch n := len(c.jobs); {
	case o == OutcomeCompleted || o == OutcomeDead && c.GoOn:
		if n < len(c.Steps) && !exit {
			c.jobs = append(c.jobs, m.follow(j, &c.Steps[n], uint64(n)))
			return
		}
		if c.status = ChainCompleted; exit {
			c.status = ChainExited
		}
		if !c.exited && c.OnExit != nil {
			c.exited = true
			m.follow(j, c.OnExit, derivedOnExit)
		}
	case o == OutcomeDead:
		if c.status = ChainFailed; !c.failed && c.OnFailure != nil {
			c.failed = true
			m.follow(j, c.OnFailure, derivedOnFailure)
		}
	default:
		c.status = ChainCancelled
	}
}

func (m *oracle) follow(j *shadow, s *command.Step, n uint64) job.ID {
	c := &command.Enqueue{NS: j.ns, ID: job.Derived(m.now, j.chain, n), Queue: s.Queue, Priority: j.priority, Retry: j.retry, More: &command.EnqueueMore{}}
	if j.mortal {
		c.More.ExpireAt = m.now + j.ttl
	}
	if b := m.batches[j.batch]; b != nil && !b.fired {
		c.More.Batch = j.batch
	}
	m.create(c, "", j.chain)
	return c.ID
}

func (m *oracle) fireBatch(ns job.Namespace, id job.BatchID, b *shadowBatch) {
	if !b.sealed || b.fired || slices.Contains(slices.Collect(maps.Values(b.members)), NoOutcome) {
		return
	}
	if b.fired = true; b.callback != nil {
		m.create(&command.Enqueue{NS: ns, ID: job.Derived(m.now, id, 0), Queue: b.callback.Queue, Priority: job.Normal}, "", job.ChainID{})
	}
}

// told resolves the jobs that wait for another one.
func (m *oracle) told(d keys.Due) {
	o := m.tell[d]
	delete(m.tell, d)
	if j := m.jobs[d.ID]; j != nil && o != NoOutcome {
		if o = outcomeOf(j.state); o != NoOutcome {
			j.awaited = false
		}
	}
	for id, w := range m.jobs {
		switch {
		case o == NoOutcome || w.ns != d.NS || !w.waits[d.ID]:
		case o != OutcomeCompleted && w.policy != command.DependencyRun:
			m.unmet(id, w)
		default:
			if delete(w.waits, d.ID); len(w.waits) == 0 && w.state == job.Pending {
				m.ready(w)
			}
		}
	}
}

func (m *oracle) unmet(id job.ID, j *shadow) {
	if j.policy == command.DependencyCancel {
		m.end(id, j, OutcomeCancelled, NotDead, false)
		return
	}
	m.end(id, j, OutcomeDead, DeadDependency, false)
}

// groups wants chains and batches to be as far as the oracle's.
func (p *pair) groups() {
	space := keys.In(p.store.Prefix())
	for id, b := range p.m.batches {
		v, err := p.store.Get(space.Batch(b.ns, id))
		if err != nil {
			p.t.Fatalf("%s: %v", id, err)
		}
		got, err := decodeBatch(v)
		want := Batch{Sealed: b.sealed, Total: uint64(len(b.members)), CreatedAt: got.CreatedAt, FinishedAt: got.FinishedAt, Callback: got.Callback, CallbackID: got.CallbackID}
		for _, o := range b.members {
			if want.Counts[o]++; o == NoOutcome {
				want.Open++
			}
		}
		want.Counts[NoOutcome] = 0
		if err != nil || got != want || got.Fired() != b.fired || got.CallbackID.IsZero() == (b.fired && b.callback != nil) {
			p.t.Fatalf("%s is %+v, %v; want %+v, fired %v (INV-10)", id, got, err, want, b.fired)
		}
	}
	for id, c := range p.m.chains {
		v, err := p.store.Get(space.ChainState(c.ns, id))
		if err != nil {
			p.t.Fatalf("%s: %v", id, err)
		}
		got, err := decodeChainState(v)
		if err != nil || got.Status != c.status || !slices.Equal(got.Jobs, c.jobs) || got.OnFailure.IsZero() == c.failed || got.OnExit.IsZero() == c.exited {
			p.t.Fatalf("%s is %+v, %v; want %+v (INV-11)", id, got, err, c)
		}
	}
}

// more draws the options that only some jobs have.
func (g *generator) more(ns job.Namespace, queue string) *command.EnqueueMore {
	m := &command.EnqueueMore{OnDependency: command.DependencyPolicy(g.pick(3, "policy"))}
	if g.pick(4, "expires") == 0 {
		within := g.seconds(10, "within") - time.Second
		if g.calm {
			within += 2 * time.Second
		}
		m.ExpireAt = g.m.now + int64(within)
	}
	if g.pick(4, "parts") == 0 {
		m.Open = command.RetryParts(g.pick(16, "open"))
	}
	if g.pick(3, "batch") == 0 {
		m.Batch = g.batch()
	}
	for range g.pick(3, "depends") {
		if _, id := g.job(); !slices.Contains(m.DependsOn, id) {
			m.DependsOn = append(m.DependsOn, id)
		}
	}
	if g.pick(3, "chain") == 0 {
		m.Chain = &command.Chain{ID: job.ChainID{0, g.next}, Steps: []command.Step{{Queue: queue}}, GoOn: g.pick(3, "go on") == 0}
		for range 1 + g.pick(2, "steps") {
			m.Chain.Steps = append(m.Chain.Steps, command.Step{Queue: g.queue()})
		}
		m.Chain.OnExit, m.Chain.OnFailure = g.step(), g.step()
	}
	return m
}

func (g *generator) step() *command.Step {
	if g.pick(2, "step") == 0 {
		return nil
	}
	return &command.Step{Queue: g.queue(), Payload: []byte(`{"own":1}`)}
}

// batch is one that is there, or one that is not.
func (g *generator) batch() job.BatchID {
	ids := slices.SortedFunc(maps.Keys(g.m.batches), func(a, b job.BatchID) int { return bytes.Compare(a[:], b[:]) })
	if n := g.pick(len(ids)+1, "batch"); n < len(ids) {
		return ids[n]
	}
	return job.BatchID{0xff}
}

// grouped is what people do with batches and queues as a whole, and moves.
func (g *generator) grouped(ns job.Namespace, _ job.ID) []command.Command {
	g.next++
	return []command.Command{
		&command.MakeBatch{NS: ns, ID: job.BatchID{0, g.next}, Callback: g.step()},
		&command.SealBatch{NS: ns, ID: g.batch()},
	}
}

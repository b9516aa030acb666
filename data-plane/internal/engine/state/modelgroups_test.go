package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// The oracle: what the end of a job does to others.

type modelBatch struct {
	ns            job.Namespace
	callback      *command.Step
	sealed, fired bool
	firedAt       int64
	counts        [records.OutcomeSlots]uint64 // When it fired.
}

type modelChain struct {
	ns job.Namespace
	*command.Chain
	status         records.ChainStatus
	jobs           []job.ID
	failed, exited bool // on_failure, on_exit was made.
	ended          int64
}

func (c *modelChain) last() job.ID { return c.jobs[len(c.jobs)-1] }

// follow does what follows from the jobs that ended: the chain first, so that a batch
// does not end between two steps.
func (m *oracle) follow() {
	for len(m.ended) > 0 {
		j := m.ended[0]
		m.ended = m.ended[1:]
		o := records.OutcomeOf(j.state)
		if o == records.NoOutcome {
			o = records.OutcomeDeleted
		}
		m.advance(j, o)
		j.outcome, j.untold = o, m.now
		m.fireBatch(j.Batch)
	}
}

// advance continues the chain of a job, if the job is its furthest step.
func (m *oracle) advance(j *modelJob, o records.Outcome) {
	c := m.chains[j.chain]
	if c == nil || c.status != records.ChainRunning || c.last() != j.ID {
		return
	}
	exit := o == records.OutcomeCompleted && j.exit
	switch n := len(c.jobs); {
	case o == records.OutcomeCompleted || o == records.OutcomeDead && c.GoOn:
		if n < len(c.Steps) && !exit {
			c.jobs = append(c.jobs, m.next(j, &c.Steps[n], uint64(n)))
			return
		}
		c.ended = m.now
		if c.status = records.ChainCompleted; exit {
			c.status = records.ChainExited
		}
		if !c.exited && c.OnExit != nil {
			c.exited = true
			m.next(j, c.OnExit, derivedOnExit)
		}
	case o == records.OutcomeDead:
		c.ended = m.now
		if c.status = records.ChainFailed; !c.failed && c.OnFailure != nil {
			c.failed = true
			m.next(j, c.OnFailure, derivedOnFailure)
		}
	default:
		c.status, c.ended = records.ChainCancelled, m.now
	}
}

// next makes a job of a chain.
func (m *oracle) next(j *modelJob, s *command.Step, n uint64) job.ID {
	c := command.Enqueue{
		NS: j.NS, ID: job.Derived(m.now, j.chain, n), Queue: s.Queue, Priority: j.Priority, Retry: j.Retry, Tags: j.Tags,
		Agent: j.Agent,
	}
	if j.ExpireAt != 0 {
		c.ExpireAt = m.now + j.ExpireAt - j.made
	}
	if b := m.batches[j.Batch]; b != nil && !b.fired {
		c.Batch = j.Batch
	}
	made := m.create(c)
	made.chain, made.payload = j.chain, unknown
	return c.ID
}

// members counts the jobs of a batch by their outcomes.
func (m *oracle) members(id job.BatchID) (counts [records.OutcomeSlots]uint64) {
	for _, j := range m.jobs {
		if j.Batch == id {
			counts[j.outcome]++
		}
	}
	return counts
}

func (m *oracle) fireBatch(id job.BatchID) {
	b := m.batches[id]
	if b == nil || !b.sealed || b.fired || m.members(id)[records.NoOutcome] > 0 {
		return
	}
	b.firedAt = m.now
	if b.fired, b.counts = true, m.members(id); b.callback != nil {
		made := m.create(command.Enqueue{NS: b.ns, ID: job.Derived(m.now, id, 0), Queue: b.callback.Queue, Priority: job.Normal})
		made.payload = unknown
	}
}

// tell resolves the jobs that wait for one that ended.
func (m *oracle) tell(d keys.Due) {
	for _, on := range m.jobs {
		if on.NS != d.NS || on.ID != d.ID || on.untold != d.At {
			continue
		}
		on.untold = 0
		for _, j := range m.jobs {
			switch {
			case j.gone || j.NS != d.NS || !j.waits[d.ID]:
			case on.outcome != records.OutcomeCompleted && j.OnDependency != command.DependencyRun:
				m.unmet(j)
			default:
				if j.waits[d.ID] = false; !j.blocked() && j.state == job.Pending {
					m.ready(j)
				}
			}
		}
	}
}

func (m *oracle) unmet(j *modelJob) {
	if j.OnDependency == command.DependencyCancel {
		m.end(j, job.Cancelled, records.NotDead)
		return
	}
	m.end(j, job.Dead, records.DeadDependency)
}

// deleteEnded deletes what ended before a time. The members of a batch and the jobs of a
// chain that are still there belong to none any more.
func (m *oracle) deleteEnded(c *command.DeleteEnded) {
	for _, id := range c.Jobs {
		if j := m.find(c.NS, id); j != nil && j.state.Terminal() && j.finished <= c.Before {
			m.remove(j)
		}
	}
	for _, id := range c.Batches {
		if b := m.batches[id]; b != nil && b.ns == c.NS && b.fired && b.firedAt <= c.Before {
			delete(m.batches, id)
		}
	}
	for _, id := range c.Chains {
		if h := m.chains[id]; h != nil && h.ns == c.NS && h.status != records.ChainRunning && h.ended <= c.Before {
			delete(m.chains, id)
		}
	}
}

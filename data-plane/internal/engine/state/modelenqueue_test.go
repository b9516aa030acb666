package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// The oracle: admission, and enqueues that are known already.

type answerKey struct {
	queueKey
	key string
}

type modelAnswer struct {
	Result
	until int64
}

// enqueue makes a job; one from a call of many was admitted before.
func (m *oracle) enqueue(c *command.Enqueue, admitted bool) Result {
	res, known := m.known(c)
	if res.Replayed {
		return res
	}
	if !known {
		if why := m.refuses(c, job.BatchID{}); why != Accepted && !admitted {
			return Result{Refusal: why}
		}
		res = Result{ID: c.ID, State: m.create(*c).state}
	}
	if c.IdempotencyKey != "" {
		again := Result{ID: res.ID, State: res.State, Duplicate: res.Duplicate, Replayed: true}
		m.answers[answerKey{queueKey{c.NS, c.Queue}, c.IdempotencyKey}] = modelAnswer{again, m.now + int64(c.IdempotencyFor)}
	}
	return res
}

// known is the answer to a producer whose keys are in use.
func (m *oracle) known(c *command.Enqueue) (Result, bool) {
	k := queueKey{c.NS, c.Queue}
	if a := m.answers[answerKey{k, c.IdempotencyKey}]; a.until > m.now {
		return a.Result, true
	}
	if j := m.holder(k, c.UniqueKey); j != nil {
		return Result{ID: j.ID, State: j.state, Duplicate: true}, true
	}
	return Result{}, false
}

// holder returns the job that has a unique key, or nil.
func (m *oracle) holder(k queueKey, key string) *modelJob {
	for _, j := range m.jobs {
		if !j.gone && j.queue() == k && key != "" && j.UniqueKey == key && j.keyUntil > m.now {
			return j
		}
	}
	return nil
}

// refuses is why a job is not admitted; made is a batch that the same call makes.
func (m *oracle) refuses(c *command.Enqueue, made job.BatchID) Refusal {
	q, b := m.queues[queueKey{c.NS, c.Queue}], m.batches[c.Batch]
	switch {
	case q != nil && q.draining:
		return Draining
	case m.spent(c.NS, c.Queue, c.Tags, true):
		return BudgetSpent
	case c.Batch.IsZero() || c.Batch == made:
	case b == nil || b.ns != c.NS:
		return NoBatch
	case b.sealed:
		return BatchClosed
	}
	if slices.ContainsFunc(c.DependsOn, func(on job.ID) bool { return m.find(c.NS, on) == nil }) {
		return NoDependency
	}
	return Accepted
}

// atomic asks for all before the first: one that is refused refuses all. A call of
// which all jobs are known is a repeated one, and does nothing else either.
func (m *oracle) atomic(cmds []command.Command) (why Refusal, again bool) {
	var made job.BatchID
	fresh := false
	for _, c := range cmds {
		switch c := c.(type) {
		case *command.Enqueue:
			res, known := m.known(c)
			if !known {
				why = m.refuses(c, made)
			}
			fresh, again = fresh || !res.Replayed, again || res.Replayed
		case *command.MakeBatch:
			made = c.ID
			if m.batches[c.ID] != nil {
				why = Exists
			}
		}
		if why != Accepted {
			return why, false
		}
	}
	return Accepted, again && !fresh
}

// retryOf fills the unset parts of a policy from the queue, else from the defaults.
func (m *oracle) retryOf(c *command.Enqueue) command.RetryPolicy {
	q, p, open := m.queue(queueKey{c.NS, c.Queue}), c.Retry, c.RetryOpen
	if open == 0 && p.MaxRetries == 0 {
		open = command.RetryAll
	}
	take(&p, command.DefaultRetry(), open&^q.retrySet)
	take(&p, q.retry, open&q.retrySet)
	return p
}

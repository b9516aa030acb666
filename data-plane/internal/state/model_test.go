package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// oracle is the job machine as one would explain it: maps, no indexes, one command at
// a time. Only lease tokens are the engine's own.
type oracle struct {
	now     int64
	jobs    map[job.ID]*shadow
	left    map[job.ID]*shadow    // Of deleted and cleared queues: no sweep came by yet.
	locks   map[string]shadowLock // By lockName.
	queues  map[queueKey]*shadowQueue
	batches map[job.BatchID]*shadowBatch
	chains  map[job.ChainID]*shadowChain
	tell    map[keys.Due]Outcome // Endings that waiting jobs are still to learn of.
	grain   time.Duration        // Of the longest throttle window there ever was.
	turn    int                  // Counts jobs that become ready.
}

func newOracle() *oracle {
	return &oracle{
		now: epoch, jobs: map[job.ID]*shadow{}, left: map[job.ID]*shadow{}, locks: map[string]shadowLock{}, queues: map[queueKey]*shadowQueue{},
		batches: map[job.BatchID]*shadowBatch{}, chains: map[job.ChainID]*shadowChain{}, tell: map[keys.Due]Outcome{},
	}
}

type shadow struct {
	queueKey
	state                                                           job.State
	priority                                                        job.Priority
	attempt, crashes                                                uint32
	retry                                                           command.RetryPolicy
	due, expire, ttl                                                int64
	token                                                           command.Token
	worker                                                          string
	peer                                                            uint64
	reason                                                          DeadReason
	unique                                                          string // Its lock, while it may hold one.
	reclaimed, released, ranOut, holdNext, expired, awaited, mortal bool
	turn, grants, causes                                            int // causes: what allowed a lease (INV-4).
	waits                                                           map[job.ID]bool
	policy                                                          command.DependencyPolicy
	batch                                                           job.BatchID
	chain                                                           job.ChainID
}

type shadowLock struct {
	owner     job.ID
	expires   int64
	state     job.State
	duplicate bool
}

type shadowQueue struct {
	paused, draining bool
	max              uint32
	rate             command.Throttle
	starts           []int64
	retry            command.RetryPolicy
	retrySet         command.RetryParts
}

func (m *oracle) queue(k queueKey) *shadowQueue {
	if m.queues[k] == nil {
		m.queues[k] = &shadowQueue{}
	}
	return m.queues[k]
}

// lockName is unique or idempotency: "u" or "i", then the rest; "" is no lock.
func lockOf(kind string, k queueKey, key string) string {
	if key == "" {
		return ""
	}
	return kind + k.ns.String() + "/" + k.name + "/" + key
}

func (m *oracle) refuses(c *command.Enqueue) Refusal {
	b, in := m.batches[batchOf(c.More)]
	switch q := m.queues[queueKey{c.NS, c.Queue}]; {
	case q != nil && q.draining:
		return Draining
	case !batchOf(c.More).IsZero() && (!in || b.ns != c.NS):
		return NoBatch
	case in && b.sealed:
		return BatchClosed
	case c.More != nil && slices.ContainsFunc(c.More.DependsOn, func(on job.ID) bool { return m.jobs[on] == nil || m.jobs[on].ns != c.NS }):
		return NoDependency
	}
	return Accepted
}

func (m *oracle) enqueue(c *command.Enqueue) Result {
	k := queueKey{c.NS, c.Queue}
	again, unique := lockOf("i", k, c.IdempotencyKey), lockOf("u", k, c.UniqueKey)
	if l := m.locks[again]; l.expires > m.now {
		return Result{ID: l.owner, State: l.state, Duplicate: l.duplicate, Replayed: true}
	}
	res := Result{ID: c.ID}
	if l := m.locks[unique]; l.expires > m.now {
		res = Result{ID: l.owner, State: m.jobs[l.owner].state, Duplicate: true}
	} else if why := m.refuses(c); why != Accepted {
		return Result{Refusal: why}
	} else {
		if unique != "" {
			m.locks[unique] = shadowLock{owner: c.ID, expires: m.now + int64(c.UniqueFor)}
		}
		res.State = m.create(c, unique, job.ChainID{}).state
	}
	if again != "" {
		m.locks[again] = shadowLock{res.ID, m.now + int64(c.IdempotencyFor), res.State, res.Duplicate}
	}
	return res
}

func (m *oracle) create(c *command.Enqueue, unique string, chain job.ChainID) *shadow {
	j := &shadow{queueKey: queueKey{c.NS, c.Queue}, priority: c.Priority, unique: unique, chain: chain, waits: map[job.ID]bool{}, causes: 1}
	m.jobs[c.ID] = j
	more, unmet := c.More, false
	if more == nil {
		more = &command.EnqueueMore{}
	}
	j.retry = fill(c.Retry, more.Open, m.queue(j.queueKey))
	if j.policy, j.batch = more.OnDependency, more.Batch; more.ExpireAt != 0 {
		j.mortal, j.ttl, j.expire = true, more.ExpireAt-m.now, max(more.ExpireAt, m.now)
	}
	if more.Chain != nil {
		j.chain = more.Chain.ID
		m.chains[j.chain] = &shadowChain{ns: c.NS, Chain: more.Chain, jobs: []job.ID{c.ID}}
	}
	if b := m.batches[j.batch]; b != nil {
		b.members[c.ID] = NoOutcome
	}
	for _, on := range more.DependsOn {
		dep := m.jobs[on]
		unmet = unmet || dep.state.Terminal() && dep.state != job.Completed && j.policy != command.DependencyRun
		if !dep.state.Terminal() {
			j.waits[on], dep.awaited = true, true
		}
	}
	if m.ready(j); c.ScheduledAt > m.now {
		j.state, j.due = job.Scheduled, c.ScheduledAt
	}
	if unmet {
		m.unmet(c.ID, j)
	}
	return j
}

// fill gives the open parts of a policy what the queue says, else the defaults.
func fill(p command.RetryPolicy, open command.RetryParts, q *shadowQueue) command.RetryPolicy {
	if open == 0 && p.MaxRetries == 0 {
		open = command.RetryAll
	}
	pick := func(part command.RetryParts) command.RetryPolicy {
		switch {
		case open&part == 0:
			return p
		case q.retrySet&part != 0:
			return q.retry
		}
		return command.DefaultRetry()
	}
	return command.RetryPolicy{
		MaxRetries: pick(command.RetryMax).MaxRetries, Backoff: pick(command.RetryBackoff).Backoff,
		BaseDelay: pick(command.RetryBaseDelay).BaseDelay, MaxDelay: pick(command.RetryMaxDelay).MaxDelay,
	}
}

func (m *oracle) ready(j *shadow) {
	m.turn++
	j.state, j.due, j.turn, j.released, j.holdNext, j.expired = job.Pending, 0, m.turn, false, false, false
}

// end is every ending of a job; deleted is no state.
func (m *oracle) end(id job.ID, j *shadow, o Outcome, why DeadReason, exit bool) {
	j.state = map[Outcome]job.State{OutcomeCompleted: job.Completed, OutcomeDead: job.Dead, OutcomeCancelled: job.Cancelled}[o]
	j.due, j.reason, j.holdNext, j.expired, j.waits = 0, why, false, false, map[job.ID]bool{}
	if m.locks[j.unique].owner == id {
		delete(m.locks, j.unique)
	}
	j.unique = ""
	m.advance(id, j, o, exit)
	if b := m.batches[j.batch]; b != nil && !b.fired && b.members[id] == NoOutcome {
		b.members[id] = o
		m.fireBatch(j.ns, j.batch, b)
	}
	if j.awaited {
		m.tell[keys.Due{At: m.now, Kind: keys.DueDeliver, NS: j.ns, ID: id}] = o
	}
}

// fetch grants what the engine granted, if it may.
func (m *oracle) fetch(c *command.Fetch, got Result) error {
	granted := map[job.ID]Grant{}
	for _, g := range got.Grants {
		granted[g.ID] = g
	}
	for _, id := range c.Jobs {
		j, g := m.jobs[id], granted[id]
		may := j != nil && j.ns == c.NS && j.state == job.Pending && len(j.waits) == 0 && m.room(j.queueKey, g.Attempt > 0)
		switch {
		case may != (g.Attempt > 0):
			return fmt.Errorf("job %s granted %+v, may be %v (INV-3, INV-6, INV-7)", id, g, may)
		case !may:
			continue
		}
		if q := m.queue(j.queueKey); !q.rate.IsZero() {
			q.starts = append(q.starts, m.now)
		}
		j.attempt++
		if j.grants++; j.grants > j.causes || g.Attempt != j.attempt || g.Epoch == j.token.Epoch {
			return fmt.Errorf("lease %d of job %s, %d are allowed (INV-4); attempt %d, want %d", j.grants, id, j.causes, g.Attempt, j.attempt)
		}
		j.state, j.due, j.token = job.Active, m.now+int64(c.Lease), command.Token{Attempt: j.attempt, Epoch: g.Epoch}
		j.worker, j.peer, j.reclaimed, j.released = c.Worker, c.Peer, false, false
	}
	return nil
}

// room reports whether a queue may hand out one more job. A throttle never hands out
// too much, and may hold a start back for the grain of its window longer: there the
// engine's own answer counts.
func (m *oracle) room(k queueKey, was bool) bool {
	q, held, surely, perhaps := m.queue(k), uint32(0), uint32(0), uint32(0)
	for _, j := range m.jobs {
		if j.queueKey == k && j.state.Leased() {
			held++
		}
	}
	for _, at := range q.starts {
		if m.now-at < int64(q.rate.Window) {
			surely++
		}
		if m.now-at < int64(q.rate.Window)+int64(m.grain) {
			perhaps++
		}
	}
	switch {
	case q.paused, q.max > 0 && held >= q.max, !q.rate.IsZero() && surely >= q.rate.Limit:
		return false
	case q.rate.IsZero(), perhaps < q.rate.Limit:
		return true
	}
	return was
}

func (j *shadow) holds(by command.Holder) bool {
	if !by.Token.IsZero() {
		return by.Token == j.token
	}
	return j.crashes == 0 && !j.ranOut || by.Worker != "" && by.Worker == j.worker || by.Worker == "" && by.Peer == j.peer
}

// find looks a job up, and its lease if by is given.
func (m *oracle) find(ns job.Namespace, id job.ID, by *command.Holder) (*shadow, Refusal) {
	switch j := m.jobs[id]; {
	case j == nil || j.ns != ns:
		return &shadow{}, NotFound
	case by == nil:
		return j, Accepted
	case !j.state.Leased() && by.Token.IsZero():
		return j, NotActive
	case !j.state.Leased() || !j.holds(*by):
		return j, LeaseLost
	default:
		return j, Accepted
	}
}

func (m *oracle) ack(c *command.Ack) Refusal {
	j, why := m.find(c.NS, c.ID, &c.By)
	if why == LeaseLost && j.state == job.Completed && j.holds(c.By) {
		return Accepted
	}
	if why == Accepted {
		m.end(c.ID, j, OutcomeCompleted, NotDead, c.More != nil && c.More.Step == command.StepExit)
	}
	return why
}

func (m *oracle) fail(c *command.Fail) Refusal {
	j, why := m.find(c.NS, c.ID, &c.By)
	over := j.state == job.Retrying || j.state == job.Dead || j.state == job.Cancelled || j.state == job.Held || c.Release && j.released
	more := c.More
	if more == nil {
		more = &command.FailMore{}
	}
	switch {
	case why == LeaseLost && over && !j.reclaimed && j.holds(c.By):
		return Accepted
	case why != Accepted:
	case j.state == job.Cancelling:
		m.letGo(c.ID, j)
	case !c.Release && more.Terminal:
		m.end(c.ID, j, OutcomeDead, DeadTerminal, false)
	case !c.Release && j.attempt >= j.retry.MaxRetries:
		m.end(c.ID, j, OutcomeDead, DeadRetries, false)
	default:
		m.again(c, j, more)
	}
	return why
}

// again is an attempt that is not the last one.
func (m *oracle) again(c *command.Fail, j *shadow, more *command.FailMore) {
	wait := job.Jitter(j.retry.Backoff.Delay(j.attempt, j.retry.BaseDelay, j.retry.MaxDelay), c.ID, j.attempt)
	if more.HasDelay {
		wait = more.Delay
	}
	j.causes++
	if m.ready(j); c.Release {
		j.attempt--
		j.released = true
	}
	if !c.Release || more.HasDelay && more.Delay > 0 {
		j.state, j.due = job.Retrying, m.now+max(int64(wait), 1)
	}
}

// letGo is what a worker was asked to let go of its job for.
func (m *oracle) letGo(id job.ID, j *shadow) {
	switch {
	case j.holdNext:
		j.attempt--
		j.state, j.due, j.holdNext = job.Held, 0, false
	case j.expired:
		m.end(id, j, OutcomeDead, DeadExpired, false)
	default:
		m.end(id, j, OutcomeCancelled, NotDead, false)
	}
}

func (m *oracle) fire(d keys.Due) {
	j := m.jobs[d.ID]
	switch {
	case d.At > m.now:
	case d.Kind == keys.DueDeliver:
		m.told(d)
	case j == nil || j.ns != d.NS:
	case d.Kind == keys.DueExpire:
		switch {
		case j.state.Terminal() || j.expire != d.At || j.state == job.Cancelling && !j.holdNext:
		case j.state.Leased():
			j.state, j.holdNext, j.expired = job.Cancelling, false, true
		default:
			m.end(d.ID, j, OutcomeDead, DeadExpired, false)
		}
	case j.due == 0 || j.due != d.At || dueKind(j.state) != d.Kind:
	case !j.state.Leased():
		m.ready(j)
	default:
		j.reclaimed, j.ranOut = true, j.ranOut || j.holdNext
		if j.state == job.Cancelling {
			m.letGo(d.ID, j)
			return
		}
		j.crashes++
		j.causes++
		if m.ready(j); j.crashes >= CrashLimit {
			m.end(d.ID, j, OutcomeDead, DeadCrashes, false)
		}
	}
}

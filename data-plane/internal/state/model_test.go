package state

import (
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// oracle is the job machine as one would explain it: lists of what there is, no index
// and no counter, and what can be computed from them is computed anew each time. Only
// places in the log are the engine's own: leases, and the id of a job that a schedule
// makes by hand.
//
// The model is this file and modelpeople, modelgroups, modelmoney and modelschedule:
// 1,200 lines with their comments, for 35 kinds of commands. The aim is 400; this file
// alone, jobs as producers and workers see them, is 490, and what money, agents, groups
// and schedules add is as many rules again. How the model is compared with the engine
// (modelpair) and what is drawn (generator) is no part of it.
type oracle struct {
	now       int64
	turn      int         // Counts jobs that become ready.
	jobs      []*modelJob // All that ever were, the oldest first.
	queues    map[queueKey]*modelQueue
	answers   map[answerKey]modelAnswer // To enqueues with an idempotency key.
	batches   map[job.BatchID]*modelBatch
	chains    map[job.ChainID]*modelChain
	schedules map[scheduleKey]*modelSchedule
	budgets   map[budgetAt]*modelBudget
	policies  []*command.PutPolicy // The oldest first.
	reports   []modelReport        // Of what models were used for, the oldest first.
	ended     []*modelJob          // By this command: what follows on it comes after it.
}

func newOracle() *oracle {
	return &oracle{
		now: epoch, queues: map[queueKey]*modelQueue{}, answers: map[answerKey]modelAnswer{}, batches: map[job.BatchID]*modelBatch{},
		chains: map[job.ChainID]*modelChain{}, schedules: map[scheduleKey]*modelSchedule{}, budgets: map[budgetAt]*modelBudget{},
	}
}

// modelJob is a job: as it was asked for, but its queue, key and retry policy are
// those it has now, and how it is.
type modelJob struct {
	command.Enqueue
	state                 job.State
	reason                DeadReason
	attempt, crashes      uint32
	made, started, due    int64
	expire, keyUntil      int64
	epoch                 keys.Position // Of its lease.
	worker                string
	peer                  uint64
	turn                  int
	then                  job.State // What becomes of it when its worker lets go, and why.
	why                   DeadReason
	approvers             []string // Of its hold, and what happens when nobody decides.
	approveAtLast         bool
	released, ranOut      bool            // It was just given back; a lease of it ran out.
	reclaimed             bool            // Its last lease was not settled by its worker.
	waits                 map[job.ID]bool // For these jobs.
	chain                 job.ChainID
	exit                  bool // Its worker wants no more steps.
	outcome               Outcome
	untold                int64 // It ended then, and those who wait for it do not know; 0: they do.
	gone, removed, dearer bool  // Not there; not even in the store; known to cost too much.
	iterations            []modelIteration
}

type modelQueue struct {
	paused, draining bool
	max              uint32
	rate             command.Throttle
	starts           []startRun
	retry            command.RetryPolicy
	retrySet         command.RetryParts
}

type answerKey struct {
	queueKey
	key string
}

type modelAnswer struct {
	Result
	until int64
}

func (m *oracle) queue(k queueKey) *modelQueue {
	if m.queues[k] == nil {
		m.queues[k] = &modelQueue{}
	}
	return m.queues[k]
}

func (j *modelJob) queue() queueKey { return queueKey{j.NS, j.Queue} }

// find returns a job that is there, or nil.
func (m *oracle) find(ns job.Namespace, id job.ID) *modelJob {
	for _, j := range m.jobs {
		if j.NS == ns && j.ID == id && !j.gone {
			return j
		}
	}
	return nil
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

// refuses is why a job may not come in; made is a batch that the same call makes.
func (m *oracle) refuses(c *command.Enqueue, made job.BatchID) Refusal {
	q, b := m.queues[queueKey{c.NS, c.Queue}], m.batches[c.More.Batch]
	switch {
	case q != nil && q.draining:
		return Draining
	case m.spent(c.NS, c.Queue, c.Tags, true):
		return BudgetSpent
	case c.More.Batch.IsZero() || c.More.Batch == made:
	case b == nil || b.ns != c.NS:
		return NoBatch
	case b.sealed:
		return BatchClosed
	}
	if slices.ContainsFunc(c.More.DependsOn, func(on job.ID) bool { return m.find(c.NS, on) == nil }) {
		return NoDependency
	}
	return Accepted
}

// enqueue makes a job; one that was asked for in a call of many was admitted before.
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

// together asks for all before the first: one that is refused refuses all. A call of
// which all jobs are known is a repetition, which does nothing else either.
func (m *oracle) together(cmds []command.Command) (why Refusal, again bool) {
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

// create makes a job, whoever asks for it.
func (m *oracle) create(c command.Enqueue) *modelJob {
	c.Retry = m.retryOf(&c)
	j := &modelJob{Enqueue: c, made: m.now, keyUntil: m.now + int64(c.UniqueFor), waits: map[job.ID]bool{}}
	m.jobs = append(m.jobs, j)
	if c.More.ExpireAt != 0 {
		j.expire = max(c.More.ExpireAt, m.now)
	}
	if c.More.Chain != nil {
		j.chain = c.More.Chain.ID
		m.chains[j.chain] = &modelChain{ns: c.NS, Chain: c.More.Chain, jobs: []job.ID{c.ID}}
	}
	if m.ready(j); c.ScheduledAt > m.now {
		j.state, j.due = job.Scheduled, c.ScheduledAt
	}
	if p := m.policyFor(j); p != nil {
		m.hold(j, p.Expires, p.ApproveAtLast, p.Approvers)
	}
	unmet := false
	for _, on := range c.More.DependsOn {
		dep := m.find(c.NS, on)
		j.waits[on] = !dep.state.Terminal()
		unmet = unmet || dep.state.Terminal() && dep.state != job.Completed && c.More.OnDependency != command.DependencyRun
	}
	if unmet {
		m.unmet(j)
	}
	return j
}

// retryOf gives the open parts of a policy what the queue says, else the defaults.
func (m *oracle) retryOf(c *command.Enqueue) command.RetryPolicy {
	q, p, open := m.queue(queueKey{c.NS, c.Queue}), c.Retry, c.More.Open
	if open == 0 && p.MaxRetries == 0 {
		open = command.RetryAll
	}
	take(&p, command.DefaultRetry(), open&^q.retrySet)
	take(&p, q.retry, open&q.retrySet)
	return p
}

func (j *modelJob) blocked() bool {
	for _, open := range j.waits {
		if open {
			return true
		}
	}
	return false
}

// ready puts a job at the end of its order.
func (m *oracle) ready(j *modelJob) {
	m.turn++
	j.state, j.due, j.turn, j.released = job.Pending, 0, m.turn, false
}

// hold stops a job until somebody decides, within some time or (0) whenever.
func (m *oracle) hold(j *modelJob, within time.Duration, approveAtLast bool, approvers []string) {
	j.state, j.due, j.approveAtLast, j.approvers = job.Held, 0, approveAtLast, approvers
	if within > 0 {
		j.due = m.now + int64(within)
	}
}

// end is every ending of a job.
func (m *oracle) end(j *modelJob, s job.State, why DeadReason) {
	j.state, j.reason, j.due, j.UniqueKey, j.waits = s, why, 0, "", map[job.ID]bool{}
	m.ended = append(m.ended, j)
}

// ask asks the worker of a job to let go of it; letGo is what happens then.
func (j *modelJob) ask(then job.State, why DeadReason) {
	j.state, j.then, j.why = job.Cancelling, then, why
}

func (m *oracle) letGo(j *modelJob) {
	if j.then != job.Held {
		m.end(j, j.then, j.why)
		return
	}
	j.attempt--
	m.hold(j, 0, false, nil)
}

// fetch leases jobs; the leases are called as the engine called them.
func (m *oracle) fetch(c *command.Fetch, got []Grant) (out []Grant) {
	for _, id := range c.Jobs {
		j := m.find(c.NS, id)
		if j == nil || j.state != job.Pending || j.blocked() || !m.room(j.queue()) {
			continue
		}
		if m.spent(j.NS, j.Queue, j.Tags, false) { // On a tag: the queue has room.
			m.hold(j, time.Duration(endOfDay(m.now)-m.now), true, nil)
			continue
		}
		m.queue(j.queue()).start(m.now)
		j.attempt++
		j.state, j.started, j.worker, j.peer, j.reclaimed, j.released = job.Active, m.now, c.Worker, c.Peer, false, false
		j.due = min(m.now+int64(c.Lease), j.limit())
		g := Grant{ID: id, Attempt: j.attempt}
		if n := len(out); n < len(got) && got[n].Epoch != j.epoch {
			g.Epoch, j.epoch = got[n].Epoch, got[n].Epoch
		}
		out = append(out, g)
	}
	return out
}

// room reports whether a queue may hand out one more job.
func (m *oracle) room(k queueKey) bool {
	q, leased, started := m.queue(k), uint32(0), uint32(0)
	for _, j := range m.jobs {
		if !j.gone && j.queue() == k && j.state.Leased() {
			leased++
		}
	}
	for _, s := range q.starts {
		if m.now-s.last < int64(q.rate.Window) {
			started += s.n
		}
	}
	return !q.paused && (q.max == 0 || leased < q.max) && (q.rate.IsZero() || started < q.rate.Limit) && !m.spent(k.ns, k.name, nil, false)
}

// start counts a lease. Those closer together than a grain of the window leave it
// together, with the last, so that none counts for less than the window (INV-7).
func (q *modelQueue) start(now int64) {
	if q.rate.IsZero() {
		return
	}
	q.starts = slices.DeleteFunc(q.starts, func(s startRun) bool { return now-s.last >= int64(q.rate.Window) })
	if n := len(q.starts); n > 0 && now-q.starts[n-1].first <= int64(q.rate.Window)/startGrain {
		q.starts[n-1].last, q.starts[n-1].n = now, q.starts[n-1].n+1
		return
	}
	q.starts = append(q.starts, startRun{now, now, 1})
}

// holds reports whether the caller is the one who has the lease of a job.
func (j *modelJob) holds(by command.Holder) bool {
	if !by.Token.IsZero() {
		return by.Token.Epoch == j.epoch
	}
	return j.crashes == 0 && !j.ranOut || by.Worker != "" && by.Worker == j.worker || by.Worker == "" && by.Peer == j.peer
}

// leased finds a job and whether the caller may settle its lease.
func (m *oracle) leased(ns job.Namespace, id job.ID, by command.Holder) (*modelJob, Refusal) {
	switch j := m.find(ns, id); {
	case j == nil:
		return &modelJob{}, NotFound
	case !j.state.Leased() && by.Token.IsZero():
		return j, NotActive
	case !j.state.Leased() || !j.holds(by):
		return j, LeaseLost
	default:
		return j, Accepted
	}
}

func (m *oracle) ack(c *command.Ack) Refusal {
	j, why := m.leased(c.NS, c.ID, c.By)
	n := len(j.iterations) - 1
	switch {
	case why == LeaseLost && (j.state == job.Completed && j.holds(c.By) || n >= 0 && j.iterations[n].lease == c.By.Token.Epoch):
		return Accepted // Said again.
	case why != Accepted:
		return why
	case c.More.Agent != command.AgentUnsaid && j.More.Agent == nil:
		return NotAgent
	}
	m.report(j, c.More.Usage)
	if j.More.Agent != nil && m.iterated(j, c.More.Agent) {
		return Accepted
	}
	j.exit = c.More.Step == command.StepExit
	m.end(j, job.Completed, NotDead)
	return Accepted
}

func (m *oracle) fail(c *command.Fail) Refusal {
	j, why := m.leased(c.NS, c.ID, c.By)
	settled := j.state == job.Retrying || j.state == job.Dead || j.state == job.Cancelled || j.state == job.Held || c.Release && j.released
	if why == LeaseLost && settled && !j.reclaimed && j.holds(c.By) {
		return Accepted // Said again.
	}
	if why != Accepted {
		return why
	}
	switch m.report(j, c.More.Usage); {
	case j.state == job.Cancelling:
		m.letGo(j)
	case c.Release:
		j.attempt--
		if m.tooDear(j) {
			return Accepted
		}
		if m.ready(j); c.More.HasDelay && c.More.Delay > 0 {
			j.state, j.due = job.Retrying, m.now+int64(c.More.Delay)
		}
		j.released = true
	case c.More.Terminal:
		m.end(j, job.Dead, DeadTerminal)
	default:
		m.failed(j, c.More)
	}
	return Accepted
}

// failed is an attempt that failed and is perhaps not the last one.
func (m *oracle) failed(j *modelJob, more *command.FailMore) {
	if j.attempt >= j.Retry.MaxRetries {
		m.end(j, job.Dead, DeadRetries)
		return
	}
	if m.tooDear(j) {
		return
	}
	wait := job.Jitter(j.Retry.Backoff.Delay(j.attempt, j.Retry.BaseDelay, j.Retry.MaxDelay), j.ID, j.attempt)
	if more.HasDelay {
		wait = more.Delay
	}
	j.state, j.due = job.Retrying, m.now+max(int64(wait), 1)
}

func (m *oracle) heartbeat(c *command.Heartbeat) Refusal {
	j, why := m.leased(c.NS, c.ID, c.By)
	if why == Accepted {
		told, before := j.dearer, m.over(j)
		m.report(j, c.More.Usage)
		if now := m.over(j); j.state == job.Active && j.dearer && (!told || now > before) {
			switch now {
			case overHold:
				j.ask(job.Held, NotDead)
			case overReject:
				j.ask(job.Dead, DeadBudget)
			}
		}
	}
	return why
}

func (m *oracle) extend(c *command.Extend) Refusal {
	j := m.find(c.NS, c.ID)
	if j == nil || !j.state.Leased() || j.epoch != c.Epoch || min(c.Until, j.limit()) <= j.due {
		return WrongState
	}
	j.due = min(c.Until, j.limit())
	return Accepted
}

// fire does what was to happen at a time, if it still is.
func (m *oracle) fire(d keys.Due) {
	j := m.find(d.NS, d.ID)
	switch {
	case d.At > m.now:
	case d.Kind == keys.DueDeliver:
		m.tell(d)
	case j == nil:
	case d.Kind == keys.DueExpire:
		switch {
		case j.state.Terminal() || j.expire != d.At || j.state == job.Cancelling && j.then != job.Held:
		case j.state.Leased():
			j.ask(job.Dead, DeadExpired)
		default:
			m.end(j, job.Dead, DeadExpired)
		}
	case j.due == 0 || j.due != d.At || dueKind(j.state) != d.Kind:
	case j.state == job.Held:
		m.decide(j, j.approveAtLast)
	case j.state.Leased():
		m.ranOut(j)
	default:
		m.ready(j)
	}
}

// ranOut is a lease that nobody settled in time.
func (m *oracle) ranOut(j *modelJob) {
	late := j.due >= j.limit()
	j.reclaimed = true
	switch {
	case j.state == job.Cancelling:
		j.ranOut = j.ranOut || j.then == job.Held
		m.letGo(j)
	case late:
		j.ranOut = true
		m.failed(j, &command.FailMore{})
	default:
		if j.crashes++; j.crashes >= CrashLimit {
			m.end(j, job.Dead, DeadCrashes)
		} else if !m.tooDear(j) {
			m.ready(j)
		}
	}
}
